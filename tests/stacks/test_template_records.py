"""What each environment becomes is what its record holds: a property changes only in review."""

from __future__ import annotations

import pytest

from tests.support import records
from tests.support.recorded import TEMPLATES, Environment, environments, recorded


@pytest.mark.parametrize("environment", list(environments()), ids=lambda environment: environment.name)
def test_the_templates_are_those_of_the_record(environment: Environment) -> None:
    """`test_reachable.py` synthesizes all of them but those of strangers: a comparison costs no synth."""
    base = recorded(TEMPLATES, environment.base)
    assert records.difference(environment.file, environment.today(), base=base) == ""


def test_no_record_is_of_nothing() -> None:
    assert {file.stem for file in TEMPLATES.glob("*")} == {environment.name for environment in environments()}

"""What each environment becomes is what its record holds: a property changes only in review."""

from __future__ import annotations

import pytest

from tests.support import records
from tests.support.recorded import TEMPLATES, Environment, environments, recorded

COMPARED_EACH_TIME = {
    "dev", "local", "prod", "data-in-s3", "dynamic-storage", "observability", "slurm", "teams", "training-plan",
    "closed", "closed-build", "everything", "existing", "registries", "slurm-built", "slurm-options",
    "behind-a-proxy", "slurm-behind-a-proxy",
}  # fmt: skip
"""What other tests of this folder look at as well, so that a comparison costs no synth; two have all other branches."""


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in COMPARED_EACH_TIME else pytest.mark.slow)
        for each in environments()
    ],
)
def test_the_templates_are_those_of_the_record(environment: Environment) -> None:
    base = recorded(TEMPLATES, environment.base)
    assert records.difference(environment.file, environment.today(), base=base) == ""


def test_no_record_is_of_nothing() -> None:
    assert {file.stem for file in TEMPLATES.glob("*")} == {each.name for each in environments()}

"""What follows from each environment file is what `plans.txt` records."""

from __future__ import annotations

import pytest

from tests.core import said_plans
from tests.support import records


@pytest.mark.parametrize("name", said_plans.plans())
def test_a_plan_is_the_recorded_one(name: str) -> None:
    recorded = {name: said_plans.recorded().get(name, {})}
    assert records.differences(recorded, {name: said_plans.today(name)}) == [], "Fix: correct it, or make records"


def test_no_record_is_of_nothing() -> None:
    assert set(said_plans.recorded()) == set(said_plans.plans())

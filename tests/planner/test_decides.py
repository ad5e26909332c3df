from __future__ import annotations

import pytest

from hyperpod_ray.planner import checks, decides
from hyperpod_ray.planner.ranges import DAY
from tests.planner.test_checks import TRAINING, WORKERS, plan_of


def test_what_decides_the_end_is_the_widest_span() -> None:
    """A measured speed leaves the interruptions; twice the rate and slower repairs are then what counts."""
    base = {"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8}
    unsure = checks.outlook(plan_of({**base, "training": TRAINING}))
    sure = checks.outlook(plan_of({**base, "training": {**TRAINING, "tokens_per_second": 600}}))
    assert unsure is not None
    assert sure is not None
    first, *rest = decides.drivers(unsure)
    assert first.name == "speed of a whole run"
    assert all(first.width >= driver.width for driver in rest)
    assert decides.drivers(sure)[0].name == "how often it is interrupted"
    assert "What decides it: how often it is interrupted" in decides.bound_by(sure)
    # each span alone lies inside the span of all together
    assert unsure.finish_seconds is not None
    for driver in decides.drivers(unsure):
        assert unsure.finish_seconds.low / DAY <= driver.days.low <= driver.days.high
        assert driver.days.high <= unsure.finish_seconds.high / DAY


def test_each_span_moves_one_thing_alone() -> None:
    """Of interruptions the rate; of restarts what each takes; all else is central."""
    run = checks.outlook(plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": TRAINING}))
    assert run is not None and run.work_seconds is not None
    by_name = {driver.name: driver.days for driver in decides.drivers(run)}
    central = run.work_seconds.central / DAY
    shares = [run.goodput(level, only_rate=True) for level in ("low", "central", "high")]
    rate = by_name["how often it is interrupted"]
    assert (rate.low, rate.central, rate.high) == pytest.approx([central / share for share in sorted(shares)[::-1]])
    both = [central / run.goodput(level) for level in ("low", "high")]
    assert rate.high - rate.low < abs(both[1] - both[0]), "with restarts too it would be wider"


def test_a_span_of_days_is_work_by_share() -> None:
    span = decides._driver("x", 100.0, [0.5, 0.8, 1.0])
    assert (span.days.low, span.days.central, span.days.high, span.width) == (100, 125, 200, 100)
    assert decides._driver("x", 100.0, [0.0, 0.8, 1.0]).days.high == float("inf")

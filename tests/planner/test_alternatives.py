from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.planner import alternatives
from hyperpod_ray.planner.cluster import bill, cluster
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.pricing import price_file
from tests.planner.environment_helpers import DATE
from tests.planner.test_checks import TRAINING, WORKERS, plan_of


def table(sort: alternatives.Sort, **training: Any) -> list[alternatives.Alternative]:
    section = {**TRAINING, **training}
    plan = plan_of({"ray/workers/0/replicas": 8, f"{WORKERS}/count": 8, "training": section})
    outlook = Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())
    prices = price_file.recorded()
    return alternatives.table(outlook, bill(plan, prices, day=DATE), plan, prices, sort=sort)


@pytest.mark.parametrize("sort", ["days", "dollars", "goodput"])
def test_what_does_not_run_comes_after_all_that_does(sort: alternatives.Sort) -> None:
    """By the figures themselves: nodes whose accelerators are too small have neither days nor goodput."""
    rows = table(sort)
    figures = [
        {"days": row.days and row.days.central, "dollars": row.dollars and row.dollars.central, "goodput": row.goodput}[
            sort
        ]
        for row in rows
    ]
    known = [figure for figure in figures if figure is not None]
    assert figures == [*known, *[None] * (len(figures) - len(known))]
    assert known == sorted(known, reverse=sort == "goodput")
    impossible = [row for row in rows if row.fits not in {"yes", "probably"}]
    assert impossible
    assert all(row.days is None and row.dollars is None and row.goodput is None for row in impossible)


@pytest.mark.parametrize("sort", ["days", "dollars", "goodput"])
def test_alternatives_are_sorted_by_what_is_asked_for(sort: alternatives.Sort) -> None:
    made = table(sort)
    values = [row.key(sort) for row in made]
    assert values == sorted(values)
    assert sum(row.own for row in made) == 1
    names = " ".join(row.name for row in made)
    for part in ("ml.p5en.48xlarge", "ml.p6-b200.48xlarge", "ml.p4de.24xlarge", "us-east-1", "spot", "training plan"):
        assert part in names
    if sort == "days":
        known = [row for row in made if row.days]
        assert known[0].name.startswith("8 × ml.p6-b200.48xlarge")
        assert "ml.p4de.24xlarge" in known[-1].name
        assert made[-1].days is None


def test_an_alternative_claims_nothing_that_is_not_known() -> None:
    made = {row.name: row for row in table("dollars")}
    spot, paid = made["ml.p5.48xlarge on spot"], made["ml.p5.48xlarge on a training plan"]
    assert (spot.days, spot.dollars, spot.goodput, paid.dollars) == (None, None, None, None)
    assert paid.days is not None
    small = next(row for name, row in made.items() if "ml.g6.48xlarge" in name)
    assert (small.fits, small.days, small.dollars) == ("no", None, None)
    # types are compared with the published speed, not with the measured one of another type
    days = [made[f"8 × {kind}, us-west-2"].days for kind in ("ml.p4de.24xlarge", "ml.p5en.48xlarge")]
    assert days[0] is not None
    assert days[1] is not None
    assert days[0].central > 2 * days[1].central


def test_a_measured_speed_is_of_its_own_type_only() -> None:
    published_, measured = (
        {row.name: row for row in table("dollars", **training)} for training in ({}, {"tokens_per_second": 300})
    )
    other, own = "8 × ml.p4de.24xlarge, us-west-2", "8 × ml.p5.48xlarge, us-west-2"
    assert published_[other].days == measured[other].days
    assert published_[own].days != measured[own].days

"""What a job will take, in figures and in words: known prices, and times as the planner has them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from hyperpod_ray.core.job import Job
from hyperpod_ray.ops.jobs import estimate
from hyperpod_ray.ops.jobs.estimate import Estimate
from hyperpod_ray.planner import PlanError
from hyperpod_ray.planner.ranges import Range
from hyperpod_ray.pricing import price_file
from hyperpod_ray.pricing.prices import Price, Prices
from tests.planner.test_checks import WORKERS, plan_of

NOW = datetime(2026, 11, 27, 23, 0, tzinfo=UTC)
SPAN = Range(low=5400, central=10800, high=172800)
PLAIN = Estimate(
    workers=16, gpus=16, nodes=2, instance_type="ml.p5.48xlarge", usd_per_hour=160.0, estimated=False, unknown="why"
)
UNTIL = "it ends in about 3 h 00 min (1 h 30 min to 2 d), 2026-11-28 02:00 UTC"
SAID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no time": (
        {}, ["it takes 16 GPUs on 2 nodes ml.p5.48xlarge: $160.00 an hour", "when it ends is not known: why"]
    ),
    "one of each": (
        {"gpus": 1, "nodes": 1},
        ["it takes 1 GPU on 1 node ml.p5.48xlarge: $160.00 an hour", "when it ends is not known: why"],
    ),
    "no GPU": (
        {"gpus": 0}, ["it takes 2 nodes ml.p5.48xlarge: $160.00 an hour", "when it ends is not known: why"]
    ),
    "with an end": (
        {"seconds": SPAN}, ["it takes 16 GPUs on 2 nodes ml.p5.48xlarge: $160.00 an hour", f"{UNTIL}, about $480"]
    ),
    "at a price of another Region": (
        {"seconds": SPAN, "estimated": True},
        ["it takes 16 GPUs on 2 nodes ml.p5.48xlarge: ~$160.00 an hour", f"{UNTIL}, about ~$480"],
    ),
    "without a price": (
        {"seconds": SPAN, "usd_per_hour": None},
        ["it takes 16 GPUs on 2 nodes ml.p5.48xlarge: price not known", UNTIL],
    ),
    "of two types": (
        {"instance_type": "a or b", "most_usd_per_hour": 200.0, "estimated": True},
        ["it takes 16 GPUs on 2 nodes a or b: ~$160.00 an hour with nodes of the first type, at most ~$200.00",
         "when it ends is not known: why"],
    ),
    "of two types, one without a price": (
        {"instance_type": "a or b"},
        ["it takes 16 GPUs on 2 nodes a or b: $160.00 an hour with nodes of the first type, not known of each type",
         "when it ends is not known: why"],
    ),
    "of two types without a price": (
        {"instance_type": "a or b", "usd_per_hour": None, "most_usd_per_hour": 200.0},
        ["it takes 16 GPUs on 2 nodes a or b: price not known", "when it ends is not known: why"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_an_estimate_in_words(case: str) -> None:
    changes, lines = SAID[case]
    assert estimate.lines(replace(PLAIN, **changes), now=NOW) == lines


def test_dollars_are_hours_times_the_price_of_all_nodes() -> None:
    assert PLAIN.usd is None
    assert replace(PLAIN, seconds=SPAN, usd_per_hour=None).usd is None
    usd = replace(PLAIN, seconds=SPAN).usd
    assert usd is not None
    assert (usd.low, usd.central, usd.high) == pytest.approx((240, 480, 7680))


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node of eight GPUs costs 80 $ an hour."""
    price = Price(usd=80, as_of=date(2026, 11, 27), source="a test", estimate="of us-east-1")
    plan = plan_of({})
    prices = Prices(
        instances={plan.settings.region: {plan.group(plan.settings.ray.workers[0].instance_group).type: price}}
    )
    monkeypatch.setattr(price_file, "recorded", lambda _folder: prices)


JOBS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "the command's own workers": ({}, (8, 64, 8)),
    "16 workers": ({"workers": "16"}, (16, 16, 2)),
    "as many as it may have": ({"workers": "8:20"}, (20, 20, 3)),
    "four GPUs each": ({"workers": "16", "gpus_per_worker": 4}, (16, 64, 8)),
    "no GPU each": ({"workers": "16", "gpus_per_worker": 0}, (16, 0, 1)),
}
"""A job, and its workers, its GPUs, and its nodes of eight GPUs."""


@pytest.mark.parametrize("case", JOBS)
def test_the_size_of_a_job(case: str, priced: None) -> None:
    fields, (workers, gpus, nodes) = JOBS[case]
    figures = estimate.of_job(plan_of({}), Job(command="python train.py", **fields))
    assert (figures.workers, figures.gpus) == (workers, gpus)
    if gpus:
        assert figures.nodes == nodes
        assert (figures.usd_per_hour, figures.most_usd_per_hour) == (80 * nodes, 80 * nodes)
        assert figures.estimated
    assert figures.instance_type == plan_of({}).group(plan_of({}).settings.ray.workers[0].instance_group).type


def test_a_price_file_that_cannot_be_read_is_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: object) -> Prices:
        raise price_file.PriceFileError("prices.yaml: x", expected="prices", fix="correct it")

    monkeypatch.setattr(price_file, "recorded", refuse)
    figures = estimate.of_job(plan_of({}), Job(command="x", workers="16"))
    assert (figures.usd_per_hour, figures.most_usd_per_hour, figures.estimated) == (None, None, False)


class Finish:
    """An outlook that ends after some time, or whose reckoning fails."""

    def __init__(self, end: Range | PlanError | None) -> None:
        self.end = end

    def __call__(self, *, cluster: Any, **_: Any) -> Any:
        self.cluster = cluster
        return self

    @property
    def finish_seconds(self) -> Range | None:
        if isinstance(self.end, PlanError):
            raise self.end
        return self.end


FAILS = PlanError("training.model: 'x'", expected="a model", fix="name one")
ENDS: dict[str, tuple[dict[str, Any], Any, Range | None, str]] = {
    "it ends": ({}, SPAN, SPAN, ""),
    "no section": ({"training": None}, SPAN, None, "no section training in the job or the environment"),
    "no speed": ({}, None, None, "no published speed of H100; training.tokens_per_second is not set"),
    "it never ends": (
        {}, Range(low=1, central=2, high=math.inf), None, "with so many interruptions it does not end",
    ),
    "the planner refuses": ({}, FAILS, None, "training.model: 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_when_a_job_ends_or_why_that_is_not_known(case: str, priced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    edits, end, seconds, unknown = ENDS[case]
    outlook = Finish(end)
    monkeypatch.setattr(estimate, "Outlook", outlook)
    plan = plan_of({f"{WORKERS}/count": 9, **edits})
    figures = estimate.of_job(plan, Job(command="x", workers="16"))
    assert (figures.seconds, figures.unknown) == (seconds, unknown)
    if edits:
        return
    assert (outlook.cluster.world, outlook.cluster.nodes) == (16, 2)
    assert outlook.cluster.spares == 7, "the other nodes stand by"
    idle = estimate.of_job(plan, Job(command="x", workers="16", gpus_per_worker=0))
    assert (idle.seconds, idle.unknown) == (None, "it trains on no GPU")

"""Rates of interruptions: the public range, a record of one's own, and what a record teaches."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.planner import PlanError, failures
from hyperpod_ray.planner.ranges import Range

RECORD = "what: our cluster\nevents: {events}\nnode_days: {days}\nas_of: 2026-11-01\nsource: https://example.com/runs\n"


def record(folder: Path, events: int, days: float) -> failures.Rates:
    path = folder / "record.yaml"
    path.write_text(RECORD.format(events=events, days=days))
    return failures.from_file(path)


@pytest.mark.parametrize(
    ("events", "low", "high"),
    # Garwood's exact 90 % bounds, as tabulated by R: qchisq(0.05, 2 * n) / 2 and qchisq(0.95, 2 * n + 2) / 2
    [(0, 0.0, 2.9957), (1, 0.0513, 4.7439), (5, 1.9701, 10.5130), (10, 5.4254, 16.9622), (100, 84.1393, 118.0788)],
)
def test_bounds_of_a_count_are_garwoods(events: int, low: float, high: float) -> None:
    assert failures.poisson_interval(events) == pytest.approx((low, high), abs=2e-3)


def test_a_record_of_ones_own_has_its_interval(tmp_path: Path) -> None:
    rates = record(tmp_path, 10, 1000)
    assert rates.per_thousand == pytest.approx((5.4254, 10.0, 16.9622), abs=1e-3)
    assert rates.source == "our cluster (https://example.com/runs)"
    assert record(tmp_path, 0, 1000).per_thousand.low > 0, "nothing was counted, and a rate is never zero"


def test_a_job_fails_by_its_gpus(tmp_path: Path) -> None:
    rates = record(tmp_path, 10, 1000)
    whole = rates.per_second(nodes=4, gpus_per_node=8)
    assert rates.per_second(nodes=8, gpus_per_node=4) == pytest.approx(tuple(whole))
    assert whole.central == pytest.approx(4 * 10 / 1000 / 86400)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RECORD.format(events=-1, days=10), "events"), (RECORD.format(events=300, days=10), "300 events in 10 node-days"),
        (RECORD.format(events=3, days=0), "node_days"),
        ("events: 3\n", "Expected what, events, node_days, as_of and source"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "record.yaml"
    path.write_text(text)
    with pytest.raises(PlanError, match=words):
        failures.from_file(path)


def test_a_belief_has_the_ranges_mean_and_moves_with_evidence() -> None:
    belief = failures.prior(failures.Rates(per_thousand=Range(1.0, 3.0, 9.0), source="-"))
    assert belief.per_thousand.central == pytest.approx(3.0, rel=1e-6)
    assert belief.per_thousand.high / belief.per_thousand.low == pytest.approx(9.0, rel=1e-3)
    quiet = belief.seen(events=0, node_days=10_000)
    assert quiet.per_thousand.central < 1.0
    assert quiet.per_thousand.high - quiet.per_thousand.low < belief.per_thousand.high - belief.per_thousand.low


def test_levels_move_the_central_figure_alone() -> None:
    low, central, high = (failures.published(level) for level in failures.LEVELS)
    assert low.per_thousand.central < central.per_thousand.central < high.per_thousand.central
    assert {(rates.per_thousand.low, rates.per_thousand.high) for rates in (low, central, high)} == {
        (low.per_thousand.low, high.per_thousand.high)
    }

"""Closed form, ensemble simulation and an independent event simulator agree: the validation of the planner."""

from __future__ import annotations

import math
import random
import statistics
import sys
import time

import numpy as np
import pytest

from hyperpod_ray.planner import PlanError, goodput, simulate, spares
from hyperpod_ray.planner.goodput import Run
from hyperpod_ray.planner.ranges import DAY
from tests.planner import events

MINUTE = 60.0


def case(
    *, nodes: int, rate: float, every: float, stall: float, usable: float | None, spare: int, repair: float
) -> tuple[Run, float, int, float]:
    total = nodes * rate / 1000 / DAY
    wait = spares.expected_wait(spares=spare, in_repair=total * repair, repair=repair)
    run = Run(stall=stall, usable_after=stall if usable is None else usable, rate=total, restart=400, waiting=wait)
    return run, every, spare, repair


CASES = {
    "8 nodes, no spare": case(nodes=8, rate=6.5, every=4800, stall=6.5, usable=97, spare=0, repair=80 * MINUTE),
    "8 nodes, sync": case(nodes=8, rate=6.5, every=3600, stall=90, usable=None, spare=1, repair=80 * MINUTE),
    "64 nodes, one spare": case(nodes=64, rate=6.5, every=1600, stall=6.5, usable=97, spare=1, repair=80 * MINUTE),
    "64 nodes, slow storage": case(nodes=64, rate=6.5, every=36000, stall=2890, usable=None, spare=1, repair=1500),
    "64 nodes, bad luck": case(nodes=64, rate=24, every=900, stall=6.5, usable=97, spare=2, repair=80 * MINUTE),
    "256 nodes, two spares": case(nodes=256, rate=6.5, every=900, stall=6.5, usable=97, spare=2, repair=80 * MINUTE),
    "2048 nodes, 16 spares": case(nodes=2048, rate=6.5, every=300, stall=6.5, usable=97, spare=16, repair=1500),
}
TOLERANCE = {"64 nodes, bad luck": 0.0004, "256 nodes, two spares": 0.0012, "2048 nodes, 16 spares": 0.0005}
"""Where spares can run out the closed form has only the mean of the wait."""


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_is_the_mean_of_the_simulation(name: str) -> None:
    run, every, spare, repair = CASES[name]
    days = 5 if name.startswith("2048") else 27
    drawn = simulate.simulate(run, every, work=days * DAY, spares=spare, repair=repair, runs=10_000)
    closed = goodput.goodput(run, every)
    allowed = max(TOLERANCE.get(name, 0.0002), 3 * drawn.error)
    assert abs(drawn.goodput - closed) <= allowed, (drawn.goodput, closed, drawn.error)


@pytest.mark.parametrize("name", CASES)
def test_an_independent_simulator_finds_the_same(name: str) -> None:
    run, every, spare, repair = CASES[name]
    nodes = int(name.partition(" ")[0])
    periods = max(2, int((4 if nodes > 100 else 20) * DAY / every))
    ours = simulate.simulate(run, every, work=periods * every, spares=spare, repair=repair, runs=4_000, seed=3)
    runs = 12 if nodes > 1000 else 150
    theirs = [
        events.finish(
            nodes=nodes, rate_per_node=run.rate / nodes, every=every, stall=run.stall, usable_after=run.usable_after,
            restart=run.restart, work_periods=periods, spares=spare, repair=repair, seed=seed,
        )
        for seed in range(runs)
    ]  # fmt: skip
    # ours ends with the last step's save begun and held; theirs when it is usable, after the last interval
    mean = statistics.mean(theirs) - run.usable_after + run.stall
    spread = math.hypot(statistics.stdev(theirs) / math.sqrt(runs), float(ours.finish.std()) / math.sqrt(4_000))
    assert abs(float(ours.finish.mean()) - mean) <= 3 * spread + 1e-9 * mean


@pytest.mark.parametrize("shape", [0.7, 1.0, 1.5])
def test_the_shape_of_the_gaps_hardly_matters(shape: float) -> None:
    """Weibull gaps with the exponential's mean: 0.7 clusters interruptions, 1.5 spaces them. 0.9834 against 0.9832."""
    run, every, _, _ = CASES["64 nodes, one spare"]
    run = Run(stall=run.stall, usable_after=run.usable_after, rate=64 * 24e-3 / DAY, restart=run.restart)
    draw = random.Random(7)
    scale = 1 / run.rate / math.gamma(1 + 1 / shape)
    periods = int(30 * DAY / every)
    drawn = [
        events.finish_by_gaps(
            gap=lambda: draw.weibullvariate(scale, shape), every=every, stall=run.stall,
            usable_after=run.usable_after, restart=run.restart, work_periods=periods,
        )
        for _ in range(150)
    ]  # fmt: skip
    share = periods * every / statistics.mean(drawn)
    error = share * statistics.stdev(drawn) / statistics.mean(drawn) / math.sqrt(len(drawn))
    assert abs(share - goodput.goodput(run, every)) <= 0.001 + 3 * error
    assert error < 0.001


def test_the_parts_of_the_time_add_up() -> None:
    run, every, spare, repair = CASES["64 nodes, bad luck"]
    drawn = simulate.simulate(run, every, work=10 * DAY, spares=spare, repair=repair, runs=2_000)
    parts = drawn.work + drawn.stall + drawn.redo + drawn.restart + drawn.waiting
    assert parts == pytest.approx(float(drawn.finish.mean()), rel=1e-9)
    closed = goodput.losses(run, every)
    mean = float(drawn.finish.mean())
    assert drawn.redo / mean == pytest.approx(closed.redo, rel=0.1)
    assert drawn.restart / mean == pytest.approx(closed.restart, rel=0.1)
    assert drawn.interruptions / mean == pytest.approx(run.rate, rel=0.05)


def test_no_interruption_takes_no_time() -> None:
    run = Run(stall=10, usable_after=10, rate=0, restart=100)
    drawn = simulate.simulate(run, 990, work=99_000, runs=200)
    assert drawn.finish == pytest.approx(np.full(200, 100_000.0))
    assert goodput.goodput(run, 990) == pytest.approx(0.99)


def test_more_spares_finish_sooner_and_bad_luck_later() -> None:
    run, every, _, repair = CASES["64 nodes, bad luck"]
    ends = [
        simulate.simulate(run, every, work=10 * DAY, spares=number, repair=repair, runs=2_000).quantile(0.5)
        for number in (0, 1, 4)
    ]
    assert ends[0] > ends[1] > ends[2]
    worse = goodput.at(run, rate=2 * run.rate)
    assert simulate.simulate(worse, every, work=10 * DAY, spares=2, repair=repair, runs=500).goodput < 0.99


def test_without_numpy_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(PlanError, match="needs numpy") as raised:
        simulate.simulate(Run(stall=1, usable_after=1, rate=1e-6, restart=1), 100, work=1000)
    assert "plan" in raised.value.fix


def test_ten_thousand_runs_of_thirty_days_on_64_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar is one second on a quiet machine; the time is printed, and what is asserted is the work."""
    run, every, spare, repair = CASES["64 nodes, one spare"]
    began = time.process_time()
    drawn = simulate.simulate(run, every, work=30 * DAY, spares=spare, repair=repair)
    with capsys.disabled():
        print(f"\n{simulate.RUNS:,} runs of 30 days on 64 nodes: {time.process_time() - began:.2f} CPU s")
    assert len(drawn.finish) == simulate.RUNS
    assert float(drawn.finish.min()) > 30 * DAY

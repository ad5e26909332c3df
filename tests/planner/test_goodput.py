from __future__ import annotations

import math

import pytest

from hyperpod_ray.planner import architecture, failures, goodput, memory, storage
from hyperpod_ray.planner.goodput import Run
from hyperpod_ray.planner.ranges import DAY, HOUR
from hyperpod_ray.planner.storage import SsdFileSystem


def daly(every: float, delta: float, rate: float, restart: float) -> float:
    """Exact renewal of Daly (2006), written down independently: work over expected time."""
    mtbf = 1 / rate
    return every / (mtbf * math.exp(restart / mtbf) * (math.exp((every + delta) / mtbf) - 1))


@pytest.mark.parametrize(("restart", "waiting"), [(900.0, 0.0), (300.0, 600.0), (0.0, 900.0)])
def test_a_wait_for_a_node_is_down_time_as_a_restart_is(restart: float, waiting: float) -> None:
    """Daly's restart is all that passes from an interruption to the first step."""
    run = Run(stall=60, usable_after=60, rate=1e-5, restart=restart, waiting=waiting)
    assert goodput.goodput(run, 1800) == pytest.approx(daly(1800, 60, 1e-5, 900))


@pytest.mark.parametrize(("nodes", "every"), [(8, 5000), (64, 2000), (512, 800), (2048, 400)])
def test_synchronous_saves_are_dalys_renewal(nodes: int, every: float) -> None:
    rate = nodes * 6.5e-3 / DAY
    run = Run(stall=60, usable_after=60, rate=rate, restart=300)
    assert goodput.goodput(run, every) == pytest.approx(daly(every, 60, rate, 300), rel=1e-12)


def test_metas_expression_is_the_first_order() -> None:
    """arXiv 2410.21680: ETTR ≈ 1 - rate × (restart + interval / 2), with saves that cost nothing."""
    for nodes, off in ((8, 0.0002), (128, 0.002), (2048, 0.04)):
        rate = nodes * 6.5e-3 / DAY
        first = 1 - rate * (300 + 3600 / 2)
        assert goodput.goodput(Run(stall=0, usable_after=0, rate=rate, restart=300), 3600) == pytest.approx(
            first, abs=off
        )


def test_llama_3_allows_twenty_minutes_per_interruption() -> None:
    """arXiv 2407.21783: 419 interruptions in 54 days and more than 90 % effective time."""
    mtti = 54 * DAY / 419
    assert mtti / HOUR == pytest.approx(3.09, abs=0.01)
    assert (1 / 0.9 - 1) * mtti / 60 == pytest.approx(20.6, abs=0.05)
    shares = [
        goodput.goodput(Run(stall=5, usable_after=120, rate=1 / mtti, restart=restart), every)
        for restart, every in ((300, 1200), (600, 1800))
    ]
    assert 0.85 < shares[1] < shares[0] < 0.93


def test_64_nodes_on_the_smallest_file_system() -> None:
    """A 70B model, synchronous, figures of another program: a save takes 48 minutes, and so does reading it."""
    size = memory.checkpoint_bytes(architecture.named("llama-3.1-70b"))
    written = size / storage.rate(SsdFileSystem(capacity_gib=1200, throughput_mbs_per_tib=250), clients=64,
                                  network_gbps=3200).bytes_per_second  # fmt: skip
    assert written / 60 == pytest.approx(48, abs=0.5)
    rates = [64 * rate / 1000 / DAY for rate in failures.published().per_thousand]
    found = [
        goodput.best(Run(stall=written, usable_after=written, rate=rate, restart=300 + written)).goodput
        for rate in rates
    ]
    assert found == pytest.approx([0.898, 0.830, 0.674], abs=0.003)


@pytest.mark.parametrize(
    ("nodes", "system", "expected"),
    [
        (8, (1200, 250), (0.964, 0.940, 0.885)),
        (8, (4800, 500), (0.987, 0.979, 0.959)),
        (8, (9600, 1000), (0.994, 0.989, 0.979)),
        (64, (4800, 500), (0.964, 0.939, 0.881)),
        (64, (9600, 1000), (0.982, 0.969, 0.938)),
    ],
)
def test_synchronous_goodput_by_storage(nodes: int, system: tuple[int, int], expected: tuple[float, ...]) -> None:
    """Figures of another program with the same model: 70B on P5."""
    size = memory.checkpoint_bytes(architecture.named("llama-3.1-70b"))
    disk = SsdFileSystem(capacity_gib=system[0], throughput_mbs_per_tib=system[1])
    written = size / storage.rate(disk, clients=nodes, network_gbps=3200).bytes_per_second
    rates = [nodes * rate / 1000 / DAY for rate in failures.published().per_thousand]
    found = [
        goodput.best(Run(stall=written, usable_after=written, rate=rate, restart=300 + written)).goodput
        for rate in rates
    ]
    assert found == pytest.approx(expected, abs=0.003)


@pytest.mark.parametrize(
    ("nodes", "system", "expected"),
    [
        (8, (1200, 250), (0.998, 0.995, 0.983)),
        (8, (4800, 500), (0.999, 0.998, 0.995)),
        (8, (9600, 1000), (0.999, 0.999, 0.997)),
        (64, (1200, 250), (0.987, 0.964, 0.875)),
        (64, (4800, 500), (0.997, 0.993, 0.978)),
        (64, (9600, 1000), (0.998, 0.995, 0.987)),
    ],
)
def test_asynchronous_goodput_by_storage(nodes: int, system: tuple[int, int], expected: tuple[float, ...]) -> None:
    """The same program's figures. Its stall was not written down: with half a second all eighteen come out."""
    size = memory.checkpoint_bytes(architecture.named("llama-3.1-70b"))
    disk = SsdFileSystem(capacity_gib=system[0], throughput_mbs_per_tib=system[1])
    written = size / storage.rate(disk, clients=nodes, network_gbps=3200).bytes_per_second
    rates = [nodes * rate / 1000 / DAY for rate in failures.published().per_thousand]
    found = [
        goodput.best(Run(stall=0.5, usable_after=0.5 + written, rate=rate, restart=300 + written)).goodput
        for rate in rates
    ]
    assert found == pytest.approx(expected, abs=0.0015)


@pytest.mark.parametrize(("restart", "points"), [(10, 0.14), (1800, -0.7)])
def test_restart_time_by_points(restart: float, points: float) -> None:
    """64 nodes, from 300 s: +0.14 point at 10 s, -0.7 at 1,800 s."""
    rate = 64 * 6.5e-3 / DAY
    shares = [
        goodput.best(Run(stall=6.5, usable_after=97, rate=rate, restart=seconds)).goodput for seconds in (restart, 300)
    ]
    assert 100 * (shares[0] - shares[1]) == pytest.approx(points, abs=0.05)


def test_the_optimum_is_flat() -> None:
    run = Run(stall=6.5, usable_after=97, rate=64 * 6.5e-3 / DAY, restart=400)
    best = goodput.best(run)
    assert best.seconds == pytest.approx(goodput.rule_of_thumb(run), rel=0.02)
    for factor, cost in ((0.5, 0.002), (2, 0.002), (10, 0.04)):
        assert 0 < best.goodput - goodput.goodput(run, factor * best.seconds) < cost
    assert best.low < best.seconds / 1.5
    assert best.high > best.seconds * 1.5
    for edge in (best.low, best.high):
        assert best.goodput - goodput.goodput(run, edge) == pytest.approx(goodput.FLAT, rel=0.01)


def test_a_save_that_takes_long_is_not_begun_twice_at_once() -> None:
    run = Run(stall=5, usable_after=3000, rate=1e-4, restart=300)
    assert goodput.best(run).seconds >= 2995


def test_ends_of_goodput() -> None:
    """Nothing fails: saves alone cost time. Everything fails: nothing ends."""
    calm = Run(stall=10, usable_after=10, rate=0, restart=300)
    assert goodput.goodput(calm, 90) == pytest.approx(0.9)
    assert goodput.goodput(calm, 0) == goodput.goodput(calm, -1) == 0
    assert goodput.goodput(Run(stall=10, usable_after=10, rate=1, restart=300), 1000) == 0
    often = Run(stall=10, usable_after=10, rate=1e-3, restart=300)
    assert 0 < goodput.goodput(often, 600_000) < 1e-200, "e to the power of 600 is still a number"

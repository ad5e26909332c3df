"""The planner counts the memory of warm spares as the library does; it cannot import it (the light installation)."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import goodput, spares
from hyperpod_ray.planner.goodput import Run
from hyperpod_ray_training.spares import memory_needed


@pytest.mark.parametrize(
    ("parameters", "shards", "bytes_per_parameter", "ranks"), [(7e9, 64, 12, 8), (70e9, 56, 12, 8), (1.3e9, 3, 16, 1)]
)
def test_the_library_counts_the_same(parameters: float, shards: int, bytes_per_parameter: int, ranks: int) -> None:
    ours = spares.memory_needed(
        parameters=parameters, shards=shards, bytes_per_parameter=bytes_per_parameter, ranks_per_node=ranks
    )
    theirs = memory_needed(
        parameters=parameters, shards=shards, bytes_per_parameter=bytes_per_parameter, ranks_per_node=ranks
    )
    assert ours == theirs > 0


@pytest.mark.parametrize("nodes", [8, 64, 512])
def test_training_with_a_node_less_restarts_twice(nodes: int) -> None:
    """Where a node comes back at once, the second restart is all that it costs beside a rigid run."""
    rate = nodes / (60 * 86_400)
    once, twice = (Run(stall=5, usable_after=30, rate=rate, restart=times * 300.0) for times in (1, 2))
    elastic = spares.elastic_goodput(goodput.goodput(once, 1800), rate=rate, restart=300.0, repair=0, nodes=nodes)
    assert elastic == pytest.approx(goodput.goodput(twice, 1800))


def test_training_with_a_node_less_is_slower_by_that_node() -> None:
    """While one of N is repaired, which is rate x repair of the time, N - 1 train."""
    elastic = spares.elastic_goodput(0.9, rate=1e-5, restart=0, repair=20_000, nodes=10)
    assert elastic == pytest.approx(0.9 * (1 - 0.2 / 10))

"""The planner counts the memory of warm spares as the library does; it cannot import it (the light installation)."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import spares
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

from __future__ import annotations

import pytest

from hyperpod_ray_training.spares.members import packed, unpacked
from tests.resilience.table_helpers import World


@pytest.mark.parametrize(
    "nodes", [["a"], ["10.0.0.1"] * 8 + ["fd00::2"] * 8 + ["10.0.0.1"], [f"n{i}" for i in range(9)]]
)
def test_where_ranks_are_is_told_in_few_bytes(nodes: list[str]) -> None:
    assert unpacked(packed(nodes)) == nodes


def test_each_rank_hears_the_same_nodes_in_the_order_of_ranks() -> None:
    world = World(active=16, spares=0, per_node=8)
    told = {message["nodes"] for _, message in world.sent if message["type"] == "assign"}
    assert told == {"node-0*8,node-1*8"}

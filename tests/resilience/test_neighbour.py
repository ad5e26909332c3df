from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hyperpod_ray_training.spares.neighbour import Neighbour, Source, neighbour_distance, newest_whole, replicas_among
from hyperpod_ray_training.spares.store import SLOTS
from hyperpod_ray_training.state import TrainingState


@pytest.mark.parametrize(
    ("nodes", "distance"),
    [
        (["a"], 0),
        (["a", "a"], 1),
        (["a", "b"], 1),
        (["a", "a", "b", "b"], 2),
        (["a"] * 8 + ["b"] * 8, 8),
        (["a"] * 4 + ["b"] * 4 + ["c"] * 4, 4),
        (["a", "b", "a", "b"], 1),
    ],
)
def test_a_copy_goes_to_another_node(nodes: list[str], distance: int) -> None:
    assert neighbour_distance(nodes) == distance
    if len(set(nodes)) > 1:
        world = len(nodes)
        assert all(nodes[r] != nodes[(r + distance) % world] for r in range(world))


def test_uneven_nodes_keep_as_few_copies_at_home_as_possible() -> None:
    nodes = ["a"] * 3 + ["b"]
    world = len(nodes)
    home = [sum(nodes[r] == nodes[(r + d) % world] for r in range(world)) for d in range(1, world)]
    assert home[neighbour_distance(nodes) - 1] == min(home)


def test_the_newest_step_that_is_whole_somewhere_wins() -> None:
    # rank 0 is a step ahead, rank 1 is new and holds nothing; rank 0 holds rank 1's copy of step 7 only
    assert newest_whole([[(0, 8), (0, 7), (1, 7)], []]) == (7, [Source(0), Source(0)])
    assert newest_whole([[(0, 8), (1, 8)], [(1, 8), (0, 8)]]) == (
        8,
        [Source(0), Source(1)],
    )  # everybody's own comes first
    assert newest_whole([[(0, 8)], []]) is None


def test_a_replica_gives_the_tensors_and_the_neighbour_the_rest() -> None:
    # rank 2 is new; 0 has the same tensors as 2, and 1 keeps what is 2's own
    inventories = [[(0, 8), (0, 7)], [(1, 8), (1, 7)], [], [(3, 8), (3, 7)]]
    replicas = [[2], [3], [0], [1]]
    own = [[], [(2, 7)], [], []]
    found = newest_whole(inventories, owned=own, replicas=replicas)
    assert found == (7, [Source(0), Source(1), Source(1, 0), Source(3)])
    assert newest_whole(inventories, owned=own) is None
    assert newest_whole([[], *inventories[1:]], owned=own, replicas=replicas) is None
    assert newest_whole(inventories, owned=[[(2, 8)], [], [], []], replicas=replicas) == (
        8, [Source(0), Source(1), Source(0, 0), Source(3)]
    )  # fmt: skip


def test_whose_tensors_are_the_same() -> None:
    plain = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    state = TrainingState(model=plain, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=2)
    assert replicas_among(state, ["a", "b"]) is None  # nobody says that the ranks agree


def test_nothing_is_nothing() -> None:
    assert newest_whole([[], []]) is None


def test_whichever_rank_is_lost_at_whatever_moment_one_of_two_steps_is_whole() -> None:
    """Each rank is somewhere between two agreements; a copy is dropped when all have said that the next has arrived.

    A rank takes step s only when it has heard that s-1 is whole everywhere, which nobody hears before all have said so.
    """
    world, s, distance = 4, 10, 1
    moments = range(4)  # has s-1 alone, took s, has the neighbour's s too and said so, heard it of all and dropped s-1
    for gone, at in itertools.product(range(world), itertools.product(moments, repeat=world)):
        if 3 in at and min(at) < 2:
            continue  # nobody hears of all what one has not said
        inventories: list[list[tuple[int, int]]] = []
        for rank in range(world):
            source, moment = (rank - distance) % world, at[rank]
            steps = {0: (s - 1,), 1: (s - 1, s), 2: (s - 1, s), 3: (s,)}[moment]
            copies = {0: (s - 1,), 1: (s - 1,), 2: (s - 1, s), 3: (s,)}[moment]
            held = [(rank, step) for step in steps] + [(source, step) for step in copies]
            assert len(held) <= 2 * SLOTS
            inventories.append([] if rank == gone else held)
        found = newest_whole(inventories)
        assert found is not None, (gone, at)
        assert found[0] >= s - 1


@pytest.mark.parametrize("arrived", [True, False])
def test_only_what_has_arrived_whole_is_salvaged(arrived: bool) -> None:
    """A buffer that is being received has part of the copy."""
    received: list[int] = []
    holder: Any = object.__new__(Neighbour)
    holder._under_way = SimpleNamespace(step=7, pending=None, received=torch.zeros(1), arrived=arrived)
    holder._keep = lambda step, _: received.append(step)
    holder.salvage()
    assert received == ([7] if arrived else [])
    assert holder._under_way is None

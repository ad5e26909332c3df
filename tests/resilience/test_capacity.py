"""How many workers the nodes of a Ray cluster hold, and what a run does where they hold fewer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from hyperpod_ray_training import capacity
from hyperpod_ray_training.errors import InputError


def node(*, alive: bool = True, **resources: float) -> dict[str, Any]:
    """As `ray.nodes()` has it: https://docs.ray.io/en/latest/ray-core/api/doc/ray.nodes.html."""
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "resources", "workers"),
    [
        ([node(CPU=96, GPU=8)], {"CPU": 1, "GPU": 1}, 8),
        ([node(CPU=4, GPU=8)], {"CPU": 1, "GPU": 1}, 4),  # what is scarcest decides
        ([node(CPU=96, GPU=8), node(CPU=96, GPU=4)], {"GPU": 1}, 12),
        ([node(CPU=96, GPU=8), node(alive=False, CPU=96, GPU=8)], {"GPU": 1}, 8),
        ([node(CPU=7), node(CPU=7)], {"CPU": 4}, 2),  # no worker spans two nodes
        ([node(CPU=96)], {"GPU": 1}, 0),
        ([node(CPU=8, GPU=8)], {"CPU": 1, "GPU": 0}, 8),  # nothing of it is asked for
        ([node(CPU=0.3)], {"CPU": 0.1}, 3),  # 0.3 / 0.1 is less than 3 in binary
        ([], {"CPU": 1}, 0),
    ],
)
def test_what_empty_nodes_hold(nodes: list[dict[str, Any]], resources: dict[str, float], workers: int) -> None:
    assert capacity.placeable(nodes, resources) == workers


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that a sleep moves on."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda span: now.__setitem__(0, now[0] + span))
    yield now


@pytest.mark.parametrize(
    ("room", "count", "waits"),
    [(6, 2, False), (9, 2, False), (5, 1, True), (4, 0, True), (3, 0, True)],
)
def test_as_many_spares_as_there_is_room_for(
    room: int, count: int, waits: bool, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [node(GPU=room)])
    assert capacity.spares_with_room(workers=4, spares=2, resources={"GPU": 1}, wait_s=10) == count
    assert (seconds[0] >= 10) == waits


def test_a_run_waits_for_its_smallest_size_and_says_what_there_is(
    seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: [node(GPU=3)])
    capacity.wait_for_placement(min_workers=3, resources={"GPU": 1}, wait_s=10)
    assert seconds[0] == 0
    with pytest.raises(InputError, match="the cluster can hold 3 after 10 s"):
        capacity.wait_for_placement(min_workers=4, resources={"GPU": 1}, wait_s=10)
    assert 10 <= seconds[0] <= 12
    monkeypatch.setattr(ray, "nodes", lambda: [node(GPU=4 if seconds[0] > 15 else 3)])
    capacity.wait_for_placement(min_workers=4, resources={"GPU": 1}, wait_s=10)

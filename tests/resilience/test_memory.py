"""Copies in memory: who holds whose, which step wins, what a copy brings back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training import Resumable
from hyperpod_ray_training.ranks import set_limit
from hyperpod_ray_training.spares import neighbour
from hyperpod_ray_training.spares.memory import Memory
from hyperpod_ray_training.spares.neighbour import Neighbour, Source
from hyperpod_ray_training.spares.pacing import Pacing
from hyperpod_ray_training.spares.store import SLOTS, Store
from hyperpod_ray_training.spares.wires import Ends, Wires
from tests.resilience.memory_helpers import make, snapshot_of, train
from tests.support.ranks import ranks


def test_the_store_keeps_two_of_each_and_uses_buffers_again() -> None:
    store = Store()
    addresses = set()
    for step in range(1, 20):
        for owner in (0, 1):
            buffer = store.buffer(1000 + owner, pinned=False)
            addresses.add(buffer.data_ptr())
            store.put(owner, step, buffer)
        assert store.bytes <= SLOTS * 2001
        store.whole(step)
    assert store.inventory() == [(0, 19), (1, 19)]
    assert len(addresses) == 2 * SLOTS
    store.put(0, 20, store.buffer(1000, pinned=False))
    store.drop(20)  # some rank has none
    assert store.inventory() == [(0, 19), (1, 19)]
    store.only(19, {0})
    assert store.inventory() == [(0, 19)]


def test_a_larger_state_leaves_no_smaller_buffer_behind() -> None:
    store = Store()
    for step, size in enumerate((1000, 1000, 4000, 4000)):
        store.put(0, step, store.buffer(size, pinned=False))
        store.whole(step)
    assert store.bytes == 2 * 4000


class Alone(Neighbour):
    """The only rank: it holds its own copies, and nothing is exchanged."""

    def __init__(self, store: Store) -> None:
        self.store, self.rank, self.world, self.group, self.replicas = store, 0, 1, None, ()
        self.pacing = Pacing(share=0.03)

    def restore(self, step: int, sources: Sequence[Source]) -> torch.Tensor:
        assert list(sources) == [Source(0)]
        return self.store.held[0, step]


@pytest.mark.parametrize(("saved", "step"), [(-1, 7), (7, 7), (8, None)])
def test_a_checkpoint_that_is_newer_goes_before_a_copy(
    saved: int, step: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather(told: list[Any], mine: Any, group: Any) -> None:
        told[0] = mine

    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    parts = make(0)
    train(parts, range(2))
    store = Store()
    snapshot = snapshot_of(*parts)
    store.put(0, 7, snapshot.take(7, store))
    store.saved_step, store.stretch = saved, 5
    memory = Memory(snapshot=snapshot, neighbour=Alone(store), every=2)
    assert memory.restore() == step
    assert memory.interval == 10, "copies come as seldom as before"
    assert (store.inventory() == []) == (step is None)


@pytest.mark.parametrize("saved", [-1, 5])
def test_a_copy_that_cannot_be_loaded_goes_back_to_the_checkpoint(saved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_gather_object", lambda told, mine, group: told.__setitem__(0, mine))
    parts = make(0)
    train(parts, range(2))
    store = Store()
    copy = snapshot_of(*parts).take(7, store)
    copy[100:900] = 0  # inside what is pickled
    store.put(0, 7, copy)
    store.saved_step = saved
    memory = Memory(snapshot=snapshot_of(*parts), neighbour=Alone(store), every=1)
    if saved < 0:  # nothing to go back to: new processes, from the start
        with pytest.raises(RuntimeError, match="step 7 cannot be loaded, and there is no checkpoint"):
            memory.restore()
        return
    assert memory.restore() is None
    assert not parts[1].state
    assert store.inventory() == []


def test_copies_of_another_number_of_ranks_are_forgotten() -> None:
    store = Store().of(2)
    store.stretch = 9
    assert store.of(2).stretch == 9
    store.put(0, 5, torch.zeros(4, dtype=torch.uint8))
    assert store.of(2).inventory() == [(0, 5)]
    assert store.of(1).inventory() == []
    assert store.stretch == 1, "their cost says nothing of other copies"


def test_who_leaves_a_broken_generation_waits_for_no_save() -> None:
    left: list[str] = []
    training: Any = Resumable.__new__(Resumable)
    training.generation = SimpleNamespace()
    training.tracker = None
    training.complete, training.waits = SimpleNamespace(abandon=lambda: None), SimpleNamespace(end=lambda: None)
    training.saver = SimpleNamespace(abandon=lambda: left.append("abandon"))
    training.memory = SimpleNamespace(neighbour=SimpleNamespace(salvage=lambda: left.append("salvage")))
    training.leave(failed=True)
    assert left == ["salvage"]
    training.generation = None
    training.leave(failed=True)
    assert left == ["salvage", "abandon"]


class Clock:
    """Stands for `time` in `neighbour`: a second a step, and as long as a copy is said to take."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def copy_of(content: int) -> torch.Tensor:
    """A copy with a head, and something in it."""
    head = b"".join(number.to_bytes(8, "big") for number in (8, 8, 64, 80, 64, 0, 0, 0))
    return torch.tensor([*head, *(content % 256,) * 16], dtype=torch.uint8)


def wires(rank: int, group: Any) -> Wires:
    """Connections of two ranks."""
    return Wires.open(Ends(rank, 2, 1, "127.0.0.1"), group=group, secret="run", limit=timedelta(minutes=10))


def slow_copies(rank: int, port: int, pipe: Any) -> None:
    """Two ranks; the copies of rank 1 take seven seconds until step 20."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    clock = Clock()
    neighbour.time = clock  # type: ignore[assignment, attr-defined]
    group = dist.new_group(backend="gloo")
    exchange = Neighbour(store=Store(), group=group, nodes=["a", "b"], rank=rank, wires=wires(rank, group))
    at, keep, copied = [0], exchange._keep, []

    def slow(step: int, received: torch.Tensor) -> None:
        clock.now += 7.0 if rank and at[0] < 20 else 0.0
        keep(step, received)

    def take(step: int, store: Store) -> torch.Tensor:
        copied.append(step)
        return copy_of(step)

    exchange._keep = slow  # type: ignore[method-assign]
    memory = Memory(snapshot=SimpleNamespace(take=take, pending=None), neighbour=exchange, every=1)  # type: ignore[arg-type]
    for step in range(1, 700):
        at[0], clock.now = step, clock.now + 1.0
        memory.finished(step)
        while exchange._under_way is not None and not exchange._under_way.over:
            time.sleep(0.001)  # a step of this clock takes no time, and the exchange some
    exchange.settle()
    held = {owner: [s for o, s in exchange.store.inventory() if o == owner] for owner in (0, 1)}
    whole = all(int(exchange.store.held[key][-1]) == key[1] % 256 for key in exchange.store.inventory())
    assert exchange.store.stretch == exchange.stretch
    pipe.send((copied, exchange.stretch, held, whole))


def test_copies_that_are_slower_than_steps_are_skipped_at_the_same_steps_everywhere() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ranks(slow_copies, store.port) as pipes:
        assert all(pipe.poll(900) for pipe in pipes)
        (copied, stretch, held, whole), second = (pipe.recv() for pipe in pipes)
    assert (copied, stretch, held, whole) == second, "a step that one rank has and another has not is whole nowhere"
    assert whole
    early = [step for step in copied if 8 <= step < 24]
    assert len(early) <= 4, "while copies were slow, most were skipped"
    assert stretch == 1, "they are quick again"
    assert copied[-3:] == [697, 698, 699]
    assert held == {0: [699], 1: [699]}


def late(rank: int, port: int, pipe: Any) -> None:
    """A copy, and one that is handed over, come later than the limit that their group was opened with."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=1))
    set_limit(group, timedelta(minutes=10))
    exchange = Neighbour(store=Store(), group=group, nodes=["a", "b"], rank=rank, wires=wires(rank, group))
    copy = copy_of(rank)
    exchange.store.put(rank, 3, copy)
    exchange._sizes = [copy.numel()] * 2
    time.sleep(2.5 * rank)
    exchange.send(3, copy)
    exchange.settle()
    if rank == 0:
        exchange.store.only(-1, set())  # as in a new process
    time.sleep(2.5 * rank)
    restored = exchange.restore(3, [Source(1), Source(1)])
    pipe.send((exchange.store.inventory(), restored.tolist() == copy_of(rank).tolist()))


def test_a_copy_may_take_longer_than_its_group_had_to_open() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ranks(late, store.port) as pipes:
        assert all(pipe.poll(300) for pipe in pipes)
        answers = [pipe.recv() for pipe in pipes]
    assert answers == [([(0, 3)], True), ([(0, 3), (1, 3)], True)]


STATE = 100_000


def kept_bytes(rank: int, port: int, pipe: Any) -> None:
    """Two ranks, without and with replicas: the most bytes that one keeps for copies, the one on its way included."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    most = []
    for replicas in ((), ([1], [0])):
        group = dist.new_group(backend="gloo")
        exchange = Neighbour(
            store=Store(),
            group=group,
            nodes=["a", "b"],
            rank=rank,
            replicas=replicas,
            share=0,
            wires=wires(rank, group),
        )

        def take(step: int, store: Store) -> torch.Tensor:
            buffer, head = store.buffer(STATE, pinned=False), copy_of(step)
            buffer[: head.numel()] = head
            return buffer

        memory = Memory(snapshot=SimpleNamespace(take=take, pending=None), neighbour=exchange, every=1)  # type: ignore[arg-type]
        most.append(0)
        for step in range(1, 9):
            memory.finished(step)
            under_way = exchange._under_way
            assert under_way is not None and under_way.received is not None
            most[-1] = max(most[-1], exchange.store.bytes + under_way.received.numel())
        exchange.settle()
    pipe.send(most)


def test_four_states_are_kept_and_two_beside_replicas() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ranks(kept_bytes, store.port) as pipes:
        assert all(pipe.poll(300) for pipe in pipes)
        for without, beside in (pipe.recv() for pipe in pipes):
            assert 3 * STATE < without <= 4 * STATE
            assert STATE < beside < 2.01 * STATE

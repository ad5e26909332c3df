"""Copies in memory: who holds whose, which step wins, what a copy brings back."""

from __future__ import annotations

import itertools
import os
import random
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
from hyperpod_ray_training.spares.neighbour import Neighbour, Source, neighbour_distance, newest_whole, replicas_among
from hyperpod_ray_training.spares.snapshot import Snapshot, counts, own_part
from hyperpod_ray_training.spares.store import SLOTS, Store
from hyperpod_ray_training.state import TrainingState
from tests.support.ranks import ranks


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


def snapshot_of(model: Any, optimizer: Any, extra: Any, **per_rank: Any) -> Snapshot:
    return Snapshot(TrainingState(model=model, optimizer=optimizer, extra=extra, per_rank=per_rank, rank=0, world=1))


def make(seed: int, *, momentum: bool = False) -> tuple[torch.nn.Module, torch.optim.Optimizer, dict[str, Any]]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout(0.5))
    parameters = list(model.parameters())
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(parameters, lr=0.1)
    if momentum:
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    return model, optimizer, {"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)}


def train(parts: Any, steps: range) -> list[float]:
    model, optimizer, extra = parts
    losses = []
    for step in steps:
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step)) + random.random()
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        extra["scheduler"].step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("momentum", [False, True])
def test_a_newcomer_goes_on_to_the_last_bit(momentum: bool) -> None:
    random.seed(5)
    first = make(0, momentum=momentum)
    train(first, range(5))
    store = Store()
    snapshot = snapshot_of(*first)
    copy = snapshot.take(5, store)
    expected = train(first, range(5, 9))
    newcomer = make(99, momentum=momentum)  # its optimizer has no state yet, its generators are elsewhere
    random.seed(77)
    assert snapshot_of(*newcomer).load(copy) == 5
    assert train(newcomer, range(5, 9)) == expected
    assert newcomer[1].param_groups[0]["lr"] == first[1].param_groups[0]["lr"]


def test_a_copy_is_of_its_moment() -> None:
    parts = make(0)
    train(parts, range(2))
    copy = snapshot_of(*parts).take(2, Store())
    before = copy.clone()
    train(parts, range(2, 4))
    assert torch.equal(copy, before)


def test_a_state_by_name_that_outgrows_its_room_does_not_count() -> None:
    class Growing:
        content = b""

        def state_dict(self) -> dict[str, Any]:
            return {"content": self.content}

        def load_state_dict(self, state: dict[str, Any]) -> None: ...

    model, optimizer, _ = make(0)
    growing = Growing()
    snapshot = snapshot_of(model, optimizer, {"growing": growing})
    first = snapshot.take(1, Store())
    assert counts(first)
    growing.content = bytes(1 << 20)
    second = snapshot.take(2, Store())
    assert not counts(second)
    assert second.numel() == first.numel()  # the exchange goes on: its size is agreed


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
    store.saved_step = saved
    assert Memory(snapshot=snapshot, neighbour=Alone(store), every=1).restore() == step
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


def test_a_copy_is_of_the_parameters_that_the_optimizer_has() -> None:
    """FSDP2 shows other tensors as the model's after a forward without a backward; the optimizer's are trained."""
    model = torch.nn.Linear(2, 2)
    trained = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([trained], lr=0.1)
    snapshot = snapshot_of(model, optimizer, {})
    copy = snapshot.take(1, Store())
    with torch.no_grad():
        trained.zero_()
    assert snapshot.load(copy) == 1
    assert trained.tolist() == [1.0, 2.0]


def adapted(seed: int, frozen: float) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    base, head = torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.Linear(4, 2)
    torch.nn.init.constant_(base.weight, frozen)
    torch.nn.init.zeros_(base.bias)
    return torch.nn.Sequential(base, head), torch.optim.AdamW(head.parameters(), lr=0.1)


def test_frozen_parameters_are_compared_and_not_copied() -> None:
    model, optimizer = adapted(0, 1.0)
    snapshot, store = snapshot_of(model, optimizer, {}), Store()
    copies = [snapshot.take(step, store).clone() for step in (1, 2)]
    assert snapshot_of(*adapted(7, 1.0), {}).load(copies[1]) == 2
    with pytest.raises(ValueError, match=r"model\.0\.weight: trained by no optimizer, and built otherwise"):
        snapshot_of(*adapted(7, 2.0), {}).load(copies[1])
    model[0].weight.data = model[0].weight.data * 3  # a momentum network, changed as many do it: no version counts it
    snapshot.take(3, store)  # the copy grows, and counts from the next on
    moved = snapshot.take(4, store)
    assert counts(moved)
    newcomer = adapted(7, 2.0)
    snapshot_of(*newcomer, {}).load(moved)
    assert torch.equal(newcomer[0][0].weight, torch.full((4, 4), 3.0))


def test_a_replica_that_is_not_alike_is_refused() -> None:
    def taken(seed: int) -> torch.Tensor:
        model, optimizer = adapted(seed, 1.0)
        state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=2)
        return Snapshot(state, replicas=True).take(1, Store())

    mine, twin, other = taken(0), taken(0), taken(1)
    own = own_part(mine)
    newcomer = snapshot_of(*adapted(5, 1.0), {})
    assert newcomer.load(torch.cat([own, twin[len(own) :]])) == 1
    with pytest.raises(ValueError, match="the tensors of a replica are not what this rank had"):
        newcomer.load(torch.cat([own, other[len(own) :]]))


def test_attributes_of_modules_are_of_their_rank_also_beside_a_replica() -> None:
    """As a torchmetric of the batches that this rank alone has seen."""

    def taken(mean: float) -> torch.Tensor:
        model, optimizer = adapted(0, 1.0)
        model[0].mean = torch.zeros(3)
        state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=2)
        model[0].mean = torch.full((3,), mean)
        return Snapshot(state, replicas=True).take(1, Store())

    mine, twin = taken(2.0), taken(7.0)
    own = own_part(mine)
    newcomer = adapted(5, 1.0)
    newcomer[0][0].mean = torch.zeros(3)
    assert snapshot_of(*newcomer, {}).load(torch.cat([own, twin[len(own) :]])) == 1
    assert torch.equal(newcomer[0][0].mean, torch.full((3,), 2.0))


@pytest.mark.parametrize("kept", [True, False])
def test_gradients_come_back_where_they_outlive_a_step(kept: bool) -> None:
    model, optimizer = adapted(0, 1.0)
    model(torch.ones(1, 4)).sum().backward()
    snapshot = snapshot_of(model, optimizer, {})
    snapshot.state.gradients, snapshot.state.proved = kept, True
    copy = snapshot.take(1, Store())
    newcomer = adapted(5, 1.0)
    newcomer[0](torch.ones(1, 4)).sum().backward()
    taker = snapshot_of(*newcomer, {})
    taker.load(copy)
    assert (taker.state.gradients, taker.state.proved) == (kept, True)
    gradient = newcomer[0][1].weight.grad
    assert (gradient is not None) == kept
    assert not kept or torch.equal(gradient, model[1].weight.grad)


def test_asking_for_the_size_leaves_the_optimizer_as_it_is() -> None:
    """torch loads a checkpoint into an optimizer without state only: an empty entry would lose the moments."""
    parts = make(0)
    expected = snapshot_of(*parts).expected_bytes()
    assert not parts[1].state
    train(parts, range(1))
    assert 0 <= snapshot_of(*parts).expected_bytes() - expected < 100  # the optimizer's counts of steps


def test_copies_of_another_number_of_ranks_are_forgotten() -> None:
    store = Store().of(2)
    store.put(0, 5, torch.zeros(4, dtype=torch.uint8))
    assert store.of(2).inventory() == [(0, 5)]
    assert store.of(1).inventory() == []


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


def slow_copies(rank: int, port: int, pipe: Any) -> None:
    """Two ranks; the copies of rank 1 take seven seconds until step 20."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    clock = Clock()
    neighbour.time = clock  # type: ignore[assignment, attr-defined]
    exchange = Neighbour(store=Store(), group=dist.new_group(backend="gloo"), nodes=["a", "b"], rank=rank)
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


def storages(optimizer: torch.optim.Optimizer) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for slots in optimizer.state.values() for tensor in slots.values()}


@pytest.mark.parametrize("built_again", [True, False])
def test_what_was_loaded_does_not_change_with_the_buffer(built_again: bool) -> None:
    parts = make(0)
    train(parts, range(3))
    extra = parts[2] | {"average": Kept(torch.arange(5.0))}
    snapshot = snapshot_of(*parts[:2], extra)
    copy = snapshot.take(3, Store())
    random.seed(1)
    expected = train(parts, range(3, 6))
    if built_again:
        parts = make(9)
        extra = parts[2] | {"average": Kept(torch.zeros(5))}
        snapshot = snapshot_of(*parts[:2], extra)
    there = storages(parts[1])
    snapshot.load(copy)
    assert built_again or storages(parts[1]) == there, "the optimizer keeps its tensors"
    copy.zero_()  # a later step's copy is written there
    random.seed(1)
    assert train(parts, range(3, 6)) == expected
    assert extra["average"].tensor.tolist() == list(range(5))


class Kept:
    """Keeps the tensor that it is loaded with, as many averages of parameters do."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"tensor": self.tensor}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.tensor = state["tensor"]


def test_moments_that_share_memory_are_not_written_over_each_other() -> None:
    model, optimizer = adapted(0, 1.0)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    snapshot = snapshot_of(model, optimizer, {})
    copy = snapshot.take(1, Store())
    weight = model[1].weight
    expected = optimizer.state[weight]["exp_avg"].clone(), optimizer.state[weight]["exp_avg_sq"].clone()
    optimizer.state[weight]["exp_avg_sq"] = optimizer.state[weight]["exp_avg"]
    snapshot.load(copy)
    loaded = optimizer.state[weight]
    assert torch.equal(loaded["exp_avg"], expected[0])
    assert torch.equal(loaded["exp_avg_sq"], expected[1])


def test_tensors_of_mixed_widths_come_back_from_where_no_tensor_can_begin() -> None:
    model = torch.nn.Module()
    model.register_buffer("mask", torch.tensor([True, False, True]))
    model.register_buffer("counts", torch.tensor([1, 2, 1 << 40]))
    model.weight = torch.nn.Parameter(torch.tensor([0.5, -0.25]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    snapshot = snapshot_of(model, optimizer, {})
    copy = snapshot.take(1, Store())
    with torch.no_grad():
        for tensor in (model.mask, model.counts, model.weight):
            tensor.zero_()
    snapshot.load(copy)
    assert model.mask.tolist() == [True, False, True]
    assert model.counts.tolist() == [1, 2, 1 << 40]
    assert model.weight.tolist() == [0.5, -0.25]


def late(rank: int, port: int, pipe: Any) -> None:
    """A copy, and one that is handed over, come later than the limit that their group was opened with."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=1))
    set_limit(group, timedelta(minutes=10))
    exchange = Neighbour(store=Store(), group=group, nodes=["a", "b"], rank=rank)
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

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from hyperpod_ray_training.spares.snapshot import Snapshot, counts, own_part
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState
from tests.resilience.memory_helpers import make, snapshot_of, train


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

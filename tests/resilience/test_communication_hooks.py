"""The numbers of DDP's communication hooks: saved by hook, put back, and refused where the hooks are others."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training.communication_hooks import CommunicationHooks, tensors_of
from hyperpod_ray_training.spares.neighbour import replicas_among
from hyperpod_ray_training.spares.warm_up import warm_up
from hyperpod_ray_training.state import TrainingState


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=60))
    yield
    dist.destroy_process_group()


def local_sgd(start: int = 3) -> post_localSGD_hook.PostLocalSGDState:
    return post_localSGD_hook.PostLocalSGDState(
        process_group=None, subgroup=dist.group.WORLD, start_localSGD_iter=start
    )


def power_sgd() -> powerSGD_hook.PowerSGDState:
    return powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2)


def with_hook(state: Any, hook: Any = None, width: int = 8) -> DistributedDataParallel:
    model = DistributedDataParallel(nn.Linear(width, width))
    if state is not None:
        model.register_comm_hook(state, hook or post_localSGD_hook.post_localSGD_hook)
    return model


def steps(model: nn.Module, number: int) -> None:
    for _ in range(number):
        model(torch.ones(2, 8)).sum().backward()


class Slotted:
    """A hook's state in somebody's own project, with slots."""

    __slots__ = ("calls", "group", "word")
    group: Any

    def __init__(self) -> None:
        self.calls, self.word = 0, "ring"


def count(state: Slotted, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    state.calls += 1
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def test_the_iteration_of_local_sgd_goes_on_in_another_process() -> None:
    first = with_hook(local_sgd(9))
    steps(first, 5)
    saved = CommunicationHooks(first).state_dict()
    assert saved[0]["iter"] == 5
    restored = local_sgd()
    group = restored.subgroup
    CommunicationHooks(with_hook(restored)).load_state_dict(saved)
    assert (restored.iter, restored.start_localSGD_iter, restored.subgroup) == (5, 9, group)


def test_each_hook_of_several_models_has_its_own_numbers() -> None:
    generator, critic = with_hook(local_sgd()), with_hook(local_sgd(7))
    steps(critic, 2)
    saved = CommunicationHooks(nn.ModuleList([generator, critic])).state_dict()
    assert [(fields["iter"], fields["start_localSGD_iter"]) for fields in saved] == [(0, 3), (2, 7)]
    states = local_sgd(), local_sgd(7)
    CommunicationHooks(nn.ModuleList(map(with_hook, states))).load_state_dict(saved)
    assert [state.iter for state in states] == [0, 2]


def test_slots_count_and_a_slot_that_was_never_set_does_not() -> None:
    state = Slotted()
    model = with_hook(state, count)
    steps(model, 2)
    hooks = CommunicationHooks(model)
    assert hooks.state_dict() == [{"calls": 2, "word": "ring"}]
    hooks.load_state_dict([{"calls": 9, "word": "tree"}])
    assert (state.calls, state.word) == (9, "tree")


def test_a_hook_without_numbers_and_a_model_without_a_hook_have_no_state() -> None:
    plain = with_hook(dist.group.WORLD, lambda _, bucket: count(Slotted(), bucket))
    for model in (with_hook(None), nn.Linear(8, 8)):
        assert CommunicationHooks(model).state_dict() == []
    assert all(not tensors_of(state) for state in CommunicationHooks(plain).registered())


def test_numbers_of_a_hook_with_tensors_are_saved_before_and_after_its_first_tensor() -> None:
    state = power_sgd()
    model = with_hook(state, powerSGD_hook.powerSGD_hook)
    hooks = CommunicationHooks(model)
    assert hooks.state_dict()[0]["iter"] == 0
    assert not tensors_of(state)
    steps(model, 4)
    assert hooks.state_dict()[0]["iter"] == state.iter > 0
    tensors = tensors_of(state)
    assert {id(tensor) for tensor in tensors} >= {id(tensor) for tensor in state.error_dict.values()}
    assert len(tensors) > len(state.error_dict), "those of p_memory_dict and q_memory_dict, which are dicts too"
    restored = with_hook(power_sgd(), powerSGD_hook.powerSGD_hook)
    assert CommunicationHooks(restored).unlike(hooks.state_dict()) == []


@pytest.mark.parametrize("contained", [list, tuple, lambda tensors: {"deep": [tuple(tensors)]}])
def test_tensors_in_containers_are_tensors_of_the_state(contained: Any) -> None:
    state = Slotted()
    tensor = torch.ones(3)
    state.group = contained([tensor, 4])
    assert [id(value) for value in tensors_of(state)] == [id(tensor)]


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ([], "0 communication hooks of DDP with numbers are saved, and the model has 1"),
        ([{"iter": 1}] * 2, "2 communication hooks of DDP with numbers are saved, and the model has 1"),
        ([{"calls": 4, "start_localSGD_iter": 3}], "PostLocalSGDState: calls"),
    ],
)
def test_numbers_of_other_hooks_are_refused_by_their_names(saved: list[dict[str, Any]], said: str) -> None:
    state = local_sgd()
    hooks = CommunicationHooks(with_hook(state))
    (problem,) = hooks.unlike(saved)
    assert said in problem
    hooks.load_state_dict(saved)  # where RESILIENCE_STRICT=false takes what fits
    assert not hasattr(state, "calls")


def state_of(model: nn.Module) -> TrainingState:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=1)


def test_a_checkpoint_of_other_hooks_is_unlike_this_rank_s_state() -> None:
    state = local_sgd()
    saved = state_of(with_hook(local_sgd(9))).own()
    restored = state_of(with_hook(state))
    assert restored.unlike_own(saved) == ""
    restored.fill_own(restored.shared(), saved)
    assert state.start_localSGD_iter == 9
    assert state_of(with_hook(None)).own()["per_rank"] == {}, "a checkpoint of a model without hooks has none"
    assert "nothing takes it" in state_of(with_hook(None)).unlike_own(saved)
    assert "Slotted: calls, iter" in state_of(with_hook(Slotted(), count)).unlike_own(saved)


@pytest.mark.parametrize(
    ("state", "hook", "alike"),
    [
        (None, None, True),
        (dist.group.WORLD, default_hooks.bf16_compress_hook, True),
        (power_sgd, powerSGD_hook.powerSGD_hook, True),
        (local_sgd, post_localSGD_hook.post_localSGD_hook, False),
        (Slotted, count, False),
    ],
)
def test_ranks_are_replicas_where_the_hook_is_known_to_average_over_all_of_them(
    state: Any, hook: Any, alike: bool
) -> None:
    model = with_hook(state() if callable(state) else state, hook) if hook else with_hook(None)
    assert (replicas_among(state_of(model), ["a", "b"]) is not None) is alike


def test_a_spare_rehearses_a_loop_that_registers_a_hook() -> None:
    dist.destroy_process_group()
    registered = DistributedDataParallel.register_comm_hook
    losses: list[torch.Tensor] = []

    def loop(config: dict[str, Any]) -> None:
        model, state = DistributedDataParallel(nn.Linear(8, 8)), local_sgd()
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        assert CommunicationHooks(model).states() == [state]
        losses.append(model(torch.ones(2, 8)).sum())
        losses[0].backward()

    warm_up(loop, {}, world=4)
    assert len(losses) == 1
    assert DistributedDataParallel.register_comm_hook is registered
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

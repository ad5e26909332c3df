from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from hyperpod_ray_training import InputError
from hyperpod_ray_training.optimizers import OptimizerState, optimizers_of


@pytest.fixture(autouse=True)
def no_process_group_left_behind() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_containers_are_unwrapped() -> None:
    parts = [nn.Linear(2, 2), nn.Linear(2, 2)]
    one, two = (torch.optim.SGD(part.parameters(), lr=0.1) for part in parts)
    assert optimizers_of(one) == {"": one}
    assert optimizers_of([one, two, one]) == {"0": one, "1": two}
    assert optimizers_of({"a": one, "b": two}) == {"a": one, "b": two}
    around = type("Accelerated", (), {})()
    around.optimizer = one
    assert optimizers_of(around) == {"": one}
    container = torch.optim.SGD([*parts[0].parameters(), *parts[1].parameters()], lr=0.1)
    container.parts = {"a": one, "b": two}
    assert optimizers_of(container) == {"0": one, "1": two}
    container.state[next(parts[0].parameters())]["slow"] = torch.zeros(1)  # Lookahead's
    assert optimizers_of(container) == {"0": one, "1": two, "2": container}


@pytest.mark.parametrize("wrong", [object(), [1], {"a": "adam"}, None])
def test_what_is_no_optimizer_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="optimizer: "):
        optimizers_of(wrong)


@pytest.mark.parametrize(
    ("saved", "problem"),
    [
        ([["w", "b"]], ""),
        ([["b", "w"]], ""),  # another order in a group is taken over
        ([["w", "b", "old"]], "optimizer has other parameters: old"),
        ([["w"]], "optimizer has other parameters: b"),
        ([["w", "old"]], "optimizer has other parameters: b, old"),
        ([["w"], ["b"]], "optimizer has 2 groups of parameters, and 1 now, or others in each"),
    ],
)
def test_a_state_of_other_parameters_is_refused(saved: list[list[str]], problem: str) -> None:
    layer = nn.Linear(2, 2)
    state = OptimizerState(torch.optim.SGD([layer.weight, layer.bias], lr=0.1), "optimizer")
    named = {"w": layer.weight, "b": layer.bias}
    assert state.unlike(named, {"groups": [{"params": group} for group in saved]}) == problem

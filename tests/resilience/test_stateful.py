from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from hyperpod_ray_training import Values
from hyperpod_ray_training.stateful import stateful


class Trainer:
    def __init__(self) -> None:
        self.net, self.number, self.history = nn.Linear(2, 2), 0, [1.0]
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def __call__(self) -> None:
        """It may be called, too."""


def test_an_object_of_ones_own_is_kept_without_what_belongs_to_others() -> None:
    trainer = Trainer()
    held: Any = stateful("trainer", trainer)
    trainer.number, history, net = 5, trainer.history, trainer.net
    trainer.history.append(2.0)
    saved = copy.deepcopy(held.state_dict())
    assert set(saved["value"]) == {"number", "history"}
    trainer.number = 9
    trainer.history.append(3.0)
    held.load_state_dict(saved)
    assert (trainer.number, trainer.history) == (5, [1.0, 2.0])
    assert trainer.history is history and trainer.net is net


torch.set_num_threads(1)


def test_values_name_what_is_missing() -> None:
    values = Values(loss=1.0)
    with pytest.raises(AttributeError, match="Values has no 'los'; known: loss"):
        _ = values.los


@pytest.mark.parametrize(
    ("before", "saved", "stays"),
    [
        (torch.zeros(2), torch.tensor([1 / 3, 2.0]), True),
        # `copy_` converts: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.copy_.html
        (torch.zeros(2), torch.tensor([1 / 3, 2.0], dtype=torch.float64), False),
        (torch.zeros(2, dtype=torch.int64), torch.tensor([0.5, 2.5]), False),
        (torch.zeros(2, 1), torch.tensor([1.0, 2.0]), False),
        (torch.zeros(3), torch.tensor([1.0, 2.0]), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("wrap", [lambda tensor: [tensor], lambda tensor: {"a": tensor}], ids=["list", "dict"])
def test_a_tensor_comes_back_as_it_was_saved(before: torch.Tensor, saved: torch.Tensor, stays: bool, wrap: Any) -> None:
    """It is the same object where it fits, as others may hold it too; it is never converted."""
    held = wrap(before.clone())
    (there,) = held if isinstance(held, list) else held.values()
    stateful("held", held).load_state_dict(_saved(wrap(saved)))
    (now,) = held if isinstance(held, list) else held.values()
    assert (now is there) is stays
    assert (now.dtype, now.shape) == (saved.dtype, saved.shape)
    assert torch.equal(now, saved)


def _saved(content: Any) -> Any:
    return stateful("saved", content).state_dict()

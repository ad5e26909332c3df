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

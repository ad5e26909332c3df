"""What a checkpoint holds: model, optimizer, further state by name, the step and every rank's random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from resilience import rng

_RNG = "rng"


class TrainingState:
    """The live objects of one rank.

    Args:
        model: The module as the loop uses it.
        optimizer: Its optimizer.
        extra: Further state by name.
        rank: This rank.
    """

    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Stateful],
        rank: int,
    ) -> None:
        self.model, self.optimizer, self.extra, self.rank = model, optimizer, dict(extra), rank
        self.device = next(model.parameters()).device
        self.seed = torch.initial_seed()

    def to_save(self, step: int) -> dict[str, Any]:
        """The state as torch's distributed checkpoint takes it; each rank adds its random numbers under its own key."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        extra = {key: value.state_dict() for key, value in self.extra.items()}
        return {
            "model": model,
            "optimizer": optimizer,
            "extra": extra,
            "step": step,
            _RNG: {_key(self.rank): rng.capture(self.device)},
        }

    def to_fill(self, *, same_world: bool) -> dict[str, Any]:
        """Where a checkpoint is loaded into. Random numbers are asked for only where they fit this rank."""
        state = self.to_save(0)
        if not same_world:
            del state[_RNG]
        return state

    def fill(self, state: Mapping[str, Any]) -> int:
        """Take over a loaded state and return its step. The random numbers come last: the rest may draw some."""
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        for key, value in self.extra.items():
            value.load_state_dict(state["extra"][key])
        step = int(state["step"])
        if _RNG in state:
            rng.restore(state[_RNG][_key(self.rank)], self.device)
        else:
            rng.reseed(seed=self.seed, step=step, rank=self.rank)
        return step


def saved_world(metadata: Metadata) -> int:
    """How many ranks' random numbers a checkpoint holds."""
    return sum(1 for key in metadata.state_dict_metadata if key.startswith(f"{_RNG}.{_key('')}"))


def _key(rank: int | str) -> str:
    return f"rank-{rank}"

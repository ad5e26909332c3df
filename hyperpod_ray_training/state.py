"""What a checkpoint holds: model, optimizer, further state by name, the step, the place in the data, random numbers.

Random numbers, the place in a loader that knows its own, and `per_rank` are different on each rank. A checkpoint taken
up by another number of ranks fits none of them there: they are omitted.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from hyperpod_ray_training import rng
from hyperpod_ray_training.batches import Position

_RNG, _OWN, _DATA = "rng", "own", "data"


class TrainingState:
    """The live objects of one rank.

    Args:
        model: The module as the loop uses it.
        optimizer: Its optimizer.
        extra: Further state by name.
        per_rank: State by name that each rank has its own of; any picklable.
        rank: This rank.
        world: Number of ranks.
    """

    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Mapping[str, Stateful],
        per_rank: Mapping[str, Stateful],
        rank: int,
        world: int,
    ) -> None:
        self.model, self.optimizer, self.extra, self.per_rank = model, optimizer, dict(extra), dict(per_rank)
        self.rank, self.world, self.position = rank, world, Position()
        self.device = next(model.parameters()).device
        self.seed = torch.initial_seed()

    def own(self) -> dict[str, Any]:
        """What this rank alone has."""
        return {
            "position": self.position.own(),
            "per_rank": {key: value.state_dict() for key, value in self.per_rank.items()},
        }

    def shared(self) -> dict[str, int]:
        """The place in the data, and for how many ranks it counts."""
        return self.position.shared() | {"world": self.world}

    def fill_own(self, shared: Mapping[str, int], own: Mapping[str, Any] | None) -> None:
        """Take over the place in the data and, where it fits, what this rank alone has."""
        position = None if own is None else own["position"]
        self.position.restore(shared, position, before=int(shared["world"]), now=self.world)
        for key, value in self.per_rank.items():
            if own is not None and key in own["per_rank"]:
                value.load_state_dict(own["per_rank"][key])

    def to_save(self, step: int) -> dict[str, Any]:
        """The state as torch's distributed checkpoint takes it; each rank adds its random numbers under its own key."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        extra = {key: value.state_dict() for key, value in self.extra.items()}
        return {
            "model": model,
            "optimizer": optimizer,
            "extra": extra,
            "step": step,
            _DATA: self.shared(),
            _OWN: {_key(self.rank): pickle.dumps(self.own())},
            _RNG: {_key(self.rank): rng.capture(self.device)},
        }

    def to_fill(self, saved: Metadata) -> dict[str, Any]:
        """Where a checkpoint is loaded into. Random numbers are asked for only where they fit this rank."""
        state = self.to_save(0)
        if saved_world(saved) != self.world:
            del state[_RNG], state[_OWN]
        # an older version of this library notes less of the place in the data
        state[_DATA] = {key: value for key, value in state[_DATA].items() if _noted(saved, key)}
        return state

    def fill(self, state: Mapping[str, Any]) -> int:
        """Take over a loaded state and return its step. The random numbers come last: the rest may draw some."""
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        for key, value in self.extra.items():
            value.load_state_dict(state["extra"][key])
        step = int(state["step"])
        own = state[_OWN][_key(self.rank)] if _OWN in state else None
        self.fill_own(state[_DATA], None if own is None else pickle.loads(own))  # noqa: S301 - the run's own checkpoint
        if _RNG in state:
            rng.restore(state[_RNG][_key(self.rank)], self.device)
        else:
            rng.reseed(seed=self.seed, step=step, rank=self.rank)
        return step


def saved_world(metadata: Metadata) -> int:
    """How many ranks' random numbers a checkpoint holds."""
    return sum(1 for key in metadata.state_dict_metadata if key.startswith(f"{_RNG}.{_key('')}"))


def _noted(saved: Metadata, key: str) -> bool:
    """Whether a checkpoint has this part of the place in the data."""
    return f"{_DATA}.{key}" in saved.state_dict_metadata


def _key(rank: int | str) -> str:
    return f"rank-{rank}"

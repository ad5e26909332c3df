"""What a spare gets instead of `Resumable` while it rehearses the loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from hyperpod_ray_training.batches import Position
from hyperpod_ray_training.resumable import Resumable
from hyperpod_ray_training.run import Run
from hyperpod_ray_training.spares import warm_up
from hyperpod_ray_training.state import module_of


class Rehearsed(Resumable):
    """What a spare gets while it rehearses the loop: two steps from 0, nothing restored, nothing written."""

    def __init__(self, run: Run, *, model: Any, **_: Any) -> None:
        self.run, self.settings, self.position = run, run.settings, Position()
        self.device = next(module_of(model).parameters()).device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.generation, self.memory = None, None

    def leave(self, *, failed: bool) -> None:
        """Nothing to save."""

    def restore(self) -> None:
        """Nothing."""

    def about_to_step(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """The rehearsal is over."""
        raise warm_up.RehearsalOverError

    def finished(self, step: int, **metrics: float) -> None:
        """Count."""
        self.step = step + 1
        if self.step >= warm_up.STEPS:
            raise warm_up.RehearsalOverError

    def handed(self, batch: Any) -> None:
        """Nothing."""

    def fetched_ahead(self) -> None:
        """Nothing."""

    def part_done(self) -> None:
        """Nothing."""

    def save(self, reason: str = "interval", *, wait: bool = False) -> None:
        """Nothing."""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Nothing."""
        yield

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """Nothing."""
        yield

    pause = unhurried

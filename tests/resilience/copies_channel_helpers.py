"""What tests of `copies_channel`, `sealed` share."""

from __future__ import annotations

import torch

from hyperpod_ray_training.spares.snapshot import Snapshot
from hyperpod_ray_training.state import TrainingState


def snapshot(secret: str, *, rank: int = 0) -> Snapshot:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=rank, world=2)
    return Snapshot(state, secret=secret)

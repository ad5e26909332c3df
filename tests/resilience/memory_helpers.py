"""What tests of `memory`, `recovery_parts`, `snapshot` share."""

from __future__ import annotations

import random
from typing import Any

import torch

from hyperpod_ray_training.spares.snapshot import Snapshot
from hyperpod_ray_training.state import TrainingState


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

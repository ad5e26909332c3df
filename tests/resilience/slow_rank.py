"""A run whose second rank is slow: `slow_rank.py STORAGE NAME`, on each rank of a group."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training import Resumable, Run, main_of, waits
from hyperpod_ray_training.spares import stragglers


def compute(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(2000))


def train(config: dict[str, Any]) -> None:
    """Windows are of a second here, until the straggler is named."""
    waits.BEAT_S, stragglers.BEATS = 0.02, 50
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    training = Resumable(config["run"], model=model, optimizer=optimizer)
    for step in training.steps(400):
        x = torch.ones(4, 8)
        if dist.get_rank() == 1:
            compute(0.1)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        training.finished(step, loss=float(total))
        if training.waits.habit.reported:
            break


def main() -> None:
    """Without Ray's workers."""
    Run(storage=sys.argv[1], name=sys.argv[2]).fit(train, workers=0)


if __name__ == "__main__":
    main_of(main)

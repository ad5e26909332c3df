"""What watching for forgotten state costs: `.venv-rehearsal/bin/python benchmarks/watch_cost.py [--steps 64]`.

One run without Ray: a watched step beside the steps around it, which are not, as a ratio of their medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from typing import Any

import torch
from torch import nn

from hyperpod_ray_training import Resumable, Run


def network(width: int) -> nn.Sequential:
    """Sixteen blocks of two layers."""
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(16)]
    return nn.Sequential(*blocks)


def measured(config: dict[str, Any]) -> None:
    """Each step with how long it took, the watch at its beginning and end included."""
    width, steps = config["width"], config["steps"]
    torch.manual_seed(0)
    model = network(width)
    optimizer = torch.optim.AdamW(model.parameters())
    training = Resumable(config["run"], model=model, optimizer=optimizer)
    plain: list[float] = []
    watched: list[float] = []
    before = time.perf_counter()
    for step in training.steps(steps):
        is_watched = training.complete._under_way is not None
        loss = model(torch.randn(config["rows"], width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=loss.item())
        now = time.perf_counter()
        if step > 1:  # from the end of the step before: what begins a watched step belongs to it
            (watched if is_watched else plain).append(now - before)
        before = now
    usual = statistics.median(plain)
    report = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()), "step_s": round(usual, 4),
        "watched_steps": len(watched), "watched_ratio": round(statistics.median(watched) / usual, 2),
        "seconds_more": round(len(watched) * (statistics.median(watched) - usual), 3),
    }  # fmt: skip
    sys.stdout.write(json.dumps(report) + "\n")


def main() -> None:
    """Three sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=64)
    options = parser.parse_args()
    for width, rows in ((128, 32), (512, 64), (1024, 256)):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(storage=folder, name="watch", save_every_steps=10**9)
            run.fit(measured, config={"width": width, "rows": rows, "steps": options.steps}, workers=0)


if __name__ == "__main__":
    main()

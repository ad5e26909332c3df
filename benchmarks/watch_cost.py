"""What watching for forgotten state costs: `.venv-rehearsal/bin/python benchmarks/watch_cost.py [--steps 64]`.

One run without Ray: a watched step beside the steps around it, which are not, as a ratio of their medians. `more` is
what the watched steps of the run took beyond others: seconds, processor seconds, and MiB of the process at its peak.
"""

from __future__ import annotations

import argparse
import json
import resource
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
    of_measuring = ["plain", "watched", "cpu_plain", "cpu_watched", "before", "cpu_before", "peak_kib"]
    training = Resumable(config["run"], model=model, optimizer=optimizer, recomputed=of_measuring)
    plain: list[float] = []
    watched: list[float] = []
    cpu_plain: list[float] = []
    cpu_watched: list[float] = []
    before, cpu_before, peak_kib = time.perf_counter(), time.process_time(), 0
    for step in training.steps(steps):
        is_watched = training.complete._under_way is not None
        loss = model(torch.randn(config["rows"], width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        training.finished(step, loss=loss.item())
        now, cpu_now = time.perf_counter(), time.process_time()
        if step > 1:  # from the end of the step before: what begins a watched step belongs to it
            (watched if is_watched else plain).append(now - before)
            (cpu_watched if is_watched else cpu_plain).append(cpu_now - cpu_before)
        else:  # the third step is the first that is watched
            peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before, cpu_before = now, cpu_now
    usual = statistics.median(plain)
    cpu_more = sum(cpu_watched) - len(cpu_watched) * statistics.median(cpu_plain)
    more_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib
    report = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()), "step_s": round(usual, 4),
        "watched_steps": len(watched), "watched_ratio": round(statistics.median(watched) / usual, 2),
        "seconds_more": round(sum(watched) - len(watched) * usual, 3), "cpu_seconds_more": round(cpu_more, 3),
        "peak_mib_more": more_kib // 1024,
    }  # fmt: skip
    sys.stdout.write(json.dumps(report) + "\n")


def main() -> None:
    """Three sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=64)
    options = parser.parse_args()
    for width, rows in ((128, 32), (512, 64), (1024, 256), (2048, 256)):  # small first: the peak only rises
        with tempfile.TemporaryDirectory() as folder:
            run = Run(storage=folder, name="watch", save_every_steps=10**9)
            run.fit(measured, config={"width": width, "rows": rows, "steps": options.steps}, workers=0)


if __name__ == "__main__":
    main()

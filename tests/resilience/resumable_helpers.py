"""What tests of `draining`, `fabric`, `resumable` share."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich.style  # noqa: F401 - draws from Python's generator when Ray first imports it, in the middle of a run
import torch

from hyperpod_ray_training import Resumable, Run, Settings

STEPS, EVERY = 12, 3


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(storage=str(tmp_path), name="run", save_every_steps=EVERY, settings=Settings())


def loop(config: dict[str, Any]) -> None:
    """Dropout and a linear layer on made-up data with noise from every generator a script may draw from.

    `stop_at` raises there, `at_step` is called with each step.
    """
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    model = torch.nn.Linear(10, 200)  # a shard of 26 kB
    dropout = torch.nn.Dropout(0.25)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    generator_of = torch.Generator()
    with Resumable(config["run"], model=model, optimizer=optimizer, recomputed=["config"]) as training:
        for step in training.steps(STEPS):
            if step == config.get("stop_at"):
                raise RuntimeError("stopped by the test")
            if "at_step" in config:
                config["at_step"](training, step)
            x = dropout(torch.randn(8, 10, generator=generator_of.manual_seed(step)))
            x = x + config.get("noise", 1.0) * (np.random.rand() + random.random())
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=loss.item())
    config["seen"].append({"loss": loss.item(), "weight": model.weight.detach().clone(), "step": training.step})


def fit(run: Run, **config: Any) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    run.fit(loop, config={"seen": seen, **config}, workers=0)
    return seen[0]


def events(run: Run, kind: str | None = None) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in Path(run.url, "events.jsonl").read_text().splitlines()]
    return [line for line in lines if kind in {None, line["kind"]}]

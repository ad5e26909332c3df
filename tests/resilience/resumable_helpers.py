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
import torch.distributed as dist

from hyperpod_ray_training import Resumable, Run, Settings
from hyperpod_ray_training.folder import SNAPSHOT

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


def fit_stopped(run: Run, at: int) -> None:
    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit(run, stop_at=at)
    dist.destroy_process_group()


def progress(run: Run) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(run.url, "progress.json").read_text())
    return content


def checkpoints(run: Run) -> list[Path]:
    return sorted(Path(run.url).glob("step-*"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    storage = str(tmp_path_factory.mktemp("undisturbed"))
    return fit(Run(storage=storage, name="undisturbed", save_every_steps=EVERY, settings=Settings()))


def write_snapshot(run: Run, *, names: list[str], version: str | None) -> Path:
    """A snapshot as Ray's checkpoint manager writes it."""
    results = [{"version": 0, "checkpoint_dir_name": name, "metrics": {}} for name in names]
    content = {
        "ray_version": version, "checkpoint_results": results, "checkpoint_report_indices": list(range(len(names))),
        "latest_checkpoint_result": results[-1] if results else None, "pending_training_results": [],
        "pending_validation_specs": [], "current_report_index": len(names), "validated_checkpoint_dir_names": [],
        "timed_out_validation_checkpoint_dir_names": [], "failed_validation_checkpoint_dir_names": [],
    }  # fmt: skip
    path = Path(run.url, SNAPSHOT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path

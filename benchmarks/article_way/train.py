"""Baseline of `recovery.py`: training as the AWS article's example job does it (aws-do-ray, `fsdp-ray.py`).

A checkpoint per epoch, handed to Ray from a temporary folder; `FailureConfig(max_failures=-1)`; and `get_checkpoint()`
is never called, so that every restart begins at epoch 0. It takes the arguments and writes the events of
`jobs/finetune`, with a small model of its own; nothing else is borrowed from there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


def train(config: dict[str, Any]) -> None:
    """One worker; an epoch is `save_every_steps` steps."""
    torch.set_num_threads(1)
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    journal = Path(config["storage"]) / config["name"] / "events.jsonl"

    def event(kind: str, *, always: bool = False, **values: Any) -> None:
        if rank == 0 or always:
            with journal.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"t": time.time(), "kind": kind, "world": world, **values}) + "\n")

    event("start", role="worker", rank=rank)
    torch.manual_seed(0)
    model = prepare_model(nn.Sequential(nn.Embedding(256, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 256)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(0, 256, (16, 65), generator=torch.Generator().manual_seed(rank))
    step = 0
    for epoch in range(config["steps"] // config["save_every_steps"]):
        for _ in range(config["save_every_steps"]):
            loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            time.sleep(config["step_delay_s"])
            hang = journal.parent / "faults" / f"hang-rank-{rank}"
            if hang.exists():  # the benchmark's request
                hang.unlink()
                event("fault", always=True, fault="hang", rank=rank)
                time.sleep(1e6)
            event("step", step=step, loss=loss.item())
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder) / "model.pt")
            ray.train.report({"loss": loss.item(), "epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))
        event("save", step=step, reason="epoch", path=f"epoch-{epoch}")
    event("done", step=step)


def main() -> None:
    """Fit with Ray's own defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every-steps", type=int, default=10)
    parser.add_argument("--step-delay-s", type=float, default=0.0)
    options = vars(parser.parse_args())
    (Path(options["storage"]) / options["name"]).mkdir(parents=True, exist_ok=True)
    TorchTrainer(
        train,
        train_loop_config=options,
        scaling_config=ScalingConfig(num_workers=options["workers"]),
        run_config=RunConfig(
            name=options["name"],
            storage_path=options["storage"],
            failure_config=FailureConfig(max_failures=-1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()


if __name__ == "__main__":
    main()

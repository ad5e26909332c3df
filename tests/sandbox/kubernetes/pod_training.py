"""What a researcher's job does in its pod: train with the library, save in the run's folder, resume.

    pod_training.py STORAGE NAME HOLDS_AT

Before step `HOLDS_AT` it waits for a file `go` in the storage, so that what happens meanwhile happens in mid-run.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

from hyperpod_ray_training import Resumable, Run, Settings

STEPS = 12


def loop(config: dict[str, Any]) -> None:
    """A linear layer on made-up data; the last loss says whether a step was lost or done twice."""
    torch.manual_seed(0)
    model = torch.nn.Linear(10, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    with Resumable(config["run"], model=model, optimizer=optimizer, recomputed=["config"]) as training:
        for step in training.steps(STEPS):
            while step == config["holds_at"] and not (config["storage"] / "go").exists():
                time.sleep(0.05)
            x = torch.randn(8, 10, generator=torch.Generator().manual_seed(step))
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=loss.item())
    print(f"last loss {loss.item()!r}", flush=True)


if __name__ == "__main__":
    storage = Path(sys.argv[1])
    run = Run(storage=str(storage), name=sys.argv[2], save_every_steps=2, async_save=False, settings=Settings())
    run.fit(loop, config={"storage": storage, "holds_at": int(sys.argv[3])}, workers=0)

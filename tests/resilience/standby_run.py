"""One run in a real Ray cluster of this machine: two ranks with a GPU each (in name only), no spare, one standby.

    python tests/resilience/standby_run.py FOLDER

Rank 1 is killed, then its successor is killed too, both by their own hand. `test_standby.py` reads the journal, and
what the loop saw of its devices.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 24
DIES_AT = (8, 16)


def standbys(url: str) -> int:
    """How many standbys have imported, as the coordinator last said."""
    whole = Path(url, "events.jsonl").read_text(encoding="utf-8").rpartition("\n")[0]
    events = [json.loads(line) for line in whole.splitlines()]
    return next((int(event["standbys"]) for event in reversed(events) if "standbys" in event), 0)


def seat() -> dict[str, Any]:
    """What this process has for a seat, as a loop asks for it."""
    import ray.train.torch
    from ray.train.v2._internal.execution.context import get_train_context

    context = get_train_context().distributed_context
    return {
        "pid": os.getpid(), "gpus": ray.get_gpu_ids(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "device": str(ray.train.torch.get_device()), "local_rank": context.local_rank,
        "environment": os.environ.get("LOCAL_RANK"), "rank": ray.train.get_context().get_world_rank(),
    }  # fmt: skip


def train(config: dict[str, Any]) -> None:
    """The loop."""
    import colorsys  # what a standby has to import too: nothing else does

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from hyperpod_ray_training import Resumable

    torch.set_num_threads(1)
    torch.manual_seed(0)
    url, rank = config["run"].url, dist.get_rank()
    with Path(url, f"seats-{rank}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(seat() | {"imported": "colorsys" in sys.modules}) + "\n")
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(STEPS):
            if step in DIES_AT:
                with training.unhurried():
                    while not standbys(url):
                        time.sleep(0.05)
                mark = Path(url, f"died-{step}")
                if rank == 1 and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            loss = model(torch.full((2, 4), colorsys.rgb_to_hsv(0.1, 0.2, step / STEPS)[2])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=float(loss.detach()))


def main(folder: str) -> None:
    """Run it to its end."""
    import ray
    from ray.train.torch import TorchConfig

    from hyperpod_ray_training import Run, Settings

    ray.init(address="local", num_cpus=3, num_gpus=2, include_dashboard=False)
    # what is tested is what happens, not how soon
    patient = Settings(
        silence_s=900, hang_s=900, process_group_timeout_s=900, collective_timeout_s=900,
        worker_health_check_timeout_s=900, worker_group_start_timeout_s=900,
    )  # fmt: skip
    run = Run(storage=folder, name="run", save_every_steps=100, keep=2, settings=patient)
    result = run.fit(train, workers=2, gpus_per_worker=1, torch_config=TorchConfig(backend="gloo"))
    print(json.dumps({"error": str(result.error or "")}))


if __name__ == "__main__":
    main(sys.argv[1])

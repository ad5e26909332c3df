"""One run in a real Ray cluster of this machine: two ranks, one spare, Ray Data, and a rank that dies once.

    python tests/resilience/ray_run.py FOLDER

Prints Ray's result as JSON. `test_in_ray.py` reads that and the run's journal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ROWS, BATCH, EPOCHS = 96, 8, 3
STEPS = ROWS // BATCH // 2 * EPOCHS
DIES_AT, WAITS_AT = 5, 13


def warm(url: str) -> bool:
    """Whether a spare stands by, as the coordinator last said."""
    lines = Path(url, "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return bool(next((event["warm_spares"] for event in reversed(events) if "warm_spares" in event), 0))


def train(config: dict[str, Any]) -> None:
    """The loop."""
    import ray.train
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from resilience import Resumable

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    rows, url = ray.train.get_dataset_shard("train"), config["run"].url
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for _ in training.epochs(EPOCHS):
            for batch in training.batches(rows.iter_torch_batches(batch_size=BATCH)):
                if training.memory is not None and training.step in (DIES_AT, WAITS_AT):  # not in a rehearsal
                    with training.unhurried():
                        while not warm(url):
                            time.sleep(0.05)
                mark, mine = Path(url, "died"), training.memory is not None and dist.get_rank() == 1
                if mine and training.step == DIES_AT and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                loss = model(batch["id"].float()[:, None] / ROWS).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                both = torch.tensor([float(loss.detach()), float(batch["id"].sum())], dtype=torch.float64)
                dist.all_reduce(both)
                training.note(loss=float(both[0]), ids=float(both[1]))


def main(folder: str) -> None:
    """Run it to its end."""
    import ray

    from resilience import Run, Settings

    ray.init(address="local", num_cpus=5, include_dashboard=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # what is tested is what happens, not how soon
    patient = Settings(
        silence_s=60, hang_s=300, process_group_timeout_s=900, collective_timeout_s=900,
        worker_health_check_timeout_s=900, worker_group_start_timeout_s=300,
    )  # fmt: skip
    run = Run(storage=folder, name="run", save_every_steps=2, keep=2, settings=patient)
    result = run.fit(train, workers=2, spares=1, datasets={"train": ray.data.range(ROWS)})
    print(json.dumps({"error": str(result.error or ""), "checkpoint": result.checkpoint.path}))


if __name__ == "__main__":
    main(sys.argv[1])

"""One run in a real Ray cluster of this machine: two ranks, one spare, Ray Data, and a rank that dies twice.

The second time, it has done its last step, and the other rank has come to the end of the script.

    python tests/resilience/ray_run.py FOLDER

Prints Ray's result as JSON. `test_in_ray.py` reads that and the run's journal.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROWS, BATCH, EPOCHS = 96, 8, 3
STEPS = ROWS // BATCH // 2 * EPOCHS
DIES_AT, WAITS_AT = 5, 13


def warm(url: str) -> bool:
    """Whether a spare stands by, as the coordinator last said."""
    whole = Path(url, "events.jsonl").read_text(encoding="utf-8").rpartition("\n")[0]
    events = [json.loads(line) for line in whole.splitlines()]
    return bool(next((event["warm_spares"] for event in reversed(events) if "warm_spares" in event), 0))


def served() -> list[str]:
    """What the Ray node of this process serves at its metrics port about runs."""
    import ray

    (node,) = ray.nodes()
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
        return [line for line in lines if line.startswith("ray_training_run_")]
    return []


def wait_for_metrics(training: Any, url: str) -> None:
    """Note what is served as soon as rank 0's and the driver's are there; Ray drops what nobody sets any more."""
    kept, until = Path(url, "metrics.txt"), time.monotonic() + 600
    while not kept.exists() and time.monotonic() < until:
        training.shown.set_t = -math.inf
        training.shown.stepped(training.step, world=training.world, metrics={"loss": 0.5})
        lines = served()
        # a rank that was lost is served for some seconds more, with an older step
        now = any(
            line.startswith("ray_training_run_step{") and float(line.split()[-1]) == training.step for line in lines
        )
        if now and sum(line.startswith("ray_training_run_step_time_seconds{") for line in lines) >= 2:
            kept.write_text("\n".join(lines), encoding="utf-8")
        time.sleep(0.1)


def train(config: dict[str, Any]) -> None:
    """The loop."""
    import ray.train
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from hyperpod_ray_training import Resumable

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
                if training.memory is not None and training.step == WAITS_AT and dist.get_rank() == 0:
                    with training.unhurried():
                        wait_for_metrics(training, url)
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
    if training.memory is not None and dist.get_rank() == 1:
        die_when_over(url)
        Path(url, "exported").touch()


def die_when_over(url: str) -> None:
    """End this process, once, when the other rank has said that the run is done."""
    mark = Path(url, "died behind the loop")
    if mark.exists():
        return
    while '"kind": "done"' not in Path(url, "events.jsonl").read_text(encoding="utf-8"):
        time.sleep(0.05)
    time.sleep(3.0)
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str) -> None:
    """Run it to its end."""
    import ray

    from hyperpod_ray_training import Run, Settings

    ray.init(address="local", num_cpus=5, include_dashboard=False, _system_config={"metrics_report_interval_ms": 2000})
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # what is tested is what happens, not how soon
    patient = Settings(
        silence_s=900, hang_s=900, process_group_timeout_s=900, collective_timeout_s=900,
        worker_health_check_timeout_s=900, worker_group_start_timeout_s=900,
    )  # fmt: skip
    run = Run(storage=folder, name="run", save_every_steps=2, keep=2, settings=patient)
    result = run.fit(train, workers=2, spares=1, datasets={"train": ray.data.range(ROWS)})
    until = time.monotonic() + 600
    while (left := served()) and time.monotonic() < until:
        time.sleep(0.5)
    print(json.dumps({"left": left, "error": str(result.error or ""), "checkpoint": result.checkpoint.path}))


if __name__ == "__main__":
    main(sys.argv[1])

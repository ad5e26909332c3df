"""A run in a real Ray cluster of this machine, over rows in S3, whose second rank dies once in the middle of an epoch.

    python tests/resilience/exact_run.py FOLDER S3_URL

It writes the rows first.

The model counts the rows of the steps that were kept. Rows come through a pipeline of Ray Data. Without a spare the
ranks start again from a checkpoint. Prints Ray's result as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

ROWS, GLOBAL_BATCH, EPOCHS = 50, 6, 2
DIES_AT = 5


def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    """A pipeline's function."""
    return {"id": batch["id"], "double": batch["id"] * 2}


def train(config: dict[str, Any]) -> None:
    """The loop."""
    import torch
    import torch.distributed as dist
    from counts import Counts

    from hyperpod_ray_training import Resumable, Rows

    torch.set_num_threads(1)
    world, url = dist.get_world_size(), config["run"].url
    model = torch.nn.parallel.DistributedDataParallel(Counts(EPOCHS, ROWS))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rows = Rows(config["data"], global_batch=GLOBAL_BATCH, through=lambda data: data.map_batches(doubled))
    training = Resumable(config["run"], model=model, optimizer=optimizer)
    for epoch in training.epochs(EPOCHS):
        for batch in training.batches(rows):
            mark = Path(url, "died")
            if dist.get_rank() == 1 and training.step == DIES_AT and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            (world * model(epoch, batch["double"] // 2)).backward()
            optimizer.step()
    if dist.get_rank() == 0:
        Path(url, "seen.json").write_text(json.dumps(model.module.seen.tolist()))


def main(folder: str, data: str) -> None:
    """Run it to its end."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import ray
    from pyarrow import fs

    from hyperpod_ray_training import Run, Settings

    store, base = fs.FileSystem.from_uri(data)
    for begin in range(0, ROWS, 20):
        table = pa.table({"id": list(range(begin, min(begin + 20, ROWS)))})
        pq.write_table(table, f"{base}/{begin}.parquet", filesystem=store, row_group_size=7)
    ray.init(address="local", num_cpus=5, include_dashboard=False)
    patient = Settings(
        standby_workers=0,  # all ranks begin again, by the checkpoint
        silence_s=900, hang_s=900, process_group_timeout_s=900, collective_timeout_s=900,
        worker_health_check_timeout_s=900, worker_group_start_timeout_s=900,
    )  # fmt: skip
    run = Run(storage=folder, name="run", save_every_steps=2, async_save=False, settings=patient)
    result = run.fit(train, workers=2, config={"data": data})
    print(json.dumps({"error": str(result.error or ""), "rows": ROWS, "epochs": EPOCHS}))


if __name__ == "__main__":
    main(*sys.argv[1:])

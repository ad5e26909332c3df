"""How long a checkpoint stops training: synchronous and asynchronous saves of the same state, in one run on two ranks.

    .venv-rehearsal/bin/python benchmarks/async_checkpoint.py [--megabytes 304] [--saves 5] [--storage DIR]

Prints one line per way and the ratio of the medians. The stall is what `Resumable` counts per save: the time the loop
could not step, from the call to save until it returned plus what collecting the finished save took. Every step in
between does real work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def loop(config: dict[str, Any]) -> None:
    """Train a stack of square layers; AdamW makes three times the parameters' bytes of state."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from hyperpod_ray_training import Resumable

    torch.manual_seed(0)
    torch.set_num_threads(1)
    width = 1024
    layers = max(1, round(config["megabytes"] * 1e6 / (12 * width * width)))
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model, mesh=mesh)  # one unit: what is measured is the save, not the gathering of parameters
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with Resumable(config["run"], model=model, optimizer=optimizer) as training:
        for step in training.steps(config["steps"]):
            x = torch.randn(32, width, generator=torch.Generator().manual_seed(step))
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.finished(step, loss=float(loss.detach()))


def rank_main(arguments: argparse.Namespace) -> None:
    """What each rank runs under torchrun."""
    from hyperpod_ray_training import Run

    way, every = arguments.way, arguments.steps_between
    run = Run(storage=arguments.storage, name=way, save_every_steps=every, async_save=way == "async", keep=None)
    # one more interval than saves asked for: the end of the run is a save that waits, and is not counted
    steps = every * (arguments.saves + 1)
    run.fit(loop, config={"megabytes": arguments.megabytes, "steps": steps}, workers=0)


def measured(storage: Path, way: str) -> dict[str, float]:
    """Median stall and duration of the interval saves, and the size of one checkpoint."""
    lines = [json.loads(line) for line in (storage / way / "events.jsonl").read_text().splitlines()]
    saves = [line for line in lines if line["kind"] == "save" and line["reason"] == "interval"]
    size = sum(file.stat().st_size for file in Path(saves[-1]["path"]).iterdir())
    return {
        "saves": len(saves),
        "stall_s": statistics.median(save["stall_s"] for save in saves),
        "worst_stall_s": max(save["stall_s"] for save in saves),
        "write_s": statistics.median(save["seconds"] for save in saves),
        "megabytes": size / 1e6,
    }


def main() -> int:
    """Start the two ranks, read their events, print; exit 1 where the ratio exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--megabytes", type=float, default=304, help="state in MB, model and optimizer of all ranks together"
    )
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument(
        "--steps-between", type=int, default=12, help="steps between saves; enough for a write to finish"
    )
    parser.add_argument("--storage", default=None, help="where to write (default: a temporary folder)")
    parser.add_argument("--way", default="sync", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=0.10, help="largest ratio of stalls, async to sync")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        rank_main(arguments)
        return 0
    with tempfile.TemporaryDirectory(dir=arguments.storage) as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
        command += ["--storage", folder, "--megabytes", str(arguments.megabytes), "--saves", str(arguments.saves)]
        command += ["--steps-between", str(arguments.steps_between)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        environment["RESILIENCE_PROCESS_GROUP_TIMEOUT_S"] = "600"  # a busy machine makes it slow, not wrong
        for way in ("sync", "async"):
            done = subprocess.run(
                [*command, "--way", way], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.stderr.write(done.stderr[-20000:])
                return 1
        result = {way: measured(Path(folder), way) for way in ("sync", "async")}
    ratio = result["async"]["stall_s"] / result["sync"]["stall_s"]
    lines = [
        f"{way:5}  stall {row['stall_s']:.3f} s (worst {row['worst_stall_s']:.3f})  until complete "
        f"{row['write_s']:.2f} s  "
        f"{row['megabytes']:.0f} MB  {row['saves']:.0f} saves"
        for way, row in result.items()
    ]
    sys.stdout.write(
        "\n".join([*lines, f"ratio  {ratio:.1%} of a synchronous save (limit {arguments.limit:.0%})"]) + "\n"
    )
    return 0 if ratio <= arguments.limit else 1


if __name__ == "__main__":
    raise SystemExit(main())

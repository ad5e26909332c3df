"""What a copy of every step in a neighbour's memory costs a step, in one run.

    .venv-rehearsal/bin/python benchmarks/overhead.py [--rounds 12] [--steps 10] [--step-s 0.2] [--json FILE]

Two ranks train one model (FSDP2, AdamW, gloo over loopback). Rounds of steps alternate in the same processes: the bare
loop, the loop with `Resumable` and no copies, and the loop with `Resumable` and a copy after each step. No checkpoint
is written. The order of the three changes from round to round, so that other work on the machine meets all of them.

Percentages are medians over the rounds. Seconds of a processor are those of all threads of a rank, copies included:
they mean something on a machine that does other work too.

`--work cpu` (default) computes for the whole step, so that the copies compete with the training for the same cores: the
worst case. `--work wait` computes a fifth of the step and waits for the rest, as a process does whose GPU computes.
`--work idle` only waits: for states whose step takes these cores longer than `--step-s`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

ARMS = ("bare", "library", "library and copies")
WAITS = {"cpu": 0.0, "wait": 0.8, "idle": 1.0}
"""Shares of a step in which a rank computes nothing."""
TOKEN = "overhead"  # noqa: S105 - of a coordinator on loopback that lives for this run


def main(argv: list[str]) -> int:
    """Measure and print; 0 where the copies cost no more than `--most` percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="rounds of each kind (12)")
    parser.add_argument("--steps", type=int, default=10, help="steps of a round; the first is not counted (10)")
    parser.add_argument("--step-s", type=float, default=0.2, help="seconds of a bare step, about (0.2)")
    parser.add_argument("--width", type=int, default=256, help="width of the model's eight layers (256)")
    parser.add_argument("--work", choices=tuple(WAITS), default="cpu")
    parser.add_argument("--most", type=float, default=3.0, help="percent that the copies may cost (3)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.rank_of:
        rank(json.loads(options.rank_of))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    bare = found["seconds"]["bare"]
    sys.stdout.write(
        f"2 ranks, {found['state_mb']:.1f} MB of state a rank, {options.rounds} rounds of {options.steps} steps each, "
        f"work: {options.work}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
    )
    for arm in ARMS:
        sys.stdout.write(
            f"{arm:20} {found['seconds'][arm] * 1000:7.1f} ms a step {found['percent'][arm]:+5.1f} %   "
            f"{found['cpu_seconds'][arm] * 1000:7.1f} ms of processor {found['cpu_percent'][arm]:+5.1f} %\n"
        )
    cost = found["percent"][ARMS[-1]]
    sys.stdout.write(f"copies and library cost {cost:.1f} % of a step of {bare:.2f} s; goal: {options.most:g} %\n")
    if options.json:
        options.json.write_text(json.dumps({"schema_version": 1, **found}, indent=1), encoding="utf-8")
    return 0 if cost <= options.most else 1


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start a coordinator and two ranks; what rank 0 saw."""
    from hyperpod_ray_training import Run, Settings
    from hyperpod_ray_training.spares.coordinator import Coordinator
    from hyperpod_ray_training.spares.members import Limits

    run = Run(storage=str(folder), name="overhead", settings=Settings())
    (folder / run.name).mkdir()
    limits = Limits(silence_s=60.0, hang_s=60.0)
    coordinator = Coordinator(run=run, active=2, spares=0, limits=limits, token=TOKEN)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    address = asyncio.run_coroutine_threadsafe(coordinator.listen("127.0.0.1", nodes=False), loop).result(10)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = []
    for order in range(2):
        given = {
            "address": address, "order": order, "storage": str(folder), "rounds": options.rounds,
            "steps": options.steps, "step_s": options.step_s, "width": options.width, "work": options.work,
        }  # fmt: skip
        command = [sys.executable, __file__, "--rank-of", json.dumps(given)]
        ranks.append(subprocess.Popen(command, env=environment))
    try:
        while any(process.poll() is None for process in ranks) and not any(process.poll() for process in ranks):
            time.sleep(0.5)  # the others wait for a rank that has failed
        codes = [process.poll() for process in ranks]
    finally:
        for process in ranks:
            process.kill()
        loop.call_soon_threadsafe(coordinator.close)
    if any(codes):
        raise SystemExit(f"error: ranks ended with {codes}. Expected 0. Fix: see their output above")
    found: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found


def rank(given: dict[str, Any]) -> None:
    """One rank, as a worker of a run with spares."""
    import torch

    from hyperpod_ray_training import Run, Settings, resumable
    from hyperpod_ray_training.spares import loop as spares

    torch.set_num_threads(1)
    resumable.report_alone = lambda *_: None  # type: ignore[attr-defined]  # no Ray here
    run = Run(storage=given["storage"], name="overhead", save_every_steps=10**9, settings=Settings())
    plan = spares.Plan(active=2, coordinator=None, token=TOKEN, backend="gloo")
    host, port = given["address"]
    spares.Survivor(
        train, {"run": run, **given}, plan, node=f"127.0.0.{2 + given['order']}", order=given["order"],
        find=lambda: (host, port),
    ).run()  # fmt: skip


class Work:
    """The model and its step.

    Args:
        width: Of the model's eight layers.
        step_s: Seconds of a step, about.
        wait_share: Of a step that it waits; 1: it computes nothing, as a process whose GPU has all the work.
    """

    def __init__(self, *, width: int, step_s: float, wait_share: float) -> None:
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        torch.manual_seed(0)
        self.width, self.rows, self.wait_s = width, 64, 0.0
        self.model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(8)))
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in self.model:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.idle = wait_share == 1
        if self.idle:
            self.wait_s = step_s
            for parameter in self.model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            self.optimizer.step()  # the moments are there
            self.optimizer.zero_grad()
            return
        for _ in range(6):  # so many rows take that long; the same number on all ranks
            took = torch.tensor(statistics.median(self.cost() for _ in range(3)))
            dist.all_reduce(took)
            self.rows = max(8, int(self.rows * step_s * (1 - wait_share) / (float(took) / dist.get_world_size())))
        self.wait_s = step_s * wait_share

    def step(self) -> None:
        """One step of training."""
        import torch

        if self.idle:
            time.sleep(self.wait_s)
            return
        loss = self.model(torch.randn(self.rows, self.width)).square().mean()
        time.sleep(self.wait_s)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def cost(self) -> float:
        """Seconds of a processor that a step takes: what it would last with nobody else on the machine."""
        started = time.process_time()
        self.step()
        return time.process_time() - started


def train(config: dict[str, Any]) -> None:
    """The loop: rounds of each arm, in an order that changes."""
    import torch
    import torch.distributed as dist

    from hyperpod_ray_training import Resumable

    rounds, steps = config["rounds"], config["steps"]
    work = Work(width=config["width"], step_s=config["step_s"], wait_share=WAITS[config["work"]])
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    cpu: dict[str, list[float]] = {arm: [] for arm in ARMS}
    measured = ["arm", "busy", "cpu", "number", "seconds", "took", "turn"]  # no part of the training
    with Resumable(config["run"], model=work.model, optimizer=work.optimizer, recomputed=measured) as training:
        memory, ahead = training.memory, training.steps(2 * rounds * steps)
        if memory is None:  # a rank that rehearses while the other still starts
            for number in ahead:
                training.finished(number)
            return
        for turn in range(rounds):
            for arm in [ARMS[(turn + at) % len(ARMS)] for at in range(len(ARMS))]:
                dist.barrier()
                training.memory = memory if arm == ARMS[-1] else None
                took, busy = [], 0.0
                for number in range(steps):
                    if number == 1:
                        busy = time.process_time()
                    step = None if arm == "bare" else next(ahead)
                    started = time.monotonic()
                    work.step()
                    if step is not None:
                        training.finished(step, loss=0.0)
                    took.append(time.monotonic() - started)
                memory.neighbour.settle()
                seconds[arm].append(statistics.mean(took[1:]))
                spent = torch.tensor(time.process_time() - busy)
                dist.all_reduce(spent)
                cpu[arm].append(float(spent) / dist.get_world_size() / (steps - 1))
        training.memory = None
        next(ahead, None)
    if dist.get_rank() == 0:
        found = {
            "seconds": {arm: statistics.median(seconds[arm]) for arm in ARMS}, "percent": percent(seconds),
            "cpu_seconds": {arm: statistics.median(cpu[arm]) for arm in ARMS}, "cpu_percent": percent(cpu),
            "rounds": seconds, "cpu_rounds": cpu,
            "state_mb": memory.snapshot.expected_bytes() / 1e6, "rows": work.rows, "work": config["work"],
        }  # fmt: skip
        Path(config["storage"], "found.json").write_text(json.dumps(found), encoding="utf-8")


def percent(rounds: dict[str, list[float]]) -> dict[str, float]:
    """Of each arm, the median of what its rounds cost more than the bare ones beside them."""
    return {
        arm: statistics.median(100 * (one / bare - 1) for one, bare in zip(rounds[arm], rounds["bare"], strict=True))
        for arm in ARMS
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

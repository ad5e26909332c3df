"""Copies of a state on the card: beside a pinned memcpy of the same bytes, and what a training step waits for them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.__main__ import PROJECT, check_of

STEPS, WARM_UP = 12, 6
PACED = 16
"""Copies after which it is known how often they come; one whole period after them is measured, copy included."""
MOST_STEPS = 400
STEP_S = 1.0
SECRET = "of this run"  # noqa: S105 - on loopback, for this run


def measure(device: str, *, small: bool, sizes: Sequence[float]) -> dict[str, Any]:
    """One rank at each size, then two ranks that exchange their copies over loopback."""
    step_s = 0.05 if small else STEP_S
    sizes = [size / 1000 for size in sizes[:2]] if small else sizes
    rows = [alone(device, size, step_s=step_s) for size in sizes]
    rows.append(pair(device, sizes[0], step_s=step_s))
    checks = []
    for row in rows:
        name = f"{row['state']}, {row['ranks']} rank{'s' * (row['ranks'] > 1)}"
        if "not run" in row:
            checks.append(check_of(name, row["not run"], "measured", met=False))
            continue
        checks += [
            check_of(f"{name}: overhead of a step", f"{row['overhead %']} %", "<= 3 %", met=row["overhead %"] <= 3),
            check_of(
                f"{name}: load : pinned memcpy", f"{row['load : memcpy']}", ">= 0.5", met=row["load : memcpy"] >= 0.5
            ),
            check_of(
                f"{name}: host memory : state", f"{row['memory : state']}", "<= 4", met=row["memory : state"] <= 4.05
            ),
        ]
    return {"rows": rows, "checks": checks}


def alone(device: str, size: float, *, step_s: float) -> dict[str, Any]:
    """One rank in a process of its own: pinned memory goes back to the machine with it."""
    return _ranks(device, size, 1, step_s)[0]


def pair(device: str, size: float, *, step_s: float) -> dict[str, Any]:
    """Two ranks on the card: the slower one's figures."""
    rows = _ranks(device, size, 2, step_s)
    return max(rows, key=lambda row: row.get("overhead %", 0.0))


def _ranks(device: str, size: float, world: int, step_s: float) -> list[dict[str, Any]]:
    import torch.distributed as dist

    from hyperpod_ray_training.spares.host_memory import gigabytes, memory_free, memory_needed

    needed, free = memory_needed(round(size * 1e9), ranks_per_node=world), memory_free()[1]
    if needed > 0.9 * free:
        words = f"{gigabytes(needed)} of host memory needed, {gigabytes(free)} free"
        return [{"state": f"{size:g} GB", "ranks": world, "not run": words}]
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    code = "import json, sys; from benchmarks.gpu import copies; copies.rank_main(**json.loads(sys.argv[1]))"
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                code,
                json.dumps(
                    {
                        "device": device,
                        "size": size,
                        "world": world,
                        "rank": rank,
                        "port": server.port,
                        "step_s": step_s,
                    }
                ),
            ],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    outputs = [process.communicate()[0] for process in ranks]
    rows = []
    for process, output in zip(ranks, outputs, strict=True):
        lines = [line for line in output.splitlines() if line.startswith("{")]
        row = {"state": f"{size:g} GB", "ranks": world}
        rows.append(row | (json.loads(lines[-1]) if lines else {"not run": f"exit code {process.returncode}"}))
    return rows


def rank_main(*, device: str, size: float, world: int, rank: int, port: int, step_s: float) -> None:
    """Measure as one rank; prints one line of JSON."""
    sys.stdout.write(
        json.dumps(_measured(device=device, size=size, world=world, rank=rank, port=port, step_s=step_s)) + "\n"
    )


def _measured(*, device: str, size: float, world: int, rank: int, port: int, step_s: float) -> dict[str, Any]:
    import os
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from hyperpod_ray_training.spares.host_memory import memory_free
    from hyperpod_ray_training.spares.memory import Memory
    from hyperpod_ray_training.spares.neighbour import Neighbour
    from hyperpod_ray_training.spares.snapshot import Snapshot
    from hyperpod_ray_training.spares.store import Store
    from hyperpod_ray_training.spares.wires import Ends, Wires
    from hyperpod_ray_training.state import TrainingState

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    place = torch.device(device)
    settle = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    rendezvous = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=rendezvous, rank=rank, world_size=world, timeout=timedelta(minutes=3))
    begun = time.monotonic()
    parts = trained(size, place)
    state = TrainingState(**parts, extra={}, per_rank={}, rank=rank, world=world)
    state.gradients = False
    bytes_of_state = 12 * sum(parameter.numel() for parameter in parts["model"].parameters())
    memcpy = _memcpy_seconds(bytes_of_state, place, settle)
    snapshot, store = Snapshot(state, secret=SECRET), Store()
    group = dist.new_group(backend="gloo", timeout=timedelta(minutes=3))
    wires = (
        Wires.open(Ends(rank, world, 1, "127.0.0.1"), group=group, secret=SECRET, limit=timedelta(minutes=3))
        if world > 1
        else None
    )
    nodes = [str(peer) for peer in range(world)]
    neighbour = Neighbour(store=store, group=group, nodes=nodes, rank=rank, wires=wires)
    memory = Memory(snapshot=snapshot, neighbour=neighbour, every=1)
    step = Step(parts["optimizer"], place, step_s / (2 if world > 1 else 1), settle)
    plain = [step.timed(lambda: None) for _ in range(STEPS)][WARM_UP:]
    before, peaks = _resident(), [store.bytes]  # libraries of the first products are none of the copies' memory
    waits: list[float] = []

    def keep(number: int) -> None:
        begin = time.perf_counter()
        memory.finished(number)
        waits.append(time.perf_counter() - begin)
        peaks.append(_resident() - before)

    period, copies = whole_period(memory, lambda number: step.timed(lambda: keep(number)))
    neighbour.settle()
    load = _load_seconds(memory, store, rank, settle)
    step_plain, step_copied = statistics.mean(plain), statistics.mean(period)
    overhead = 100 * (step_copied / step_plain - 1)
    return {
        "memcpy GB/s": round(bytes_of_state / 1e9 / memcpy["down"], 1),
        "back GB/s": round(bytes_of_state / 1e9 / memcpy["up"], 1),
        "finished() s": round(statistics.median(waits[WARM_UP:]), 3),
        "step s": round(step_plain, 3),
        "stall s": round(step_copied - step_plain, 3),
        "overhead %": round(overhead, 1),
        "host memory that is free GB": round(memory_free()[1] / 1e9),
        "in all s": round(time.monotonic() - begun),
        "one copy in": len(period),
        "copies": copies,
        "load s": round(load, 3),
        "load : memcpy": round(memcpy["up"] / load, 2),
        "memory : state": round(max(*peaks, store.bytes) / bytes_of_state, 1),
    }


def whole_period(memory: Any, timed_step: Callable[[int], float]) -> tuple[list[float], int]:
    """Seconds of the steps from one copy to the next, once copies have their pace; and how many copies there were."""
    period: list[float] = []
    copies = 0
    for number in range(1, MOST_STEPS + 1):
        due = memory.due(number)
        period.append(timed_step(number))
        if due:
            copies += 1
            if copies > PACED:
                break
            period = []
    return period, copies


def trained(size: float, place: Any) -> dict[str, Any]:
    """A model of `size` GB with its optimizer's two moments, after one step: tensors of 64 MB and less."""
    import torch

    count = int(size * 1e9 / 12)
    layers = max(4, count // 16_000_000)
    model = torch.nn.Module()
    model.layers = torch.nn.ParameterList(
        torch.nn.Parameter(torch.randn(count // layers, device=place)) for _ in range(layers)
    )
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


class Step:
    """A step of about so many seconds: products of matrices, then the optimizer."""

    def __init__(self, optimizer: Any, place: Any, seconds: float, settle: Callable[[], None]) -> None:
        import torch

        self.optimizer, self.settle = optimizer, settle
        self.left = torch.randn(
            4096 if place.type == "cuda" else 256, 4096 if place.type == "cuda" else 256, device=place
        )
        self.count = 1
        self._work()
        self.count = 20
        seconds_each = self.timed(lambda: None, alone=True) / self.count
        self.count = max(1, round(seconds / seconds_each))

    def _work(self) -> None:
        out = self.left
        for _ in range(self.count):
            out = self.left @ self.left
        self.settle() if out is None else None

    def timed(self, after: Callable[[], None], *, alone: bool = False) -> float:
        """Seconds of a step and of what comes after it."""
        self.settle()
        begin = time.perf_counter()
        self._work()
        if not alone:
            self.optimizer.step()
            after()
        self.settle()
        return time.perf_counter() - begin


def _memcpy_seconds(count: int, place: Any, settle: Callable[[], None]) -> dict[str, float]:
    """Both ways between the card and a pinned buffer that was touched before, at most 4 GB of it at a time."""
    import torch

    size = min(count, 4 << 30)
    host = torch.ones(size, dtype=torch.uint8)
    if place.type == "cuda":
        torch.cuda.cudart().cudaHostRegister(host.data_ptr(), size, 0)
    there = torch.ones(size, dtype=torch.uint8, device=place)
    seconds = {}
    for name, target, source in (("down", host, there), ("up", there, host)):
        times = []
        for _ in range(4):
            settle()
            begin = time.perf_counter()
            target.copy_(source, non_blocking=True)
            settle()
            times.append(time.perf_counter() - begin)
        seconds[name] = min(times[1:]) * count / size
    if place.type == "cuda":
        torch.cuda.cudart().cudaHostUnregister(host.data_ptr())
    return seconds


def _load_seconds(memory: Any, store: Any, rank: int, settle: Callable[[], None]) -> float:
    """The newest own copy back into the tensors that are there; the median of three."""
    newest = max(step for owner, step in store.held if owner == rank)
    times = []
    for _ in range(3):
        settle()
        begin = time.perf_counter()
        memory.snapshot.load(store.held[rank, newest])
        settle()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _resident() -> int:
    import resource

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

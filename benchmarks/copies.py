"""What copies in memory cost beside what this machine can do, as ratios measured in one run.

    .venv-rehearsal/bin/python benchmarks/copies.py [--gb 0.1,1,4] [--ranks 2,8] [--steps 8] [--json FILE]

Ranks on loopback, a thread each, AdamW in float32. Every step they copy their state and exchange the copies, all at the
same time. In the same processes, on the same bytes and all at the same time too, they measure the limits: one `memcpy`
into memory that was touched before, and one plain TCP socket around the same ring.

| column | ratio | better |
|---|---|---|
| stall | seconds that a step waits for its copy : seconds of a memcpy | lower |
| exchange | bytes a second of the exchange : of plain sockets | higher |
| load | processor seconds of a memcpy : of putting a copy back into the tensors that are there | higher |
| load, new | the same, where the optimizer has no tensors yet: the loop has built the model again | higher |
| new memory | what that is at most: a memcpy whose two moments go into memory that nobody has touched yet | – |
| memory | bytes of host memory for copies : bytes of state | lower |
| CPU s/GB | processor seconds to copy, send and receive one GB of state | lower |

A size that would take more than `--share` of the free memory is not run, and its line says so. Exit code 3: a size was
not run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

COPIES, BESIDE = 5, 2
"""States that a rank may keep as copies at most, and beside them: the training's own, and what its first step needs."""
PROCESS_BYTES = 400_000_000
WARM_UP = 4
"""Steps until every buffer was used before."""
LOADS = 3
CHUNK = 1 << 20
SECRET = "of this run"  # noqa: S105 - on loopback, for this run
HEADER = ("state a rank", "ranks", "stall", "exchange", "load", "load, new", "new memory", "memory", "CPU s/GB")


def main(argv: list[str]) -> int:
    """Measure and print; 3 where a size was not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=_numbers(float), default=[0.1, 1.0, 4.0], help="state of a rank (0.1,1,4)")
    parser.add_argument("--ranks", type=_numbers(int), default=[2, 8], help="numbers of ranks (2,8)")
    parser.add_argument("--steps", type=int, default=8, help=f"steps; the first {WARM_UP} are not counted (8)")
    parser.add_argument("--share", type=float, default=0.7, help="of the free memory that a size may take (0.7)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.rank_of:
        measure(**json.loads(options.rank_of))
        return 0
    if options.steps <= WARM_UP:
        parser.error(f"--steps: {options.steps}. Expected more than {WARM_UP}. Fix: --steps {WARM_UP + 1}")
    if min(options.ranks) < 2:
        parser.error(f"--ranks: {min(options.ranks)}. Expected 2 or more: a copy goes to another rank. Fix: --ranks 2")
    sys.stdout.write(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, copies in host memory, no GPU used\n")
    sys.stdout.write(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}\n")
    rows: list[dict[str, Any]] = []
    for size in options.gb:
        for world in options.ranks:
            rows.append(run(size, world, steps=options.steps, share=options.share))
            sys.stdout.write(line_of(rows[-1]) + "\n")
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 3 if any("not_run" in row for row in rows) else 0


def _numbers(number: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        values = [number(part) for part in text.split(",")]
        if min(values) <= 0:
            raise argparse.ArgumentTypeError(f"{text}. Expected numbers above 0")
        return values

    return parse


def run(size: float, world: int, *, steps: int, share: float) -> dict[str, Any]:
    """The ratios of one size, or why it was not run."""
    import torch.distributed as dist

    from hyperpod_ray_training.spares.host_memory import memory_free

    row: dict[str, Any] = {"gb": size, "ranks": world}
    needed, free = world * ((COPIES + BESIDE) * size * 1e9 + PROCESS_BYTES), memory_free()[1]
    if needed > share * free:
        return row | {"not_run": f"not run: {needed / 1e9:.0f} GB needed, {share * free / 1e9:.0f} GB to be had"}
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen([
                sys.executable, __file__, "--rank-of",
                json.dumps({"rank": rank, "world": world, "port": server.port, "size": size, "steps": steps,
                            "out": f"{folder}/{rank}"}),
            ])
            for rank in range(world)
        ]  # fmt: skip
        try:
            failed = [rank for rank, process in enumerate(ranks) if process.wait()]
        finally:
            for process in ranks:
                process.kill()
        if failed:
            raise SystemExit(f"ranks {failed} of {world} failed; the output above says why")
        return row | ratios([json.loads(Path(f"{folder}/{rank}").read_text()) for rank in range(world)])


def ratios(ranks: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What is printed, of what the ranks measured: the slowest rank's, since all wait for it."""

    def slowest(name: str) -> float:
        return float(statistics.median(max(seconds) for seconds in zip(*(rank[name] for rank in ranks), strict=True)))

    memcpy, memcpy_processor = slowest("memcpy_s"), slowest("memcpy_processor_s")
    return {
        "stall": slowest("take_s") / memcpy,
        "exchange": slowest("socket_s") / slowest("exchange_s"),
        "load": memcpy_processor / slowest("load_s"),
        "load_new": memcpy_processor / slowest("load_new_s"),
        "new_memory": memcpy_processor / slowest("new_memory_s"),
        "memory": max(rank["copies_bytes"] / rank["state_bytes"] for rank in ranks),
        "cpu_s_per_gb": statistics.median(
            seconds * 1e9 / rank["state_bytes"] for rank in ranks for seconds in rank["cpu_s"]
        ),
        "memcpy_gb_s": ranks[0]["state_bytes"] / 1e9 / memcpy,
        "socket_gb_s": ranks[0]["state_bytes"] / 1e9 / slowest("socket_s"),
    }


def line_of(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    start = f"| {row['gb']:g} GB | {row['ranks']} |"
    if "not_run" in row:
        return f"{start} {row['not_run']} | | | | | | |"
    return (
        f"{start} {row['stall']:.2f} | {row['exchange']:.2f} | {row['load']:.2f} | {row['load_new']:.2f} | "
        f"{row['new_memory']:.2f} | {row['memory']:.1f} | {row['cpu_s_per_gb']:.2f} |"
    )


# ---- one rank ----


def measure(*, rank: int, world: int, port: int, size: float, steps: int, out: str) -> None:
    """What one rank measures; written to `out`."""
    import torch
    import torch.distributed as dist

    from hyperpod_ray_training.spares.neighbour import Neighbour
    from hyperpod_ray_training.spares.snapshot import Snapshot
    from hyperpod_ray_training.spares.store import Store
    from hyperpod_ray_training.spares.wires import Ends, Wires
    from hyperpod_ray_training.state import TrainingState

    torch.set_num_threads(1)
    rendezvous = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=rendezvous, rank=rank, world_size=world)
    group = dist.new_group(backend="gloo", timeout=timedelta(minutes=10))
    state = TrainingState(**_trained(size), extra={}, per_rank={}, rank=rank, world=world)
    snapshot, store = Snapshot(state, secret=SECRET), Store()
    wires = Wires.open(Ends(rank, world, 1, "127.0.0.1"), group=group, secret=SECRET, limit=timedelta(minutes=10))
    nodes = [str(peer) for peer in range(world)]
    neighbour = Neighbour(store=store, group=group, nodes=nodes, rank=rank, wires=wires)
    seconds: dict[str, list[float]] = {name: [] for name in ("take_s", "exchange_s", "cpu_s", "memcpy_s", "socket_s")}
    before, most = _resident(), 0

    def timed(name: str, work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> Any:
        dist.barrier(group=group)
        start = clock()
        value = work()
        seconds.setdefault(name, []).append(clock() - start)
        return value

    def exchange(step: int, copy: torch.Tensor) -> None:
        neighbour.send(step, copy)
        neighbour.settle()

    for step in range(1, steps + 1):
        used = _processor()
        copy = timed("take_s", partial(snapshot.take, step, store))
        store.put(rank, step, copy)
        timed("exchange_s", partial(exchange, step, copy))
        seconds["cpu_s"].append(_processor() - used)
        most = max(most, _resident())
    copies_bytes = max(most - before, store.bytes)
    right, left = _ring(rendezvous, rank=rank, world=world)
    old = store.buffer(copy.numel(), pinned=False)  # touched before, and no longer needed
    for _ in range(steps):
        timed("memcpy_s", lambda: old.copy_(copy))
        timed("socket_s", lambda: _around(copy, old, right=right, left=left))
    # a thread alone does all of it: on a busy machine its own seconds say what it costs
    of_thread = partial(timed, clock=time.thread_time)
    for _ in range(LOADS):
        of_thread("memcpy_processor_s", lambda: old.copy_(copy))
        of_thread("load_s", lambda: snapshot.load(copy))
        state.forget()
        for name, work in (
            ("new_memory_s", lambda: _into_new_memory(copy, old, state.trained())),
            ("load_new_s", lambda: snapshot.load(copy)),
        ):
            ctypes.CDLL(None).malloc_trim(0)  # what was freed is touched
            of_thread(name, work)
    alone = ("load", "new_memory", "memcpy_processor")
    counted = {name: values if name.startswith(alone) else values[WARM_UP:] for name, values in seconds.items()}
    measured = counted | {"state_bytes": snapshot.expected_bytes(), "copies_bytes": copies_bytes}
    Path(out).write_text(json.dumps(measured))
    dist.barrier(group=group)


def _trained(size: float) -> dict[str, Any]:
    """A model of `size` GB with its optimizer's two moments, after one step."""
    import torch

    count = int(size * 1e9 / 12)
    layers = max(4, count // 4_000_000)
    model = torch.nn.Module()
    model.layers = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(count // layers)) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    return {"model": model, "optimizer": optimizer}


def _into_new_memory(copy: Any, old: Any, parameters: Sequence[Any]) -> list[Any]:
    """What a load cannot do without: parameters into memory that is there, their moments into new memory."""
    at, moments = 0, []
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        old[at : at + size].copy_(copy[at : at + size])
        moments += [copy[start : start + size].clone() for start in (at + size, at + 2 * size)]
        at += 3 * size
    return moments


def _ring(rendezvous: Any, *, rank: int, world: int) -> tuple[socket.socket, socket.socket]:
    """Plain connections to the next rank, and from the one before."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rendezvous.set(f"plain {rank}", str(server.getsockname()[1]))
        port = int(rendezvous.get(f"plain {(rank + 1) % world}"))
        right = socket.create_connection(("127.0.0.1", port))
        left, _ = server.accept()
    return right, left


def _around(sent: Any, received: Any, *, right: socket.socket, left: socket.socket) -> None:
    """Send all bytes to the next rank, and receive as many from the one before."""
    view, into = memoryview(sent.numpy()), memoryview(received.numpy())
    sender = threading.Thread(target=right.sendall, args=(view,))
    sender.start()
    at = 0
    while at < len(into):
        count = left.recv_into(into[at : at + CHUNK])
        if not count:
            raise ConnectionError(f"the rank before ended after {at:,} of {len(into):,} bytes")
        at += count
    sender.join()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

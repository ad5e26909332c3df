"""What a recovery costs by the number of ranks, with many ranks in each of a few processes.

    make scale            or    .venv-rehearsal/bin/python benchmarks/scale.py [64 512 4096] [--json FILE]

Three parts, each the product's own code:

- The coordinator with a connection and a pulse of every rank over loopback: its processor time for a second of
  training, and from the loss of a rank to the last assignment.
- A process group: a real gloo group on a real store, a thread for each rank, up to `MOST_THREADS` ranks, whose sockets
  one process may still have. A generation opens `GROUPS` of them.
- What each rank computes of the copies: the neighbour, and the newest step that is whole.

No step trains, and no network is slow here. `expected` adds up what the parts mean for a cluster, with the figures that
one machine cannot give (`PUBLISHED`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from hyperpod_ray_training.spares import pulse  # noqa: E402
from hyperpod_ray_training.spares.members import Limits  # noqa: E402

FIGURES = Path(__file__).with_name("scale_figures.json")
RANKS = (64, 512, 4096)
GROUPS = 6
"""Of a generation: the training's, four of the library's own, one for copies."""
PER_NODE = 8
MOST_THREADS = 512
CLIENTS = 4
TRAINS_S = 8.0
LIMIT_S = 120.0
TOKEN = "of a run that does not exist"  # noqa: S105


def cpu() -> float:
    """Processor seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# ---- the coordinator ----


class _Line(asyncio.Protocol):
    """A connection that answers the challenge, and hands on each further line."""

    def __init__(self, hello: dict[str, Any], hear: Any = None) -> None:
        self.hello, self.hear, self.rest = hello, hear, b""
        self.transport: Any = None
        self.greeted = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "challenge" in message:
                proof = pulse.proof(
                    TOKEN, challenge=message["challenge"], role=self.hello["type"], uid=self.hello["uid"]
                )
                self.send(**self.hello, proof=proof)
                self.greeted = True
            elif self.hear is not None:
                self.hear(self, message)

    def send(self, **fields: Any) -> None:
        assert self.transport is not None  # noqa: S101
        self.transport.write((json.dumps(fields) + "\n").encode())


def _same(line: _Line) -> _Line:
    return line


async def _play(ranks: Sequence[int], world: int, pipe: Any) -> None:
    """The members of these ranks: they beat, let go when a message asks for it, and note when they are assigned."""
    loop, beat_s, step = asyncio.get_running_loop(), Limits().beat_of(world), 0
    host, port = pipe.recv()
    over = asyncio.Event()
    assigned_t: dict[int, float] = {}
    members: list[_Line] = []
    pulses: list[_Line] = []

    def hear(line: _Line, message: dict[str, Any]) -> None:
        if message["type"] == "abandon":
            line.send(type="ready", gen=message["gen"])
        elif message["type"] == "assign":
            assigned_t[message["gen"]] = time.monotonic()

    def obey() -> None:
        command = pipe.recv()
        if command == "lose":
            pipe.send(time.monotonic())
            members[0].transport.abort()
        elif command == "assigned":
            pipe.send(max(assigned_t.values(), default=0.0))
        else:
            over.set()

    loop.add_reader(pipe.fileno(), obey)
    for rank in ranks:
        node = f"10.0.{rank // PER_NODE // 250}.{rank // PER_NODE % 250}"
        shown = {"uid": f"rank-{rank}", "order": rank, "node": node, "port": 1, "pid": rank, "group": world}
        for lines, role in ((members, "hello"), (pulses, "pulse")):
            line = _Line({"type": role, **shown}, hear)
            await loop.create_connection(partial(_same, line), host, port)
            lines.append(line)
    while not over.is_set():
        step, until = step + 1, time.monotonic() + beat_s
        for line in members:
            if line.greeted and not line.transport.is_closing():
                beat = {"step": step, "busy": False, "saving": False, "seq": step, "place": "moves", "still": 0.0}
                line.send(type="beat", at="a:1", **beat)
        for line in pulses if step % 2 else ():
            if line.greeted and not line.transport.is_closing():
                line.send(state="S", ticks=step)
        await asyncio.sleep(max(0.01, until - time.monotonic()))


def _clients(*arguments: Any) -> None:
    asyncio.run(_play(*arguments))


@dataclass(frozen=True, kw_only=True)
class CoordinatorFigures:
    """Of one number of ranks."""

    beat_s: float
    beats_per_s: float
    cpu_per_s: float
    recovery_cpu_s: float
    recovery_s: float


async def _coordinate(world: int, pipes: Sequence[Any]) -> CoordinatorFigures:
    from hyperpod_ray_training import Run, Settings
    from hyperpod_ray_training.spares.coordinator import Coordinator

    patient = Limits(silence_s=600, hang_s=600, floor_s=600, gather_s=600, ready_s=600)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(storage=folder, name="run", settings=Settings())
        coordinator = Coordinator(run=run, active=world, spares=1, limits=patient, token=TOKEN)
        host, port = await coordinator.listen("127.0.0.1", nodes=False)
        for pipe in pipes:
            pipe.send((host, port))
        try:
            table = coordinator.table
            # the spare has come, and nobody is lost any more
            while not (table.running and len(table.members) > world):
                await asyncio.sleep(0.05)
            await asyncio.sleep(2.0)
            heard = sum(member.step for member in table.members.values())
            started, began = cpu(), time.monotonic()
            await asyncio.sleep(TRAINS_S)
            seconds = time.monotonic() - began
            per_s = (cpu() - started) / seconds
            beats = (sum(member.step for member in table.members.values()) - heard) / seconds
            started, gen, began = cpu(), table.gen, time.monotonic()
            pipes[1].send("lose")
            while not (table.running and table.gen > gen):
                if time.monotonic() > began + LIMIT_S:
                    raise RuntimeError(f"no generation after {gen} of {world} ranks, {len(table.ranks)} hold one")
                await asyncio.sleep(0.005)
            await asyncio.sleep(1.0)  # the last of them have heard it
            spent = cpu() - started - per_s * (time.monotonic() - began)
            lost_t = pipes[1].recv()
            for pipe in pipes:
                pipe.send("assigned")
            last_t = max(pipe.recv() for pipe in pipes)
            for pipe in pipes:
                pipe.send("end")
        finally:
            coordinator.close()
    return CoordinatorFigures(
        beat_s=round(Limits().beat_of(world), 2), beats_per_s=round(beats), cpu_per_s=round(per_s, 3),
        recovery_cpu_s=round(max(0.0, spent), 3), recovery_s=round(last_t - lost_t, 2),
    )  # fmt: skip


# ---- the groups ----


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """Of one group of `ranks`, all in one process."""

    ranks: int
    cpu_ms_per_rank: float
    sockets_per_rank: float
    full_mesh: bool


def open_groups(world: int, *, lazy: bool) -> GroupFigures:
    """Open a group for each of `world` ranks, as `Groups` does, a thread a rank."""
    import torch
    import torch.distributed as dist

    from hyperpod_ray_training.spares import groups

    torch.set_num_threads(1)
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    stores = [dist.TCPStore("127.0.0.1", server.port, is_master=False) for _ in range(world)]
    limit = timedelta(seconds=600)
    kept: list[Any] = []
    before, started = len(groups.open_sockets()), cpu()

    def open_of(rank: int) -> None:
        store = dist.PrefixStore("group", stores[rank])
        groups.meet(store, "group", world, limit)
        options = dist.ProcessGroupGloo._Options()
        options._timeout, options._threads = limit, 1
        options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1", lazy_init=lazy)]
        group = dist.ProcessGroupGloo(store, rank, world, options)
        if lazy:
            groups.connect_few(group)
        kept.append(group)

    threads = [threading.Thread(target=open_of, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent, sockets = cpu() - started, len(groups.open_sockets()) - before
    return GroupFigures(
        ranks=world, cpu_ms_per_rank=round(1000 * spent / world, 1), sockets_per_rank=round(sockets / world, 1),
        full_mesh=not lazy,
    )  # fmt: skip


# ---- the copies ----


@dataclass(frozen=True, kw_only=True)
class CopyFigures:
    """Processor milliseconds of one rank."""

    neighbour_ms: float
    newest_whole_ms: float


def copies(world: int) -> CopyFigures:
    """What a rank computes before it loads a copy."""
    from hyperpod_ray_training.spares.neighbour import neighbour_distance, newest_whole

    nodes = [f"node-{rank // PER_NODE}" for rank in range(world)]
    started = cpu()
    distance = neighbour_distance(nodes)
    neighbour_s = cpu() - started
    held = [
        sorted([(rank, step) for step in (5, 6, 7)] + [((rank - distance) % world, step) for step in (5, 6, 7)])
        for rank in range(world)
    ]
    held[1] = []  # a newcomer
    started = cpu()
    newest_whole(held)
    return CopyFigures(neighbour_ms=round(1000 * neighbour_s, 1), newest_whole_ms=round(1000 * (cpu() - started), 1))


# ---- all of it ----


def apart(part: str, world: int) -> Any:
    """One part in a process of its own, so that nothing of the one before counts."""
    command = [sys.executable, __file__, "--part", part, str(world)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def coordinate(world: int) -> CoordinatorFigures:
    """The coordinator's figures."""
    context, pipes, processes = multiprocessing.get_context("fork"), [], []
    for part in range(CLIENTS):
        here, there = context.Pipe()
        pipes.append(here)
        ranks = range(part, world + 1, CLIENTS)
        processes.append(context.Process(target=_clients, args=(ranks, world, there), daemon=True))
        processes[-1].start()
    try:
        # the journal's lines on the terminal are for a run, and a line about each of thousands tells nobody anything
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
            return asyncio.run(_coordinate(world, pipes))
    finally:
        for process in processes:
            process.join(10)
            process.kill()


PARTS: dict[str, Any] = {
    "coordinator": coordinate,
    "groups": lambda world: open_groups(world, lazy=True),
    "full mesh": lambda world: open_groups(world, lazy=False),
}


def main(argv: list[str]) -> int:
    """Measure, print and perhaps write; 2 where the machine allows too few descriptors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", nargs="*", type=int, default=list(RANKS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if 2 * max(options.ranks) + 100 > hard:
        sys.stderr.write(f"error: descriptors: {hard}. Expected {2 * max(options.ranks) + 100}. Fix: fewer ranks\n")
        return 2
    if options.part:
        print(json.dumps(asdict(PARTS[options.part](options.ranks[0]))), flush=True)
        os._exit(0)  # threads of thousands of groups need not be taken down
    measured: dict[str, Any] = {}
    for world in options.ranks:
        threads = min(world, MOST_THREADS)
        figures = {
            "coordinator": apart("coordinator", world),
            "groups": apart("groups", threads),
            "copies": asdict(copies(world)),
            "load": round(os.getloadavg()[0], 1),
        }
        if world <= 64:
            figures["full_mesh"] = apart("full mesh", world)
        measured[str(world)] = figures
        print(json.dumps({"ranks": world, **figures}), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"schema_version": 1, "ranks": measured}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

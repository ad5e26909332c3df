"""How long a lost worker costs with torchft, for the column beside `recovery.py`: its own example's loop, on loopback.

    PYTHON benchmarks/torchft_way.py [--runs 5] [--step-s 0.25]

PYTHON is an interpreter with torch and torchft (`pip install torchft`). Two replicas of one rank each train with gloo.
One is killed, and its successor starts at once. torchft does not do a step again: the replica that is left continues
alone, and the samples of the lost one are skipped until its successor has joined. So two figures are printed: seconds
without a step, and seconds with one replica.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

WAIT_S = 120.0


def replica(options: argparse.Namespace) -> None:
    """Train without end; a line for each step of which the replicas agree that it counts."""
    import torch
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": inner.state_dict()}

    def load(given: dict[str, Any]) -> None:
        model.load_state_dict(given["model"])
        inner.load_state_dict(given["optimizer"])

    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=5)), load_state_dict=load, state_dict=state, min_replica_size=1,
        replica_id=f"replica-{options.number}", rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
        lighthouse_addr=options.lighthouse, timeout=timedelta(seconds=10),
    )  # fmt: skip
    wrapped, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, inner)
    x = torch.randn(64, 256)
    while True:
        began = time.time()
        optimizer.zero_grad()
        wrapped(x).square().mean().backward()
        before = manager.current_step()
        optimizer.step()
        time.sleep(max(0.0, options.step_s - (time.time() - began)))
        if manager.current_step() > before:
            line = {"t": time.time(), "step": manager.current_step(), "replicas": manager.num_participants()}
            with Path(options.journal).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")


def steps(journal: Path) -> list[dict[str, Any]]:
    """What a replica has written."""
    text = journal.read_text(encoding="utf-8") if journal.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def since(journal: Path, t: float, *, replicas: int) -> dict[str, Any] | None:
    """The first step after `t` of at least so many replicas."""
    return next((one for one in steps(journal) if one["t"] > t and one["replicas"] >= replicas), None)


def until(check: Callable[[], Any], what: str) -> Any:
    """Poll."""
    end = time.monotonic() + WAIT_S
    while not (found := check()):
        if time.monotonic() > end:
            raise SystemExit(f"error: {what}: not yet. Expected it within {WAIT_S:g} s. Fix: see the output above")
        time.sleep(0.02)
    return found


def measure(options: argparse.Namespace, folder: Path) -> list[tuple[float, float]]:
    """Kill one replica after another; seconds without a step, and with one replica, of each."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=200, heartbeat_timeout_ms=1000)
    address = lighthouse.address()

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--number", str(number), "--journal", str(folder / f"{number}.jsonl")]
        command += ["--lighthouse", address, "--step-s", str(options.step_s)]
        variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        with (folder / f"{number}.log").open("wb") as log:  # torchft says a dozen lines a step
            return subprocess.Popen(command, env=os.environ | variables, stderr=log, stdout=log)

    survivor, victim, found = start(0), start(1), []
    journal = folder / "0.jsonl"
    try:
        for run in range(options.runs):
            both = until(lambda: [one for one in steps(journal)[-8:] if one["replicas"] == 2][7:], "two replicas")
            assert both  # noqa: S101
            victim.send_signal(signal.SIGKILL)
            t = time.time()
            victim.wait()
            victim = start(run + 2)
            first = until(partial(since, journal, t + 0.5, replicas=0), "a step")
            whole = until(partial(since, journal, first["t"], replicas=2), "two replicas again")
            times = [one["t"] for one in steps(journal) if t - 5 < one["t"] <= whole["t"]]
            gap = max(later - sooner for sooner, later in itertools.pairwise(times))
            found.append((gap, whole["t"] - t))
            sys.stdout.write(f"run {run + 1}: no step for {gap:.1f} s, one replica for {found[-1][1]:.1f} s\n")
            sys.stdout.flush()
    finally:
        for process in (survivor, victim):
            process.kill()
            process.wait()
        lighthouse.shutdown()
    return found


def main(argv: list[str]) -> int:
    """Measure and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--step-s", type=float, default=0.25)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--journal", help=argparse.SUPPRESS)
    parser.add_argument("--lighthouse", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.lighthouse:
        replica(options)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    gap, alone = (statistics.median(values) for values in zip(*found, strict=True))
    sys.stdout.write(
        f"torchft, worker killed, median of {options.runs}: no step for {gap:.1f} s, one replica for {alone:.1f} s; "
        f"load {os.getloadavg()[0]:.1f}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

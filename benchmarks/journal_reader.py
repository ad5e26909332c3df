"""How long the reading of a run's journal takes: all of it, and what was written since the last summary.

python benchmarks/journal_reader.py --steps 1000000 --faults 1000
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from hyperpod_ray_training.history import History


def write(path: Path, *, steps: int, faults: int) -> None:
    """A run of one step a second with a save every 100, that loses two minutes and ten steps at each fault."""
    t, each = 1_790_000_000.0, max(1, steps // max(1, faults))
    with path.open("w") as stream:
        for step in range(1, steps + 1):
            t += 1.0
            if step % each == 0:
                stream.write(json.dumps({"t": t, "kind": "lost", "rank": 3, "message": "connection closed"}) + "\n")
                t += 120
                stream.write(json.dumps({"t": t, "kind": "restore", "step": step - 10, "path": "memory"}) + "\n")
                for again in range(step - 9, step):
                    t += 1.0
                    stream.write(json.dumps({"t": t, "kind": "step", "step": again, "loss": 1.0, "world": 16}) + "\n")
            stream.write(json.dumps({"t": t, "kind": "step", "step": step, "loss": 1 / step, "world": 16}) + "\n")
            if step % 100 == 0:
                stream.write(json.dumps({"t": t, "kind": "save", "step": step, "stall_s": 0.1, "seconds": 9.0}) + "\n")


def main() -> int:
    """Write, read and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--faults", type=int, default=1_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        write(path, steps=asked.steps, faults=asked.faults)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        history, began = History(), time.process_time()
        history.take_up(path)
        first = time.process_time() - began
        text = json.dumps(history.summary())
        with path.open("a") as stream:
            for _ in range(400):
                stream.write(json.dumps({"t": history.t, "kind": "spare"}) + "\n")
        began = time.process_time()
        again = History.kept(text)
        again.take_up(path)
        seen = again.settled(now=again.t or 0.0)
        second = time.process_time() - began
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        whole = sum(seen.seconds.values())
        sys.stdout.write(
            f"{asked.steps:,} steps, {seen.interrupted:,} interruptions, {path.stat().st_size / 1e6:,.0f} MB\n"
            f"read from the first line: {first:.2f} s of CPU, {more / 1024:.1f} MiB more memory\n"
            f"read on from a summary of {len(text) / 1024:.0f} KiB: {second * 1000:.0f} ms of CPU\n"
            f"goodput {seen.seconds['training'] / whole:.4f} of {whole:,.0f} s\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""How long the sandbox and the suite take, each beside its goal: deploy and destroy, the demo, the whole test suite.

    .venv/bin/python benchmarks/times.py [--only deploy demo suite]

Everything must be installed (`make demo` once). The figures hold for a quiet machine: the load is printed before each
step, and the processor seconds beside the seconds. The exit code is 1 where a step fails, not where it is late.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT)]

from hyperpod_ray_sandbox import leash  # noqa: E402

PHASE = re.compile(r"^  (start|synth|bootstrap|deploy|diff|destroy) +([\d.]+) +([\d.]+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command and how long it may take on two quiet cores."""

    title: str
    command: list[str]
    goal_s: float | None


STEPS = {
    "deploy": Step(title="deploy and destroy", command=["benchmarks/sandbox.py"], goal_s=None),
    "demo": Step(title="demo", command=["-m", "hyperpod_ray.cli", "demo"], goal_s=60),
    "suite": Step(title="test suite", command=["-m", "tests.run", "-q"], goal_s=240),
}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(STEPS), default=list(STEPS))
    names = parser.parse_args().only
    leash.hold()
    rows: list[tuple[str, float | None, float, float | None, float]] = []
    failed = []
    for name in names:
        step, load = STEPS[name], os.getloadavg()[0]
        code, text, seconds, cpu = measure(step)
        rows.append((step.title, step.goal_s, seconds, cpu, load))
        rows += [(f"  {phase}", None, float(wall), float(used), load) for phase, wall, used in PHASE.findall(text)]
        if code:
            failed.append(step.title)
    print(f"{'step':22} {'goal, s':>8} {'seconds':>8} {'CPU, s':>8} {'load':>6}   ({os.cpu_count()} processors)")
    for title, goal, wall, used, before in rows:
        print(f"{title:22} {_cell(goal)} {_cell(wall)} {_cell(used)} {before:6.1f}")
    for title in failed:
        print(f"failed: {title}")
    return 1 if failed else 0


def measure(step: Step) -> tuple[int, str, float, float]:
    """Exit code, output, seconds, and processor seconds of the processes that were waited for."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *step.command], cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines = []
    assert process.stdout is not None  # noqa: S101  (narrowing only)
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    code, seconds = process.wait(), time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, "".join(lines), seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cell(value: float | None) -> str:
    return f"{value:8.0f}" if value is not None else " " * 8


if __name__ == "__main__":
    raise SystemExit(main())

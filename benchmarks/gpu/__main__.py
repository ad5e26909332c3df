"""Measure and judge on one NVIDIA GPU of a machine that needs no network.

    python -m benchmarks.gpu [--only copies,faults] [--gb 1,10] [--json FILE] [--device cpu --small]

| part | what it does |
|---|---|
| copies | 1, 10 and 20 GB of state beside a pinned memcpy; what a step waits for them; two ranks that exchange |
| losses | a run with dropout is killed and resumed from disk: its losses beside those of an undisturbed run |
| faults | two ranks and spares on one card over gloo: a kill, a freeze, a kernel that never ends |
| groups | a world of one over NCCL: what waits for a stuck kernel is aborted, the group opens again |
| readers | `nvidia-smi`, the texts of CUDA's and NVML's errors, the check of a device, a short node test |
| planner | memory and tokens per second of a 1B and a 3B model at four lengths beside what the planner says |

Each part is a process of its own with a limit. `--device cpu --small` runs the same lines without a GPU, to see that
they run: its figures say nothing.

Exit code 0: every bar is met. 3: one is not. 4: no GPU, nothing was run. 2: bad arguments.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LIMITS_S = {"readers": 60, "groups": 60, "losses": 90, "faults": 120, "copies": 300, "planner": 240}
"""Most seconds of each part."""
SLOWER = 10
"""So many times as long on CPUs, which others may use too."""
NO_GPU, MISSED = 4, 3


def main(argv: Sequence[str]) -> int:
    """Run the parts and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    parser.add_argument("--gb", default="1,10,20", help="sizes of copies; the first is also exchanged (1,10,20)")
    parser.add_argument("--only", default=",".join(LIMITS_S), help="parts, separated by commas")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    parts = options.only.split(",")
    if unknown := [part for part in parts if part not in LIMITS_S]:
        parser.error(f"--only: {unknown[0]}. Expected some of {', '.join(LIMITS_S)}. Fix: --only {','.join(LIMITS_S)}")
    if options.part:
        measure = importlib.import_module(f"benchmarks.gpu.{options.part}").measure
        sizes = {"sizes": [float(size) for size in options.gb.split(",")]} if options.part == "copies" else {}
        options.out.write_text(json.dumps(measure(options.device, small=options.small, **sizes)))
        return 0
    card = name_of(options.device)
    if card is None:
        sys.stdout.write("no GPU: not run\n")
        return NO_GPU
    results = {part: run(part, options) for part in parts}
    report = {"card": card, "t": round(time.time()), "parts": results}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(table(report))
    checks = [check for result in results.values() for check in result["checks"]]
    return 0 if all(check["met"] for check in checks) else MISSED


def name_of(device: str) -> dict[str, Any] | None:
    """The card and the software; None where there is none."""
    import torch

    machine = {"torch": torch.__version__, "python": sys.version.split()[0]}
    if device == "cpu":
        return {"name": "CPU, no GPU: these figures say nothing", **machine}
    if not torch.cuda.is_available():
        return None
    # a process of its own: this one stays without a CUDA context
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    words = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().split(", ")
    return {"name": words[0], "driver": words[1:2], "memory": words[2:3], "cuda": torch.version.cuda, **machine}


def run(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """One part; what failed is a check that is not met."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures")
        words = ["--part", part, "--out", str(out), "--device", options.device, "--gb", options.gb]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu", *words, *["--small"] * options.small],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        limit = LIMITS_S[part] * (SLOWER if options.device == "cpu" else 1)
        try:
            output, _ = process.communicate(timeout=limit)
            problem = f"exit code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            output, _ = process.communicate()
            problem = f"no end after {limit} s"
        result: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"rows": [], "checks": []}
    if problem:
        result["checks"].append(check_of(f"{part} runs to its end", problem, "exit code 0", met=False))
        result["output"] = output[-6000:]
        sys.stderr.write(f"--- {part}: {problem}\n{output[-6000:]}\n")
    result["seconds"] = round(time.monotonic() - begin, 1)
    sys.stderr.write(f"{part}: {result['seconds']} s\n")
    return result


def check_of(name: str, figure: str, bar: str, *, met: bool) -> dict[str, Any]:
    """A judged figure."""
    return {"check": name, "figure": figure, "bar": bar, "met": bool(met)}


def table(report: dict[str, Any]) -> str:
    """What people read."""
    lines = [" ".join(f"{key} {value}" for key, value in report["card"].items())]
    for part, result in report["parts"].items():
        lines += ["", f"## {part} ({result['seconds']} s)", ""]
        rows = result["rows"]
        for names in dict.fromkeys(tuple(row) for row in rows):
            lines += [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
            lines += [f"| {' | '.join(map(str, row.values()))} |" for row in rows if tuple(row) == names] + [""]
        for check in result["checks"]:
            word = "met   " if check["met"] else "MISSED"
            lines.append(f"{word} {check['check']}: {check['figure']} (bar: {check['bar']})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

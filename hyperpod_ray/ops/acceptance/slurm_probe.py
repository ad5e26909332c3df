"""Starts the acceptance test on nodes of Slurm with `srun`; prints one line of JSON.

    slurm_probe.py '{"hosts": ["ip-10-0-0-1"], "python": "/fsx/venv/bin/python", "probe": "/fsx/probe.py"}'

Two steps: the first counts each node's GPUs, the second measures the nodes that have all of theirs. `--immediate` lets
no job wait behind the test, and the test behind no job. Standard library, and no newer Python than AWS's image has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

MARK = "HYPERPOD-RAY-CHECK "
IMMEDIATE_SECONDS = 60
PATH = "/opt/slurm/bin"


def srun(hosts: list[str], words: list[str], *, gpus: int, seconds: float) -> tuple[list[dict[str, Any]], str]:
    """What one task on each host prints, and the last line of errors."""
    command = [
        "srun", "--nodes", str(len(hosts)), "--nodelist", ",".join(hosts), "--ntasks-per-node", "1", "--exclusive",
        f"--immediate={IMMEDIATE_SECONDS}", f"--time={int(seconds // 60) + 2}", "--kill-on-bad-exit=0",
        "--job-name", "nodes-check",
    ]  # fmt: skip
    command += [f"--gpus-per-node={gpus}"] if gpus else []
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True,
        timeout=seconds + 300, check=False,
    )  # fmt: skip
    lines = [json.loads(line[len(MARK) :]) for line in done.stdout.splitlines() if line.startswith(MARK)]
    return lines, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Measure the nodes that Slurm gives at once."""
    python, probe, hosts = request["python"], request["probe"], list(request["hosts"])
    counts, said = srun(hosts, [python, probe, "count"], gpus=request["gpus"], seconds=120)
    if not counts:
        return {"answers": [], "busy": [], "cuda": False, "ranks": 1, "error": said}
    answers = [{"host": one["host"], "error": one["error"]} for one in counts if "error" in one]
    able = {one["host"]: int(one["devices"]) for one in counts if "error" not in one}
    most = max(able.values(), default=0)
    answers += [
        {"host": host, "error": f"{count} of {most} GPUs answer"} for host, count in able.items() if count < most
    ]
    whole = sorted(host for host, count in able.items() if count == most)
    if whole:
        words = [
            "bash", "-c",
            'PATH="$PATH:/opt/slurm/bin"; exec "$0" "$1" agent --node "$SLURM_NODEID" --nodes "$SLURM_NNODES" --master '
            '"$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1):$((21000 + SLURM_JOB_ID % 8000))" "${@:2}"',
            python, probe, "--ranks", str(max(1, most)), "--seconds", str(request["seconds"]),
            "--storage", request["storage"], "--storage-mib", str(request["storage_mib"]),
            "--limit", str(request["limit"]),
        ]  # fmt: skip
        measured, said = srun(whole, words, gpus=request["gpus"], seconds=float(request["limit"]))
        answers += measured
        there = {answer["host"] for answer in measured}
        answers += [{"host": host, "error": said} for host in whole if host not in there]
    missing = [{"host": host} for host in hosts if host not in {one["host"] for one in counts}]
    return {"answers": answers, "busy": missing, "cuda": most > 0, "ranks": max(1, most)}


def main(arguments: list[str]) -> int:
    """Measure, and print."""
    if shutil.which("srun") is None:
        os.environ["PATH"] += os.pathsep + PATH
    sys.stdout.write(f"{MARK}{json.dumps(run(json.loads(arguments[0])))}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""What commands print of one environment on EKS and of one on Slurm: `screens.txt`, for a person to read.

`make records` writes it. The services answer what their models allow (`tests/support/answers.py`, `slurm_account.py`).
A command stands with its lines, or with each property of its JSON document, with its advice and with its exit code.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.observe import training
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.snapshots import NOW
from tests.support import records, slurm_account, surroundings
from tests.support.answers import FILE as ENVIRONMENT
from tests.support.answers import Answers, Aws, Kubernetes
from tests.support.faults import FAULTS
from tests.support.slurm_account import WORKERS, SlurmAccount

FILE = Path(__file__).with_name("screens.txt")
WIDTH = "170"
ON_EKS = {
    "healthy": (
        "nodes list demo", "nodes list demo -o json", "nodes list demo -o markdown", "nodes list demo --group head",
        "nodes list demo --unhealthy", "nodes list demo --state runnin", "nodes list demo --type ml.g5.8xlarg",
        "cost demo --offline", "cost demo --offline -o json", "cost demo --offline --so-far",
        "cost demo --offline --so-far -o json", "wait demo --for workers", "wait demo --for workers -o json",
        "wait demo --for storage", "wait demo --for worker", "preflight demo --offline",
        "preflight demo --offline -o json", "capacity demo", "status demo -o markdown",
    ),
    "worker's node is lost": (
        "nodes list demo", "nodes list demo --unhealthy", "nodes list demo -o json", "nodes events demo",
        "nodes events demo -o json",
    ),
    "training runs": (
        "cost demo --offline --so-far", "cost demo --offline --so-far -o json", "status demo -o markdown",
    ),
}  # fmt: skip
"""By the fault that the services answer with."""
ON_SLURM = {
    "idle": (
        "status slurm", "status slurm -o json", "nodes list slurm", "nodes list slurm -o json",
        f"nodes show slurm {WORKERS[0]}", f"nodes show slurm {WORKERS[0]} -o json", "capacity slurm",
        "capacity slurm -o json", "cost slurm --offline", "cost slurm --actual --offline",
        "cost slurm --actual --offline -o json", "logs slurm", "logs slurm -o json", "preflight slurm --offline",
        "nodes list slurm --state idl", "nodes replace slurm i-1 --yes", f"nodes reboot slurm {WORKERS[0]} --yes",
        "submit slurm -- python train.py", "env check slurm -o json",
    ),
    "running": (
        "status slurm", "nodes list slurm", f"nodes show slurm {WORKERS[0]}", "cost slurm --so-far --offline",
        f"nodes reboot slurm {WORKERS[0]} --yes", f"nodes reboot slurm {WORKERS[0]} --when now --yes",
    ),
    "drained": ("status slurm", "nodes list slurm", "nodes list slurm --unhealthy"),
    "down": ("status slurm", "status slurm -o json", "nodes list slurm"),
}  # fmt: skip
"""By the state that a real Slurm was recorded in."""


@contextlib.contextmanager
def _still(at: Any) -> Iterator[pytest.MonkeyPatch]:
    """A clock that stands, and a screen of one width."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "now", lambda: at)
        patch.setattr(gather, "now", lambda: at)
        patch.setenv("COLUMNS", WIDTH)
        yield patch


def on_eks(fault: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of an environment on EKS, and what it prints."""
    faults = {each.name: each for each in FAULTS}
    answers = Answers() if fault == "healthy" else faults[fault].answers()
    target = Target(ENVIRONMENT)
    target.aws = Aws(answers)  # type: ignore[assignment]
    target.__dict__["kubernetes"] = Kubernetes(answers)
    with _still(NOW) as patch:
        patch.setattr(orchestrators, "any_target", lambda *_, **__: target)
        patch.setattr(training, "training", answers._training)
        for words in ON_EKS[fault]:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words.split())
            yield f"EKS, {fault}: {words}", _lines(code, out.getvalue(), err.getvalue())


def on_slurm(state: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of an environment on Slurm, and what it prints."""
    with tempfile.TemporaryDirectory() as folder, _still(slurm_account.NOW) as patch:
        account = SlurmAccount(folder=Path(folder), monkeypatch=patch).install()
        patch.setenv("COLUMNS", WIDTH)
        account.state(state)
        for words in ON_SLURM[state]:
            done = account.run(*words.split())
            yield f"Slurm, {state}: {words}", _lines(done.code, done.out, done.err)


def _lines(code: int, out: str, err: str) -> list[str]:
    if out.startswith("{"):
        lines = [f"{path} = {text}" for path, text in records.flat(json.loads(out))]
    else:
        lines = [line.rstrip() for line in out.splitlines() if line.strip("─ ")]
    lines += [f"note: {line.rstrip()}" for line in err.splitlines()]
    return [*map(_stable, lines), f"exit code {code}"]


def _stable(text: str) -> str:
    """Without the seconds that a command took."""
    text = re.sub(r"(after|waited_seconds = |elapsed_seconds = )\s*[\d.]+( s)?", r"\1 N\2", text)
    return text.replace(str(records.PROJECT), "<project>")


@functools.cache
def recorded() -> dict[str, list[str]]:
    """The file's lines by command."""
    by_command: dict[str, list[str]] = {}
    command: list[str] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            command = by_command.setdefault(line.removeprefix("# "), [])
        else:
            command.append(line)
    return by_command


def write() -> int:
    """Write the file."""
    surroundings.clean()
    cases = [
        *(case for name in ON_EKS for case in on_eks(name)),
        *(case for name in ON_SLURM for case in on_slurm(name)),
    ]
    lines = [line for name, lines_ in cases for line in (f"# {name}", *lines_)]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())

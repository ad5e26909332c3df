"""What `runs` prints, word for word: `runs.txt`, for a person to read. `make records` writes it.

Runs of every kind stand beside each other: one that lost workers and steps, one that ended, one that failed, one that
waits for its queue, and one whose folder says nothing. Each command prints them as a table and as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.orchestrators.run_list import Run, Source, pick
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.runs import listing
from tests.ops.ops_run_state_helpers import BEGIN
from tests.ops.test_ops_run_state import write_run

FILE = Path(__file__).with_name("runs.txt")
NOW = datetime.fromtimestamp(BEGIN + 600, UTC)
WIDTH = 170
SOURCE = Source()


def _ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def _run(id: str, state: str, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "command": f"python train.py --name {id}", "started": _ago(9), "ended": None, "message": "", "exit_code": None,
        "variables": ("A", "B"), "working_dir": "gcs://_ray_pkg_1.zip", "name": id,
    }  # fmt: skip
    return Run(id=id, state=state, **{**fields, **changes})


def _written(storage: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Runs, and the folders that some of them have."""
    first = write_run(storage, "first", monkeypatch, steps=32, slope=0.1)
    second = write_run(storage, "second", monkeypatch, steps=20, slope=0.05, every=1.0)
    more = json.loads((first / "progress.json").read_text())
    more |= {"copy_every_steps": 4, "last_error": "NCCL: a rank is gone", "device": "cuda", "transport": "efa"}
    (first / "progress.json").write_text(json.dumps(more))
    (second / "progress.json").write_text(json.dumps({"state": "done", "state_t": BEGIN + 120, "started_t": BEGIN}))
    begun = storage / "begun"
    begun.mkdir()
    (begun / "progress.json").write_text(json.dumps({"state": "starting", "started_t": BEGIN + 500}))
    return [
        _run("job-waits", "PENDING", name="", started=None, waits="its queue is full", own_cluster=True),
        _run("first", "RUNNING", folder=str(first), own_cluster=True, cluster="first-x1", namespace="team"),
        _run("begun", "RUNNING", folder=str(begun), started=_ago(1)),
        _run("job-2", "SUCCEEDED", name="second", folder=str(second), ended=_ago(7.5), exit_code=0),
        _run("broken", "FAILED", ended=_ago(8), exit_code=3, message="exit code 3", variables=(), working_dir=""),
        _run("ended", "STOPPED", started=NOW - timedelta(days=2), ended=NOW - timedelta(days=1), command="sh -c x"),
    ]


@contextlib.contextmanager
def world() -> Iterator[tuple[Any, Path]]:
    """A target, whose runs these are, and the folder of their runs. Its clock stands."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        runs = _written(Path(folder), patch)
        patch.setattr(output, "now", lambda: NOW)
        patch.setattr("time.time", NOW.timestamp)
        patch.setenv("COLUMNS", str(WIDTH))
        patch.delenv("FORCE_COLOR", raising=False)
        states = {state.folder: state for state in run_state.read_here([run.folder for run in runs if run.folder])}

        def listed(_: Source, *, state: str, progress: bool, names: Any) -> Any:
            chosen = [pick(runs, name, environment="demo") for name in names] or runs
            return [run for run in chosen if state in ("", run.state.lower())], states if progress else {}

        of_runs = SimpleNamespace(
            refuse=lambda _: None,
            listed=listed,
            tail=lambda run, _, *, lines: [f"{run.id} says", "\x1b[31mred"][:lines],
        )
        jobs = SimpleNamespace(example=lambda: "hyperpod-ray submit demo -- python train.py")
        patch.setattr(orchestrators, "of", lambda _: SimpleNamespace(runs=of_runs, jobs=jobs))
        yield SimpleNamespace(name="demo"), Path(folder)


Command = Callable[[Any, Format, Path], int]
COMMANDS: dict[str, Command] = {
    "list": lambda target, form, _: listing.listing(target, form=form, source=SOURCE),
    "list --state failed": lambda target, form, _: listing.listing(target, form=form, source=SOURCE, state="failed"),
    "list --no-progress": lambda target, form, _: listing.listing(target, form=form, source=SOURCE, progress=False),
    "list --here": lambda target, form, folder: listing.listing(target, form=form, source=Source(here=(folder,))),
    "show first": lambda target, form, _: listing.show(target, "first", form=form, source=SOURCE),
    "show second": lambda target, form, _: listing.show(target, "second", form=form, source=SOURCE),
    "show begun": lambda target, form, _: listing.show(target, "begun", form=form, source=SOURCE),
    "show job-waits": lambda target, form, _: listing.show(target, "job-waits", form=form, source=SOURCE),
    "show broken": lambda target, form, _: listing.show(target, "broken", form=form, source=SOURCE),
    "show first --here": lambda target, form, folder: listing.show(
        target, "first", form=form, source=Source(here=(folder,))
    ),
    "compare first second": lambda target, form, _: listing.compare(
        target, ["first", "second"], form=form, source=SOURCE
    ),
    "compare first begun": lambda target, form, _: listing.compare(
        target, ["first", "begun"], form=form, source=SOURCE
    ),
    "compare first broken": lambda target, form, _: listing.compare(
        target, ["first", "broken"], form=form, source=SOURCE
    ),
    "best": lambda target, form, _: listing.best(target, [], metric="loss", mode="min", form=form, source=SOURCE),
    "best second --metric accuracy --mode max": lambda target, form, _: listing.best(
        target, ["second"], metric="accuracy", mode="max", form=form, source=SOURCE
    ),
    "best --metric accurac": lambda target, form, _: listing.best(
        target, [], metric="accurac", mode="min", form=form, source=SOURCE
    ),
    "best begun": lambda target, form, _: listing.best(
        target, ["begun"], metric="loss", mode="min", form=form, source=SOURCE
    ),
    "plot first second": lambda target, _, __: listing.plot(
        target, ["first", "second"], out=None, source=SOURCE, width=80
    ),
    "plot begun": lambda target, _, __: listing.plot(target, ["begun"], out=None, source=SOURCE, width=80),
}
"""What is typed, and what that calls."""
AS_JSON = ("list", "list --here", "show first", "show broken", "compare first second", "best")
"""Commands whose JSON is recorded too: each document and each kind of run is in one."""


def today() -> list[str]:
    """Every line of the file."""
    lines: list[str] = []
    with world() as (target, folder):
        for words, command in COMMANDS.items():
            for form in (Format.table, *([Format.json] if words in AS_JSON else [])):
                lines += [f"# {words}, as {form.value}", *said(lambda: command(target, form, folder), folder)]  # noqa: B023
    return lines


def said(command: Callable[[], int], folder: Path) -> list[str]:
    """What a command prints, and how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            end = f"exit code {command()}"
        except OpsError as error:
            end = f"error {error.code}: {error.message}. Fix: {error.fix}"
    printed = out.getvalue().replace(f"{folder}", "/fsx/runs")
    if printed.startswith("{"):
        printed = "\n".join(f"{path} = {text}" for path, text in _flat(json.loads(printed)))
    notes = [f"note: {line}" for line in err.getvalue().replace(f"{folder}", "/fsx/runs").splitlines()]
    return [*(line.rstrip() for line in printed.splitlines()), *notes, end.replace(f"{folder}", "/fsx/runs")]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each property of a document with its path; a list of numbers is one."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flat(each, f"{path}[{number}]")
    elif isinstance(value, list) and len(value) > 6:
        yield path, f"{len(value)}, {json.dumps(value[0])} to {json.dumps(value[-1])}"
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def write() -> int:
    """Write the file."""
    lines = today()
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())

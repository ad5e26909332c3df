"""What runs wrote about themselves, read where it is: by a small job in the RayCluster, or on this machine.

A run's folder is on the shared file system, which no laptop mounts, and a Ray user may start no command in a pod. What
they may do is submit a job: a small one reads the folders in the head's pod, prints them as JSON, and is deleted.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.in_ray.history import History
from hyperpod_ray.ops.journal.record import Record, at_of
from hyperpod_ray.ops.journal.run import Run as Training
from hyperpod_ray.ops.journal.run import run_of
from hyperpod_ray.ops.reach.jobs_api import ENDED, OURS, READ_PREFIX, Jobs, post, upload

READ_SECONDS = 180
READ_POLL_SECONDS = 0.5
Mode = Literal["min", "max"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint folder of a run."""

    name: str
    path: str
    step: int
    complete: bool
    bytes: int
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class State:
    """What one run folder says."""

    training: Training
    checkpoints: tuple[Checkpoint, ...]
    """Newest first."""

    @property
    def record(self) -> Record:
        """What its journal adds up to."""
        return self.training.record or Record(name=self.training.name)

    @property
    def curve(self) -> list[tuple[float, int, float | None]]:
        """Unix seconds, step and loss; at most some hundred points, by step."""
        has = self.record.metric == "loss"
        return [(step.t, step.step, step.value if has else None) for step in self.record.by_step()]

    @property
    def folder(self) -> str:
        """The run's folder."""
        return self.training.folder

    @property
    def last(self) -> Checkpoint | None:
        """The newest complete checkpoint."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.complete), None)

    def best(self, metric: str, mode: Mode) -> Checkpoint | None:
        """The complete checkpoint with the best value of a metric; the newest of equal ones."""
        measured = [
            checkpoint for checkpoint in self.checkpoints if checkpoint.complete and metric in checkpoint.metrics
        ]
        sign = 1 if mode == "min" else -1
        return min(measured, key=lambda checkpoint: (sign * checkpoint.metrics[metric], -checkpoint.step), default=None)

    @property
    def seconds_left(self) -> float | None:
        """Seconds of steps to the end, at the rate of the newest ones."""
        run = self.training
        if run.step is None or run.steps_total is None or run.step_seconds is None:
            return None
        return max(0, run.steps_total - run.step) * run.step_seconds

    def loss_at(self, step: int) -> float | None:
        """Loss at a step, or at the last point before it."""
        return next((loss for _, at, loss in reversed(self.curve) if at <= step and loss is not None), None)


def read(jobs: Jobs, folders: Sequence[str], *, whole: bool = False) -> list[State]:
    """The states of run folders, in their order; a folder without a run is omitted.

    Args:
        jobs: The Jobs API of the RayCluster that mounts them.
        folders: Run folders; with `whole`, folders of runs.
        whole: Read every run in them.

    Raises:
        OpsError: the job that reads cannot be started or fails.
    """
    if not folders:
        return []
    answer, _ = asked(jobs, f"{in_ray.PACKAGE}.runs", [*(["--all"] if whole else []), *folders])
    return states(answer)


def asked(jobs: Jobs, module: str, words: Sequence[str], *, limit_s: float = READ_SECONDS) -> tuple[Any, str]:
    """What a module that is sent to the head prints, and the head's node.

    Args:
        jobs: The Jobs API of the RayCluster.
        module: A module of `in_ray`.
        words: Its arguments.
        limit_s: How long it may take.

    Raises:
        OpsError: the job cannot be started or fails.
    """
    uri = upload(jobs, in_ray.package(), what="")
    job = post(
        jobs,
        {
            "entrypoint": shlex.join(["python", "-m", module, *words]),
            "runtime_env": {"py_modules": [uri]},
            "metadata": {OURS: "read"},
            "submission_id": f"{READ_PREFIX}{secrets.token_hex(6)}",
        },
    )
    try:
        return _answer(jobs, job, limit_s=limit_s)
    finally:
        with contextlib.suppress(OSError, OpsError):
            jobs.json("DELETE", f"/api/jobs/{job}")


def _answer(jobs: Jobs, job: str, *, limit_s: float) -> tuple[Any, str]:
    end = time.monotonic() + limit_s
    while (info := jobs.json("GET", f"/api/jobs/{job}"))["status"] not in ENDED:
        if time.monotonic() > end:
            jobs.json("POST", f"/api/jobs/{job}/stop")
            raise OpsError(
                f"the job that reads the run folders is {info['status']} after {limit_s:g} s",
                expected="it to end: it needs no GPU and no CPU",
                fix="run the command again; `hyperpod-ray status` shows Ray's state",
            )
        time.sleep(READ_POLL_SECONDS)
    text = str(jobs.json("GET", f"/api/jobs/{job}/logs").get("logs") or "")
    for line in text.splitlines():
        if line.startswith(reader.MARK):
            return json.loads(line.removeprefix(reader.MARK)), str(info.get("driver_node_id") or "")
    last = (text.strip().splitlines() or [str(info.get("message") or "nothing more")])[-1]
    raise OpsError(
        f"the job that reads the run folders {info['status']}: {last[:300]}",
        expected="one line with what they contain",
        fix="run the command again; `hyperpod-ray status` shows Ray's state",
    )


def read_here(folders: Sequence[str], *, whole: bool = False) -> list[State]:
    """The same of folders on this machine: a rehearsal's, or a file system that is mounted here."""
    if whole:
        return states([report for folder in folders for report in reader.read_all(folder)])
    return states([reader.read(folder) for folder in folders])


def states(answer: Any) -> list[State]:
    """What was read, as states."""
    return [_state(report) for report in answer if report["found"]]


def _state(report: dict[str, Any]) -> State:
    folder = str(report["folder"])
    run = run_of(
        report["progress"],
        History.kept(report["history"]),
        name=folder.rstrip("/").rsplit("/", 1)[-1],
        at=at_of(report["at"]) or datetime.now(UTC),
        folder=folder,
    )
    return State(training=run, checkpoints=tuple(_checkpoints(report)))


def _checkpoints(report: dict[str, Any]) -> Iterator[Checkpoint]:
    for checkpoint in report["checkpoints"]:
        yield Checkpoint(
            name=checkpoint["name"],
            path=f"{str(report['folder']).rstrip('/')}/{checkpoint['name']}",
            step=checkpoint["step"],
            complete=checkpoint["complete"],
            bytes=checkpoint["bytes"],
            metrics=checkpoint["metrics"],
        )

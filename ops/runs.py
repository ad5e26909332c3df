"""`runs`: the jobs of an environment's RayCluster: list them, look at one, read its log, stop it.

A run is a job of Ray's Jobs API, whoever submitted it: `hyperpod-ray submit`, `ray job submit`, or a RayJob of this
RayCluster. Ray forgets its jobs with the head, unless the environment has GCS fault tolerance.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.findings import meant
from ops import output
from ops.clients import Target
from ops.errors import BAD_USE, INTERRUPTED, OK, STILL_GOING, OpsError
from ops.jobs_api import ENDED, POLL_SECONDS, Jobs, follow, jobs_of
from ops.output import Format

TAIL_LINES = 20
STOP_SECONDS = 120
STYLE = {"RUNNING": "busy", "PENDING": "note", "SUCCEEDED": "good", "FAILED": "bad", "STOPPED": "quiet"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job, as the Jobs API has it."""

    id: str
    state: str
    """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    command: str
    started: datetime | None
    ended: datetime | None
    message: str
    exit_code: int | None
    """Of the job's driver; None while it runs."""
    variables: tuple[str, ...]
    """Names of its environment variables. Their values are nobody's business here."""
    working_dir: str

    @property
    def seconds(self) -> float | None:
        """How long it has run; None before its start."""
        return ((self.ended or output.now()) - self.started).total_seconds() if self.started else None


def listing(target: Target, *, form: Format, address: str, state: str = "") -> int:
    """Show the runs, newest first."""
    with jobs_of(target, address=address) as jobs:
        found = [run for run in all_of(jobs) if state in ("", run.state.lower())]
    if form is Format.json:
        output.write_json("runs", {"environment": target.name, "runs": [as_data(run) for run in found]})
        return OK
    if not found:
        output.log("no runs" + (f" with state {state}" if state else ""))
        output.log(f"next: hyperpod-ray submit {target.name} -- python train.py")
        return OK
    from rich.text import Text

    table = output.table("=run", "state", "started", ">for", "command")
    for run in found:
        took = "" if run.seconds is None else output.duration(run.seconds)
        table.add_row(run.id, Text(run.state, style=STYLE[run.state]), output.clock(run.started), took, run.command)
    output.console(form).print(table)
    return OK


def show(target: Target, name: str, *, form: Format, address: str) -> int:
    """Show one run, and the end of its log."""
    with jobs_of(target, address=address) as jobs:
        run = one(jobs, name, environment=target.name)
        lines = log_of(jobs, run.id).splitlines()[-TAIL_LINES:]
    if form is Format.json:
        output.write_json("run", {"environment": target.name, **as_data(run), "log_tail": lines})
        return OK
    console = output.console(form)
    table = output.table("run", run.id)
    rows = {
        "state": run.state + (f", exit code {run.exit_code}" if run.exit_code else ""),
        "started": output.clock(run.started),
        "ended": output.clock(run.ended),
        "for": "" if run.seconds is None else output.duration(run.seconds),
        "command": run.command,
        "working directory": run.working_dir,
        "variables": ", ".join(run.variables),
        "message": run.message,
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    console.print(table)
    if lines:
        console.print(f"\nthe last {len(lines)} lines of its log" if len(lines) > 1 else "\nthe last line of its log")
        for line in lines:
            console.print(line)
    if run.state not in ENDED:
        output.log(f"next: hyperpod-ray runs logs {target.name} {run.id} --follow")
    return OK


def logs(target: Target, name: str, *, following: bool, address: str) -> int:
    """Print a run's log; with `following`, until the run has ended, and exit with its own exit code."""
    with jobs_of(target, address=address) as jobs:
        run = one(jobs, name, environment=target.name)
        if not following:
            output.write_text(log_of(jobs, run.id))
            return OK
        try:
            return follow(jobs, run.id, environment=target.name)
        except KeyboardInterrupt:
            output.log(f"stopped following; {run.id} continues")
            return INTERRUPTED


def stop(target: Target, name: str, *, yes: bool, address: str, limit_s: float = STOP_SECONDS) -> int:
    """Stop a run, and wait until it has ended. Its checkpoints stay."""
    with jobs_of(target, address=address) as jobs:
        run = one(jobs, name, environment=target.name)
        if run.state in ENDED:
            output.log(f"{run.id} has ended: {run.state}")
            return OK
        output.confirm(
            f"stop {run.id}: {run.command}. Its checkpoints stay; steps after the last one are lost.", yes=yes
        )
        jobs.json("POST", f"/api/jobs/{run.id}/stop")
        end = time.monotonic() + limit_s
        while (now := one(jobs, run.id, environment=target.name)).state not in ENDED:
            if time.monotonic() > end:
                raise OpsError(
                    f"{run.id} is {now.state} after {limit_s:g} s",
                    expected="it to end",
                    fix=f"hyperpod-ray runs show {target.name} {run.id}",
                    code=STILL_GOING,
                )
            time.sleep(min(POLL_SECONDS, 0.5))
    output.log(f"{run.id} {now.state}")
    return OK


def all_of(jobs: Jobs) -> list[Run]:
    """Every submitted job, newest first. What a driver of its own started has no ID to ask for, and is omitted."""
    answered = jobs.json("GET", "/api/jobs/")
    found = [_run(item) for item in answered if item.get("submission_id")]
    return sorted(found, key=lambda run: run.started.timestamp() if run.started else float("inf"), reverse=True)


def one(jobs: Jobs, name: str, *, environment: str) -> Run:
    """The run called `name`.

    Raises:
        OpsError: there is none; with the closest name, where one is close.
    """
    found = {run.id: run for run in all_of(jobs)}
    if name in found:
        return found[name]
    close = meant(name, found)
    raise OpsError(
        f"no run '{name}'" + (f"; {close}" if close else ""),
        expected=f"one of {', '.join(list(found)[:5])}" if found else "a run; there is none",
        fix=f"hyperpod-ray runs list {environment}",
        code=BAD_USE,
    )


def log_of(jobs: Jobs, name: str) -> str:
    """The log of a job's driver."""
    return str(jobs.json("GET", f"/api/jobs/{name}/logs").get("logs") or "")


def as_data(run: Run) -> dict[str, Any]:
    """A run for JSON."""
    data: dict[str, Any] = output.plain(run)
    return {**data, "seconds": None if run.seconds is None else round(run.seconds, 1)}


def _run(item: dict[str, Any]) -> Run:
    runtime = item.get("runtime_env") or {}
    return Run(
        id=str(item["submission_id"]),
        state=str(item["status"]),
        command=str(item.get("entrypoint") or ""),
        started=_moment(item.get("start_time")),
        ended=_moment(item.get("end_time")),
        message=str(item.get("message") or "").strip(),
        exit_code=item.get("driver_exit_code"),
        variables=tuple(sorted(runtime.get("env_vars") or {})),
        working_dir=str(runtime.get("working_dir") or ""),
    )


def _moment(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None

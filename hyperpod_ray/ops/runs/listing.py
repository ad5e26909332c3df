"""`runs`: the jobs of an environment's RayCluster: list them, look at one, read its log, stop it.

A run is a job of Ray's Jobs API, whoever submitted it: `hyperpod-ray submit`, `ray job submit`, or a RayJob of this
RayCluster. Ray forgets its jobs with the head, unless the environment has GCS fault tolerance.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from hyperpod_ray.core import job
from hyperpod_ray.core.amounts import duration
from hyperpod_ray.core.findings import meant
from hyperpod_ray.core.names import COMMAND_ANNOTATION
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, INTERRUPTED, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.observe import queues
from hyperpod_ray.ops.observe.gather import moment
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import pod_log
from hyperpod_ray.ops.reach.clients import SlurmTarget, Target
from hyperpod_ray.ops.reach.jobs_api import ENDED, POLL_SECONDS, Jobs, follow, is_ours, jobs_of
from hyperpod_ray.ops.runs import run_plot, run_state, slurm_runs
from hyperpod_ray.ops.runs.run_state import Mode, State

AnyRuns = Target | SlurmTarget
TAIL_LINES = 20
MOST_FOLDERS = 30
"""Run folders that one list reads: those of the newest runs."""
STOP_SECONDS = 120
STYLE = {"RUNNING": "busy", "PENDING": "note", "SUCCEEDED": "good", "FAILED": "bad", "STOPPED": "quiet"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where runs are looked for. Default: the environment's RayCluster, through a port forward."""

    address: str = ""
    """A dashboard that is reachable already."""
    here: tuple[Path, ...] = ()
    """Folders of runs on this machine."""
    storage: str = ""
    """Folder of runs on the nodes of Slurm. Default: where `jobs/slurm` puts them."""

    def of(self, target: AnyRuns) -> None:
        """Refuse what the environment's orchestrator does not have."""
        on_slurm = isinstance(target, SlurmTarget)
        if self.address and on_slurm:
            raise OpsError(
                f"--address: {self.address}", expected="an environment on EKS: Slurm has no Jobs API",
                fix="remove it", code=BAD_USE,
            )  # fmt: skip
        if self.storage and not on_slurm:
            raise OpsError(
                f"--storage: {self.storage}", expected="an environment on Slurm: Ray knows each run's folder",
                fix="remove it", code=BAD_USE,
            )  # fmt: skip


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
    name: str = ""
    """The training run's name; empty where the job names none."""
    folder: str = ""
    """The training run's folder."""
    own_cluster: bool = False
    """Whether it has a RayCluster of its own, which is then `cluster`."""
    cluster: str = ""
    namespace: str = ""
    """Of that RayCluster: the environment's, or a team's."""
    waits: str = ""
    """Why it has not begun; empty where it has."""

    @property
    def seconds(self) -> float | None:
        """How long it has run; None before its start."""
        return ((self.ended or output.now()) - self.started).total_seconds() if self.started else None


def listing(target: AnyRuns, *, form: Format, source: Source, state: str = "", progress: bool = True) -> int:
    """Show the runs, newest first, with what each says of its progress."""
    runs, states = seen(target, source, state=state, progress=progress)
    if form is Format.json:
        listed = [{**as_data(run), "progress": as_progress(states.get(run.folder))} for run in runs]
        output.write_json("runs", {"environment": target.name, "runs": listed})
        return OK
    if not runs:
        output.log("no runs" + (f" with state {state}" if state else ""))
        output.log(f"next: {_submit_line(target)}")
        return OK
    from rich.text import Text

    table = output.table("=run", "name", "state", "step", ">steps/s", ">loss", "started", ">for", "command")
    for run in runs:
        took = "" if run.seconds is None else duration(run.seconds)
        training_state = states.get(run.folder)
        table.add_row(
            run.id, run.name, Text(run.state, style=STYLE.get(run.state, "note")),
            *((f"waits: {run.waits}", "", "") if run.waits else _progress(training_state)),
            output.clock(run.started), took, run.command,
        )  # fmt: skip
    output.console(form).print(table)
    return OK


def seen(
    target: AnyRuns, source: Source, *, state: str = "", progress: bool = True, names: Sequence[str] = ()
) -> tuple[list[Run], dict[str, State]]:
    """The runs of a source, newest first, and what their folders say.

    Args:
        target: The environment.
        source: Where to look.
        state: Only runs with it.
        progress: Whether to read the folders.
        names: Only these runs.

    Raises:
        OpsError: One of `names` is no run.
    """
    source.of(target)
    if source.here or isinstance(target, SlurmTarget):
        states = _of_folders(target, source)
        runs = [_of_folder(folder_state) for folder_state in states]
        chosen = [pick(runs, name, environment=target.name) for name in names] if names else runs
        listed = sorted(chosen, key=_newest, reverse=True) if not names else chosen
        return [run for run in listed if state in ("", run.state.lower())], {
            folder_state.folder: folder_state for folder_state in states
        }
    ray_job_runs = [] if source.address else own_runs(target)
    with standing(target, source) as jobs:
        runs = sorted([*(all_of(jobs) if jobs else []), *ray_job_runs], key=_newest, reverse=True)
        if names:
            runs = [pick(runs, name, environment=target.name) for name in names]
        runs = [run for run in runs if state in ("", run.state.lower())]
        return runs, _states(target, jobs, runs) if progress else {}


def _of_folders(target: AnyRuns, source: Source) -> list[State]:
    """Runs that are known by their folders alone: of this machine, or of the nodes of Slurm."""
    if source.here or not isinstance(target, SlurmTarget):
        return run_state.read_here([str(folder) for folder in source.here], every_run=True)
    return slurm_runs.read(target, source.storage or slurm_runs.STORAGE)


def _submit_line(target: AnyRuns) -> str:
    if isinstance(target, SlurmTarget):
        return "sbatch jobs/slurm/train.sbatch finetune --name NAME, on a login node"
    return f"hyperpod-ray submit {target.name} -- python train.py"


@contextlib.contextmanager
def standing(target: Target, source: Source) -> Iterator[Jobs | None]:
    """The Jobs API of the standing RayCluster; None for who is in a team and may not reach it."""
    with contextlib.ExitStack() as stack:
        try:
            jobs = stack.enter_context(jobs_of(target, address=source.address))
        except Exception as error:
            if getattr(error, "status", None) != 403 or not target.plan.settings.teams:
                raise
            output.log("the standing RayCluster is not yours to reach: these are the jobs of teams' queues")
            jobs = None
        yield jobs


def _states(target: Target, jobs: Jobs | None, runs: Sequence[Run]) -> dict[str, State]:
    """What run folders say: the folders of the newest runs, and else the reports in the jobs' logs."""
    states: dict[str, State] = {}
    folders = list(dict.fromkeys(run.folder for run in runs if run.folder))[:MOST_FOLDERS]
    if jobs and folders:
        try:
            states = {folder_state.folder: folder_state for folder_state in run_state.read(jobs, folders)}
        except OpsError as error:
            output.log(f"progress is not known: {error.message}")
    for run in runs[:MOST_FOLDERS]:
        if run.own_cluster and run.folder in folders and run.folder not in states:
            report = pod_log.report_of(target, run.id, namespace=run.namespace)
            states |= {
                folder_state.folder: folder_state for folder_state in run_state.states([report] if report else [])
            }
    return states


def show(target: AnyRuns, name: str, *, form: Format, source: Source) -> int:
    """Show one run: its state and progress, its checkpoints, and the end of its log."""
    (run,), states = seen(target, source, names=[name])
    training_state = states.get(run.folder)
    lines: list[str] = []
    if run.own_cluster and isinstance(target, Target):
        lines = pod_log.text_of(target, run.id, namespace=run.namespace, lines=TAIL_LINES).splitlines()
    elif not source.here and isinstance(target, Target):
        with jobs_of(target, address=source.address) as jobs:
            lines = jobs.tail(run.id, lines=TAIL_LINES)
    if form is Format.json:
        data = {"environment": target.name, **as_data(run), "progress": as_progress(training_state), "log_tail": lines}
        output.write_json("run", data)
        return OK
    console = output.console(form)
    table = output.table("run", run.id)
    rows = {
        "name": run.name if run.name != run.id else "",
        "cluster": f"{run.cluster or 'none yet'}, of its own, in namespace {run.namespace}" if run.own_cluster else "",
        "waits": run.waits,
        "state": run.state + (f", exit code {run.exit_code}" if run.exit_code else ""),
        "started": output.clock(run.started),
        "ended": output.clock(run.ended),
        "for": "" if run.seconds is None else duration(run.seconds),
        "command": run.command,
        "working directory": run.working_dir,
        "variables": ", ".join(run.variables),
        "message": run.message,
        "folder": run.folder,
        **(_in_words(training_state) if training_state else {}),
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    console.print(table)
    if lines:
        console.print(f"\nthe last {len(lines)} lines of its log" if len(lines) > 1 else "\nthe last line of its log")
        for line in lines:
            console.print(output.COLOUR.sub("", line))
    if run.state not in ENDED and not source.here and isinstance(target, Target):
        output.log(f"next: hyperpod-ray runs logs {target.name} {run.id} --follow")
    return OK


def compare(target: AnyRuns, names: Sequence[str], *, form: Format, source: Source) -> int:
    """Show runs beside each other: progress, loss at the last step that all of them reached, rate, recoveries."""
    compared, states = _with_states(target, names, source=source)
    common = min(state.curve[-1][1] for state in states) if all(state.curve for state in states) else None
    columns = [_figures(run, state, common=common) for run, state in zip(compared, states, strict=True)]
    if form is Format.json:
        runs = [{"id": run.id, **column} for run, column in zip(compared, columns, strict=True)]
        output.write_json("comparison", {"environment": target.name, "common_step": common, "runs": runs})
        return OK
    table = output.table("", *(f"={run.name or run.id}" for run in compared))
    for key, words in FIGURES.items():
        cells = [_shown(key, column[key]) for column in columns]
        if any(cells):
            table.add_row(words.format(step=common), *cells)
    output.console(form).print(table)
    return OK


def best(target: AnyRuns, names: Sequence[str], *, metric: str, mode: Mode, form: Format, source: Source) -> int:
    """Show the complete checkpoint with the best value of a metric, of all runs or of some. Exit code 3: none."""
    runs, states = seen(target, source, names=names)
    published = [state for run in runs if (state := states.get(run.folder))]
    ranked = [(state, checkpoint) for state in published if (checkpoint := state.best(metric, mode))]
    sign = 1 if mode == "min" else -1
    if not ranked:
        metrics = sorted({key for state in published for checkpoint in state.checkpoints for key in checkpoint.metrics})
        raise OpsError(
            f"no complete checkpoint has the metric '{metric}'",
            expected=f"one of {', '.join(metrics)}" if metrics else "a checkpoint that reports metrics",
            fix=meant(metric, metrics) or "wait for the first checkpoint, or give --metric",
            code=CONDITION_FALSE,
        )
    state, top = min(ranked, key=lambda pair: sign * pair[1].metrics[metric])
    if form is Format.json:
        data = {
            "environment": target.name, "run": state.training.name, "metric": metric, "mode": mode,
            "value": top.metrics[metric], "step": top.step, "path": top.path, "bytes": top.bytes,
        }  # fmt: skip
        output.write_json("best", data)
        return OK
    output.write_line(top.path)
    output.log(
        f"{state.training.name}, step {top.step}: {metric} {top.metrics[metric]:.6g}, {top.bytes / 2**20:,.1f} MiB"
    )
    return OK


def plot(target: AnyRuns, names: Sequence[str], *, out: Path | None, source: Source, width: int | None = None) -> int:
    """Draw the loss of runs over their steps: into an SVG file, or in the terminal."""
    runs, states = _with_states(target, names, source=source)
    drawn = [state for state in states if run_plot.points(state)]
    if not drawn:
        raise OpsError(
            f"no step with a loss in {', '.join(run.name or run.id for run in runs)}",
            expected="steps that report the metric loss",
            fix="call finished(step, loss=…) in the training loop",
            code=CONDITION_FALSE,
        )
    if out is None:
        output.write_text(run_plot.text(drawn, width=width or output.console().width))
        return OK
    out.write_text(run_plot.svg(drawn, title=f"Loss in {target.name}"), encoding="utf-8")
    output.log(f"wrote {out}")
    return OK


def _with_states(target: AnyRuns, names: Sequence[str], *, source: Source) -> tuple[list[Run], list[State]]:
    """Runs and their states; refuses a run that says nothing of itself."""
    runs, states = seen(target, source, names=names)
    silent = [run.name or run.id for run in runs if run.folder not in states]
    if silent:
        raise OpsError(
            f"{', '.join(silent)}: nothing in {next(run.folder for run in runs if run.folder not in states) or '?'}",
            expected="progress.json and events.jsonl, which the training library writes",
            fix="name the run in the job (--name), and train with hyperpod_ray_training.Run",
            code=CONDITION_FALSE,
        )
    return runs, [states[run.folder] for run in runs]


FIGURES = {
    "state": "state",
    "step": "step",
    "steps_total": "of",
    "loss": "loss",
    "loss_at_common_step": "loss at step {step}",
    "smallest_loss": "smallest loss",
    "steps_per_second": "steps/s",
    "world_size": "ranks",
    "goodput": "goodput",
    "recoveries": "recoveries",
    "faults": "faults",
    "checkpoints": "checkpoints",
    "last_checkpoint": "newest checkpoint",
    "started": "started",
    "seconds": "for",
    "command": "command",
}
"""What `compare` shows of each run, and what it is called."""


def _figures(run: Run, state: State, *, common: int | None) -> dict[str, Any]:
    training = state.training
    return {
        "state": run.state,
        "step": training.step,
        "steps_total": training.steps_total,
        "loss": training.loss,
        "loss_at_common_step": None if common is None else state.loss_at(common),
        "smallest_loss": state.record.lowest if state.record.metric == "loss" else None,
        "steps_per_second": state.record.usual_rate,
        "world_size": training.world_size,
        "goodput": training.goodput,
        "recoveries": training.recoveries,
        "faults": training.faults,
        "checkpoints": sum(checkpoint.complete for checkpoint in state.checkpoints),
        "last_checkpoint": state.last.name if state.last else None,
        "started": output.plain(run.started),
        "seconds": None if run.seconds is None else round(run.seconds, 1),
        "command": run.command,
    }


def _shown(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "seconds":
        return duration(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _progress(state: State | None) -> tuple[str, str, str]:
    """Step, rate and loss as cells."""
    if state is None:
        return "", "", ""
    run = state.training
    total = f" of {run.steps_total}" if run.steps_total else ""
    rate = run.steps_per_second
    return (
        f"{run.step}{total}" if run.step is not None else run.state,
        f"{rate:.3g}" if rate else "",
        f"{run.loss:.4g}" if run.loss is not None else "",
    )


def _in_words(state: State) -> dict[str, str]:
    """Rows of `show` about a run's own state."""
    run, newest = state.training, state.last
    step, rate, _ = _progress(state)
    seconds_left = state.seconds_left
    age = run.checkpoint_age_seconds
    lowest = state.best("loss", "min")
    return {
        "training": run.state + (f", {run.world_size} ranks" if run.world_size else ""),
        "step": step
        + (f", {rate} steps/s" if rate else "")
        + (f", {duration(seconds_left)} left" if seconds_left else ""),
        "metrics": ", ".join(f"{key} {value:.4g}" for key, value in sorted(run.metrics.items())),
        "newest checkpoint": f"{newest.path}" + (f", {duration(age)} old" if age is not None else "")
        if newest
        else "none is complete",
        "best checkpoint": f"{lowest.path}, loss {lowest.metrics['loss']:.4g}" if lowest else "",
        "recoveries": str(run.recoveries) if run.recoveries else "",
        "goodput": "" if run.goodput is None else f"{100 * run.goodput:.1f} %",
        "its time": ", ".join(f"{share} {duration(spent)}" for share, spent in run.spent_seconds.items() if spent >= 1),
        "lost by": ", ".join(
            f"{cause} {duration(seconds)} in {count}" for cause, (count, seconds) in state.record.by_cause.items()
        ),
        "last error": run.last_error,
    }


def as_progress(state: State | None) -> dict[str, Any] | None:
    """A run's own state for JSON; None where it says nothing."""
    if state is None:
        return None
    run = state.training
    data: dict[str, Any] = output.plain(
        {
            "state": run.state, "step": run.step, "steps_total": run.steps_total,
            "steps_per_second": run.steps_per_second, "seconds_left": state.seconds_left, "loss": run.loss,
            "metrics": run.metrics, "world_size": run.world_size, "recoveries": run.recoveries,
            "began": run.began, "goodput": run.goodput, "spent_seconds": run.spent_seconds,
            "lost_by_cause": {cause: round(spent, 3) for cause, (_, spent) in state.record.by_cause.items()},
            "step_age_seconds": run.step_age_seconds, "checkpoint_age_seconds": run.checkpoint_age_seconds,
            "last_error": run.last_error, "checkpoints": list(state.checkpoints), "curve": list(state.curve),
        }
    )  # fmt: skip
    return data


def logs(target: Target, name: str, *, following: bool, source: Source) -> int:
    """Print a run's log; with `following`, until the run has ended, and exit with its own exit code."""
    if not source.address and (own_run := _own(target, name)):
        if not following:
            output.write_text(pod_log.text_of(target, own_run.id, namespace=own_run.namespace))
            return OK
        try:
            return own_cluster.follow(target, own_run.id)
        except KeyboardInterrupt:
            output.log(f"stopped following; {own_run.id} continues")
            return INTERRUPTED
    with standing(target, source) as jobs:
        if jobs is None:
            _no_run(own_runs(target), name, environment=target.name)
        run = one(jobs, name, environment=target.name)
        if not following:
            output.write_text(log_of(jobs, run.id))
            return OK
        try:
            return follow(jobs, run.id, environment=target.name)
        except KeyboardInterrupt:
            output.log(f"stopped following; {run.id} continues")
            return INTERRUPTED


def stop(target: Target, name: str, *, yes: bool, source: Source, limit_s: float = STOP_SECONDS) -> int:
    """Stop a run, and wait until it has ended. Its checkpoints stay."""
    if not source.address and (own_run := _own(target, name)):
        if own_run.state in ENDED:
            output.log(f"{own_run.id} has ended: {own_run.state}")
            return OK
        action = f"stop {own_run.id} and delete its RayCluster: {own_run.command}. Its checkpoints stay"
        output.confirm(f"{action}; steps after the last one are lost.", yes=yes)
        own_cluster.stop(target, own_run.id, limit_s=limit_s)
        output.log(f"{own_run.id} is deleted, with its RayCluster")
        return OK
    with standing(target, source) as jobs:
        if jobs is None:
            _no_run(own_runs(target), name, environment=target.name)
        run = one(jobs, name, environment=target.name)
        if run.state in ENDED:
            output.log(f"{run.id} has ended: {run.state}")
            return OK
        output.confirm(
            f"stop {run.id}: {run.command}. Its checkpoints stay; steps after the last one are lost.", yes=yes
        )
        jobs.json("POST", f"/api/jobs/{run.id}/stop")
        deadline = time.monotonic() + limit_s
        while (current := one(jobs, run.id, environment=target.name)).state not in ENDED:
            if time.monotonic() > deadline:
                raise OpsError(
                    f"{run.id} is {current.state} after {limit_s:g} s",
                    expected="it to end",
                    fix=f"hyperpod-ray runs show {target.name} {run.id}",
                    code=STILL_GOING,
                )
            time.sleep(min(POLL_SECONDS, 0.5))
    output.log(f"{run.id} {current.state}")
    return OK


def all_of(jobs: Jobs) -> list[Run]:
    """Every submitted job, newest first.

    Omitted: what a driver of its own started, which has no ID to ask for, and what this program submits for itself.
    """
    answered = jobs.json("GET", "/api/jobs/")
    theirs = [submission for submission in answered if not is_ours(submission)]
    return sorted(
        (_run(submission) for submission in theirs if submission.get("submission_id")), key=_newest, reverse=True
    )


def own_runs(target: Target) -> list[Run]:
    """Runs on clusters of their own: the environment's RayJobs. Why one waits is its `waits`."""
    return [_of_ray_job(target, ray_job) for ray_job in own_cluster.listed(target)]


def _own(target: Target, name: str) -> Run | None:
    """The run on a cluster of its own that has this ID or name."""
    runs = sorted(own_runs(target), key=_newest, reverse=True)
    return next((run for run in runs if name in (run.id, run.name)), None)


def _of_ray_job(target: Target, ray_job: dict[str, Any]) -> Run:
    status, metadata = ray_job.get("status") or {}, ray_job["spec"].get("metadata") or {}
    deployment = str(status.get("jobDeploymentStatus") or "")
    state = str(status.get("jobStatus") or "")
    if deployment in ("Failed", "ValidationFailed") and state not in ENDED:
        state = "FAILED"
    waiting = None if state in ENDED else queues.why_it_waits(target, ray_job)
    container = ray_job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    return Run(
        id=str(ray_job["metadata"]["name"]),
        state=state or "PENDING",
        command=str(
            (ray_job["metadata"].get("annotations") or {}).get(COMMAND_ANNOTATION) or ray_job["spec"]["entrypoint"]
        ),
        started=moment(status.get("startTime") or ray_job["metadata"].get("creationTimestamp")),
        ended=moment(status.get("endTime")),
        message=str(status.get("message") or "").strip(),
        exit_code=own_cluster.exit_code(status),
        variables=tuple(sorted(variable["name"] for variable in container.get("env") or [])),
        working_dir="",
        name=str(metadata.get("run") or ""),
        folder=str(metadata.get("run_folder") or ""),
        own_cluster=True,
        cluster=str(status.get("rayClusterName") or ""),
        namespace=str(ray_job["metadata"]["namespace"]),
        waits=str(waiting) if waiting else "",
    )


def _newest(run: Run) -> float:
    """What is not started yet comes first."""
    return run.started.timestamp() if run.started else float("inf")


def one(jobs: Jobs, name: str, *, environment: str) -> Run:
    """The run called `name`; see `pick`."""
    return pick(all_of(jobs), name, environment=environment)


def pick(runs: Sequence[Run], name: str, *, environment: str) -> Run:
    """The run with this ID, or the newest with this name.

    Raises:
        OpsError: there is none; with the closest name, where one is close.
    """
    fits = [run for run in runs if run.id == name] or [run for run in runs if run.name == name]
    if not fits:
        _no_run(runs, name, environment=environment)
    return fits[0]


def _no_run(runs: Sequence[Run], name: str, *, environment: str) -> NoReturn:
    labels = list(dict.fromkeys(word for run in runs for word in (run.id, run.name) if word))
    close = meant(name, labels)
    raise OpsError(
        f"no run '{name}'" + (f"; {close}" if close else ""),
        expected=f"one of {', '.join(run.id for run in runs[:5])}" if runs else "a run; there is none",
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


def _run(submission: dict[str, Any]) -> Run:
    runtime, metadata = submission.get("runtime_env") or {}, submission.get("metadata") or {}
    command = str(metadata.get("command") or submission.get("entrypoint") or "")
    name, folder = str(metadata.get("run") or ""), str(metadata.get("run_folder") or "")
    if not folder:
        words = job.words_of(command)
        name, storage = job.option(words, "--name"), job.option(words, "--storage")
        folder = f"{storage.rstrip('/')}/{name}" if storage and name else ""
    return Run(
        id=str(submission["submission_id"]),
        state=str(submission["status"]),
        command=command,
        started=_moment(submission.get("start_time")),
        ended=_moment(submission.get("end_time")),
        message=str(submission.get("message") or "").strip(),
        exit_code=submission.get("driver_exit_code"),
        variables=tuple(sorted(runtime.get("env_vars") or {})),
        working_dir=str(runtime.get("working_dir") or ""),
        name=name,
        folder=folder,
    )


def _of_folder(state: State) -> Run:
    """A run of a folder alone: what started it is not known."""
    training = state.training
    ended = training.state in ("done", "failed")
    return Run(
        id=training.name,
        state={"done": "SUCCEEDED", "failed": "FAILED"}.get(training.state, training.state.upper()),
        command="",
        started=training.started,
        ended=training.state_since if ended else None,
        message="",
        exit_code=None,
        variables=(),
        working_dir="",
        name=training.name,
        folder=state.folder,
    )


def _moment(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None

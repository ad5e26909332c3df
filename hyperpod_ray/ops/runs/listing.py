"""`runs`: the jobs of an environment's RayCluster: list them, look at one, read its log, stop it.

A run is a job of Ray's Jobs API, whoever submitted it: `hyperpod-ray submit`, `ray job submit`, or a RayJob of this
RayCluster. Ray forgets its jobs with the head, unless the environment has GCS fault tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.core.findings import meant
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.journal.run_state import Mode, State
from hyperpod_ray.ops.orchestrators.run_list import Run, Source, as_data, of_states
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.jobs_api import ENDED
from hyperpod_ray.ops.runs import run_plot

TAIL_LINES = 20
STOP_SECONDS = 120
STYLE = {"RUNNING": "busy", "PENDING": "note", "SUCCEEDED": "good", "FAILED": "bad", "STOPPED": "quiet"}


def listing(target: AnyTarget, *, form: Format, source: Source, state: str = "", progress: bool = True) -> int:
    """Show the runs, newest first, with what each says of its progress."""
    runs, states = seen(target, source, state=state, progress=progress)
    if form is Format.json:
        listed = [{**as_data(run), "progress": as_progress(states.get(run.folder))} for run in runs]
        output.write_json("runs", {"environment": target.name, "runs": listed})
        return OK
    if not runs:
        output.log("no runs" + (f" with state {state}" if state else ""))
        output.log(f"next: {orchestrators.of(target).jobs.example()}")
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
    target: AnyTarget, source: Source, *, state: str = "", progress: bool = True, names: Sequence[str] = ()
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
    runs = orchestrators.of(target).runs
    runs.refuse(source)
    if source.here:
        states = run_state.read_here([str(folder) for folder in source.here], whole=True)
        return of_states(states, state=state, names=names, environment=target.name)
    return runs.listed(source, state=state, progress=progress, names=names)


def show(target: AnyTarget, name: str, *, form: Format, source: Source) -> int:
    """Show one run: its state and progress, its checkpoints, and the end of its log."""
    (run,), states = seen(target, source, names=[name])
    training_state = states.get(run.folder)
    log = None if source.here else orchestrators.of(target).runs.tail(run, source, lines=TAIL_LINES)
    lines = log or []
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
    if run.state not in ENDED and log is not None:
        output.log(f"next: hyperpod-ray runs logs {target.name} {run.id} --follow")
    return OK


def compare(target: AnyTarget, names: Sequence[str], *, form: Format, source: Source) -> int:
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


def best(target: AnyTarget, names: Sequence[str], *, metric: str, mode: Mode, form: Format, source: Source) -> int:
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


def plot(target: AnyTarget, names: Sequence[str], *, out: Path | None, source: Source, width: int | None = None) -> int:
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


def _with_states(target: AnyTarget, names: Sequence[str], *, source: Source) -> tuple[list[Run], list[State]]:
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
        "copies": run.copies_in_words,
        "best checkpoint": f"{lowest.path}, loss {lowest.metrics['loss']:.4g}" if lowest else "",
        "recoveries": str(run.recoveries) if run.recoveries else "",
        "goodput": "" if run.goodput is None else f"{100 * run.goodput:.1f} %",
        "its time": ", ".join(f"{share} {duration(spent)}" for share, spent in run.spent_seconds.items() if spent >= 1),
        "lost by": state.record.lost_in_words,
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
            "copy_every_steps": run.copy_every_steps,
            "began": run.began, "goodput": run.goodput, "spent_seconds": run.spent_seconds,
            "lost_by_cause": run.lost_by_cause,
            "step_age_seconds": run.step_age_seconds, "checkpoint_age_seconds": run.checkpoint_age_seconds,
            "last_error": run.last_error, "checkpoints": list(state.checkpoints), "curve": list(state.curve),
        }
    )  # fmt: skip
    return data


def logs(target: AnyTarget, name: str, *, following: bool, source: Source) -> int:
    """Print a run's log; with `following`, until the run has ended, and exit with its own exit code."""
    return orchestrators.of(target).runs.log(name, following=following, source=source)


def stop(target: AnyTarget, name: str, *, yes: bool, source: Source, limit_s: float = STOP_SECONDS) -> int:
    """Stop a run, and wait until it has ended. Its checkpoints stay."""
    return orchestrators.of(target).runs.stop(name, yes=yes, source=source, limit_s=limit_s)

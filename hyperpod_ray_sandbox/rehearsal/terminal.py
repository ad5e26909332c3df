"""A rehearsal on the terminal: live where it is one, plain lines where it is not, and the table at the end."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hyperpod_ray_sandbox.rehearsal.report import NOT_SHOWN, FaultReport, Report

HEADINGS = ("fault", "at step", "detected", "by", "back in", "lost", "resumed from", "note")
RECENT = 8


def row(fault: FaultReport) -> tuple[str, ...]:
    """A fault's line in the table."""
    detected = "-" if fault.detected_after_s is None else f"{fault.detected_after_s:.1f} s"
    by = (fault.detected_by or "-").partition(":")[0]
    if not fault.survived:
        back = "never"
    elif not fault.interrupted:
        back = "no pause"
    else:
        back = f"{fault.recovery_s:.1f} s"
    notes = []
    if fault.taken_over_by:
        notes.append(fault.taken_over_by)
    if fault.resubmitted:
        notes.append("resubmitted")
    if fault.fault == "drain" and fault.resumed_after_s is not None:
        notes.append(f"{fault.resumed_after_s:.1f} s from the notice")
    if fault.head_back_after_s is not None:
        notes.append(f"new head after {fault.head_back_after_s:.1f} s")
    if fault.full_size_after_s is not None:
        notes.append(f"full size after {fault.full_size_after_s:.1f} s")
    checkpoint = "-" if fault.checkpoint_step is None else f"step {fault.checkpoint_step}"
    return (fault.fault, str(fault.step), detected, by, back, str(fault.steps_lost), checkpoint, ", ".join(notes))


def table(faults: list[FaultReport]) -> Table:
    """All faults."""
    out = Table(
        title="what became of each fault (steps lost were done again)",
        title_justify="left",
        box=box.SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in HEADINGS:
        number = heading in {"at step", "detected", "back in", "lost"}
        out.add_column(heading, justify="right" if number else "left", no_wrap=heading != "note")
    for fault in faults:
        out.add_row(*row(fault), style=None if fault.survived else "bold red")
    return out


def verdicts(report: Report) -> list[str]:
    """A line a run: status, final loss and how it compares."""
    out = []
    for run in report.runs:
        times = "once" if run.submissions == 1 else f"{run.submissions} times"
        text = f"{run.name}: {run.status}, submitted {times}"
        if run.final_loss is None:
            out.append(f"{text}, no step done")
        elif run.equal and not run.steps_different:
            out.append(
                f"{text}, final loss {run.final_loss!r} equal to the undisturbed run's to the last bit, as in all "
                f"{run.steps_compared} steps (repeated ones included)"
            )
        else:
            out.append(
                f"{text}, final loss {run.final_loss!r}, undisturbed {run.undisturbed_loss!r}; {run.steps_different} "
                f"of {run.steps_compared} steps differ, by at most {run.largest_difference:.2e} (bound {run.bound})"
            )
        if run.unexplained_restarts:
            out.append(f"{run.name}: {run.unexplained_restarts} restarts from a checkpoint that no fault explains")
    return out


class Show:
    """Listens to a rehearsal and shows it on `console`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lines: list[str] = []
        self.now: dict[str, Any] = {"run": "", "step": 0, "steps": 1, "loss": None, "doing": "starting the cluster"}
        self.told_step = 0
        self.live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Show:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def line(self, t: float, text: str) -> None:
        """See `Listener`."""
        written = f"{t:7.1f} s  {text}"
        if not self.live:
            self._print(written)
            return
        self.lines.append(written)
        self._draw()

    def progress(self, *, run: str, step: int, steps: int, loss: float | None, doing: str) -> None:
        """See `Listener`."""
        fresh = {"run": run, "step": step, "steps": steps, "loss": loss, "doing": doing}
        if fresh == self.now:
            return
        self.now = fresh
        if self.live:
            self._draw()
        elif step >= self.told_step + 25 or step < self.told_step:
            self.told_step = step
            self._print(f"           {run}: step {step} of {steps}, loss {loss}")

    def fault(self, report: FaultReport) -> None:
        """See `Listener`."""
        text = row(report)
        self._print(f"  {text[0]}: detected after {text[2]} by {text[3]}, back in {text[4]}, {text[5]} steps lost")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        assert self.live is not None  # noqa: S101
        current = self.now
        loss = "" if current["loss"] is None else f"  loss {current['loss']:.4f}"
        head = Text(
            f"{current['run']}  step {current['step']} of {current['steps']}{loss}  ({current['doing']})", style="bold"
        )
        bar = ProgressBar(total=current["steps"], completed=current["step"], width=60)
        self.live.update(Group(*(Text(line) for line in self.lines[-RECENT:]), head, bar))


def summary(report: Report, *, log: Callable[[Any], None]) -> None:
    """Table, verdicts, what was not shown, and where the files are."""
    log(table(report.faults))
    for verdict in verdicts(report):
        log(verdict)
    log(
        f"{len(report.faults)} faults in {report.seconds:g} s on {report.machine.get('cores')} cores "
        f"(load {report.machine.get('load')})"
    )
    if not report.settings.get("spare_nodes"):
        log("no spare node: a lost process has a standby on its node, a lost node waits. With one: --spares 1")
    log("what a local rehearsal does not show:")
    for text in NOT_SHOWN:
        log(f"  - {text}")
    for label, path in report.files.items():
        log(f"{label}: {path}")

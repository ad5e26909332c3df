"""`hyperpod-ray local slurm`: rehearse on a real Slurm and show what was found."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from hyperpod_ray_sandbox.rehearsal.commands import ended_by_sigterm
from hyperpod_ray_sandbox.rehearsal.slurm.figures import HEADINGS, NOT_SHOWN, SlurmReport, rows, verdict
from hyperpod_ray_sandbox.rehearsal.slurm.rehearse import Options, rehearse


def slurm(*, options: Options, out: Path | None = None, as_json: bool = False) -> bool:
    """Rehearse; whether everything survived. LocalError where Slurm is not installed, or for bad input."""
    console, began = Console(stderr=as_json), time.monotonic()

    def note(text: str) -> None:
        line = f"{time.monotonic() - began:7.1f}  {text}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with ended_by_sigterm():
        report = rehearse(options, note=note, out=out)
    show(report, console)
    if as_json:
        sys.stdout.write(report.to_json() + "\n")
    return report.survived


def show(report: SlurmReport, console: Console) -> None:
    """The table, the verdict, and what this cannot show."""
    title = (
        f"{report.slurm}, {report.launcher}, {report.timers} timers (before: seconds that were measured for "
        "docs/slurm.md)"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        number = heading in {"at step", "back in", "before", "lost"}
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows(report):
        table.add_row(*row)
    console.print(table)
    console.print(verdict(report), markup=False, highlight=False, soft_wrap=True)
    for text in NOT_SHOWN:
        console.print(f"not shown: {text}", markup=False, highlight=False, soft_wrap=True)

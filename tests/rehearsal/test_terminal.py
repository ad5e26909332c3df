from __future__ import annotations

import io
from pathlib import Path

import made_up
from rich.console import Console

from hyperpod_ray_sandbox.rehearsal import terminal as show


def test_the_table_and_the_verdict_say_what_happened(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    report = made_up.report(tmp_path)
    show.summary(report, log=lambda item: console.print(item, markup=False, highlight=False))
    text = out.getvalue()
    assert "9.0 s" in text
    assert "equal to the undisturbed run's to the last bit" in " ".join(text.split())
    assert "NCCL and EFA" in text


def test_without_a_terminal_there_are_plain_lines() -> None:
    out = io.StringIO()
    with show.Show(Console(file=out, width=200)) as shown:
        shown.line(1.0, "cluster up")
        shown.progress(run="r", step=30, steps=60, loss=1.5, doing="finishing")
    assert "\x1b" not in out.getvalue()
    assert "cluster up" in out.getvalue()
    assert "step 30 of 60" in out.getvalue()

"""What `runs` prints is what `runs.txt` records: a word, a figure and a key change only in review."""

from __future__ import annotations

from tests.ops import said_runs


def test_runs_are_printed_as_recorded() -> None:
    assert said_runs.today() == said_runs.FILE.read_text(encoding="utf-8").splitlines(), "Fix: make records"

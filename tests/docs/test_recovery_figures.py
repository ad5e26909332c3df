"""The table of recovery times and its picture show the recorded figures of the benchmark."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.recovery_picture import NAMES, PICTURE, medians

PAGE = Path(__file__).parents[2] / "docs" / "what-happens-when-a-node-dies.md"


def test_the_table_and_the_picture_show_what_was_measured() -> None:
    found = medians()
    text = PAGE.read_text(encoding="utf-8").partition("## Beside other ways")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in text.splitlines() if line.startswith("| ")}
    assert [re.sub("[¹²]", "", cell).strip() for cell in rows["fault"]] == list(found)
    picture = PICTURE.read_text(encoding="utf-8")
    for fault, name in NAMES.items():
        for cell, (way, seconds) in zip(rows[name], found.items(), strict=True):
            value = seconds[fault]
            shown = f"{value:.1f} s" if value is not None else "not within"
            assert cell.strip().startswith(shown), (name, way)
            assert shown in picture

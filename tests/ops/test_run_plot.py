from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.runs import run_plot
from tests.ops.ops_run_state_helpers import BEGIN


def test_a_picture_for_a_terminal_has_its_width_and_three_labels() -> None:
    events: list[Any] = []
    training = SimpleNamespace(name="first", events=events)
    state: Any = SimpleNamespace(training=training, curve=[(None, step, float(10 - step)) for step in range(11)])
    for width, columns in ((80, 68), (100, 88), (10, 20)):
        rows = run_plot.text([state], width=width, height=9).splitlines()
        axis = next(row for row in rows if "└" in row)
        assert axis.count("─") == columns
        labels = [row.partition("│")[0].strip() for row in rows if "│" in row]
        assert labels == ["10", "", "", "", "5", "", "", "", "0"]
        assert rows[0].endswith("│●") and rows[8].endswith("●"), "a loss that falls is drawn downwards"
        assert rows[8].index("●") - rows[8].index("│") == columns
        assert rows[-2].split() == ["0", "step", "10"]
        assert rows[-1].split() == ["●", "first"]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 47, [0, 10, 20, 30, 40]),
        (0, 7, [0, 2, 4, 6]),
        (3, 8, [3, 4, 5, 6, 7, 8]),
        (1.2, 1.45, [1.2, 1.25, 1.3, 1.35, 1.4, 1.45]),
        (-3, 22, [0, 5, 10, 15, 20]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert run_plot._ticks(low, high) == pytest.approx(ticks)


def test_a_flat_line_and_a_single_point_are_drawn(tmp_path: Path) -> None:
    for number, losses in enumerate(([1.0], [2.0, 2.0], [0.0])):
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        lines = [json.dumps({"t": BEGIN + n, "kind": "step", "step": n, "loss": loss}) for n, loss in enumerate(losses)]
        (folder / "events.jsonl").write_text("\n".join(lines))
    found = run_state.read_here([str(tmp_path)], whole=True)
    assert len(found) == 3
    for one in found:
        ET.fromstring(run_plot.svg([one], title='a "title" & <more>'))  # noqa: S314
        assert "●" in run_plot.text([one], width=60)

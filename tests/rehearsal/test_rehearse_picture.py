"""The picture: what is drawn, and that it is drawn."""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
from pathlib import Path

import made_up
import pytest

from hyperpod_ray_sandbox.rehearsal import picture

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = PROJECT / ".venv-rehearsal" / "bin" / "python"


def test_each_fault_gets_its_words_and_its_gap(tmp_path: Path) -> None:
    raw = json.loads(made_up.report(tmp_path).to_json())
    raw["faults"][1]["interrupted"] = False
    raw["faults"][2]["resumed_after_s"] = None
    facts = picture.facts(raw)
    assert facts[0]["text"] == "worker killed\nback in 9.0 s\n6 steps lost"
    assert facts[0]["gap"] == (facts[0]["t"], facts[0]["t"] + 9.0)
    assert facts[1]["text"].endswith("no interruption")
    assert facts[1]["gap"] is None
    assert facts[2]["text"].endswith("not survived")


def test_steps_done_twice_are_told_apart_and_no_line_crosses_a_restart() -> None:
    rows = [[0, 1, 0.5, 2], [1, 2, 0.4, 2], [2, 3, 0.3, 2], [9, 2, 0.4, 2], [10, 3, 0.3, 2], [11, 4, 0.2, 2]]
    parts, again = picture.pieces(rows, [])
    assert [len(part) for part in parts] == [3, 3]
    assert [row[1] for row in again] == [2, 3]
    drained = [[0, 1, 0.5, 2], [1, 2, 0.4, 2], [9, 3, 0.3, 2]]
    assert [len(part) for part in picture.pieces(drained, [[8, 2]])[0]] == [2, 1]


@pytest.mark.parametrize("times", [[5.0], [95.0, 96.0, 97.0], [0.0, 1.0, 50.0, 99.0], [10.0, 50.0, 90.0]])
def test_labels_neither_overlap_nor_leave_the_picture(times: list[float]) -> None:
    got = picture.places(times, room=12, right_edge=100)
    assert all(b - a >= 12 for a, b in itertools.pairwise(got))
    assert got[-1] + 12 <= 100
    assert picture.places([10.0, 50.0, 80.0], room=12, right_edge=100) == [10.0, 50.0, 80.0], "moved only where it must"


@pytest.mark.skipif(not PYTHON.exists(), reason="needs .venv-rehearsal (make rehearsal-env)")
@pytest.mark.parametrize(
    "kinds", [("node",), ("worker", "node", "freeze", "hang", "drain", "elastic", "driver", "head")]
)
def test_svg_and_png_are_drawn_and_legible(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    (tmp_path / "report.json").write_text(made_up.report(tmp_path, kinds).to_json())
    done = subprocess.run(
        [PYTHON, "-m", "hyperpod_ray_sandbox.rehearsal.picture", tmp_path / "report.json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [Path(line).name for line in done.stdout.split()] == ["timeline.svg", "timeline.png"]
    head = (tmp_path / "timeline.png").read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:24])
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert width >= 1200
    assert height >= 800
    svg = (tmp_path / "timeline.svg").read_text()
    for kind in kinds:
        assert picture.WORDS[kind] in svg, (
            "each label is named in the SVG, which draws text as paths to look alike everywhere"
        )
    assert "NCCL and EFA" in svg

"""The benchmark of what copies cost a step runs to its end: the library's own watch once refused its loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import overhead


def test_percents_are_of_the_bare_rounds_beside_them() -> None:
    rounds = {"bare": [1.0, 2.0, 4.0], "library": [1.1, 2.0, 4.0], "library and copies": [1.2, 2.2, 4.2]}
    assert overhead.percent(rounds) == pytest.approx({"bare": 0.0, "library": 0.0, "library and copies": 10.0})


@pytest.mark.slow
@pytest.mark.parametrize("work", ["cpu", "idle"])
def test_two_ranks_measure_three_kinds_of_rounds(tmp_path: Path, work: str) -> None:
    figures = tmp_path / "figures.json"
    arguments = [
        "--rounds",
        "2",
        "--steps",
        "3",
        "--step-s",
        "0.02",
        "--width",
        "32",
        "--most",
        "10000",
        "--work",
        work,
    ]
    assert overhead.main([*arguments, "--json", str(figures)]) == 0
    assert {arm: len(seconds) for arm, seconds in json.loads(figures.read_text())["rounds"].items()} == dict.fromkeys(
        overhead.ARMS, 2
    )


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ranks ended with"):
        overhead.main(["--rounds", "1", "--steps", "1", "--width", "0", "--json", str(tmp_path / "figures.json")])

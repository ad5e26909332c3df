from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import flight
from tests.resilience.causes_helpers import ROOT, of_ranks


def test_real_ranks_show_who_left_a_collective_out(tmp_path: Path) -> None:
    folder = tmp_path / "fsx" / "runs" / "first"
    folder.mkdir(parents=True)
    answers = of_ranks("out-of-step", folder)
    said = flight.differs({rank: answer["newest"] for rank, answer in enumerate(answers)})
    assert said == "2 of 3 ranks have begun all_reduce 5 of group 0 default_pg, not rank 2 (last all_reduce 3)"
    command = [sys.executable, "-m", "hyperpod_ray_training.flight", f"{tmp_path}/fsx/runs/first/flight"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == f"{said}\n"
    kept = json.loads((folder / flight.FOLDER / "gen-3-rank-1.json").read_text())
    assert [entry["number"] for entry in kept["groups"]["0 default_pg"]] == [1, 2, 3, 4, 5]


def test_older_files_and_those_of_another_attempt_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / flight.FOLDER
    folder.mkdir()

    def put(name: str, number: int, *, age: float) -> None:
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"newest": {"a": [number, "all_reduce"]}}))
        os.utime(path, (1e9 - age, 1e9 - age))

    put("gen-1-rank-0", 9, age=50)
    put("gen-2-rank-7", 1, age=86_400)
    put("gen-2-rank-0", 5, age=0)
    put("gen-2-rank-1", 4, age=1)
    (folder / "gen-2-rank-2.json").write_text('{"newe')
    os.utime(folder / "gen-2-rank-2.json", (1e9, 1e9))
    assert flight.read(folder) == {0: {"a": [5, "all_reduce"]}, 1: {"a": [4, "all_reduce"]}}
    flight._prune(folder, "gen-3")
    assert {path.name.partition("-rank")[0] for path in folder.iterdir()} == {"gen-1", "gen-2"}
    flight._prune(folder, "gen-4")
    put("gen-4-rank-0", 1, age=-5)
    put("gen-5-rank-0", 1, age=-6)
    flight._prune(folder, "gen-6")
    assert {path.name.partition("-rank")[0] for path in folder.iterdir()} == {"gen-4", "gen-5"}


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ({}, ""), ({0: {"a": [4, "all_reduce"]}}, ""),
        ({0: {"a": [4, "all_reduce"]}, 1: {"a": [4, "all_reduce"]}}, ""),
        ({0: {"a": [4, "all_reduce"]}, 1: {"a": [4, "broadcast"]}},
         "ranks are in different collectives, number 4 of group a: all_reduce: rank 0; broadcast: rank 1"),
        ({0: {"a": [4, "all_reduce"], "b": [7, "send"]}, 1: {"b": [6, "send"]}},
         "1 of 2 ranks have begun send 7 of group b, not rank 1 (last send 6)"),
        ({rank: {"a": [5 - (rank > 0), "all_gather"]} for rank in range(1000)},
         "1 of 1000 ranks have begun all_gather 5 of group a, not " +
         ", ".join(f"rank {rank} (last all_gather 4)" for rank in range(1, 9)) + " and 991 more"),
    ],
)  # fmt: skip
def test_what_ranks_have_begun_in_words(ranks: dict[int, Any], said: str) -> None:
    assert flight.differs(ranks) == said


def test_a_folder_without_records_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flight.main([str(tmp_path)]) == 3
    assert "Expected *-rank-N.json" in capsys.readouterr().err
    assert flight.main([]) == 2


def test_what_the_user_has_set_stays() -> None:
    for own in ({flight.SIZE_VARIABLE: "7"}, {flight.OLD_VARIABLE: "9"}):
        environ = dict(own)
        flight.record(environ)
        assert environ == own
    fresh: dict[str, str] = {}
    flight.record(fresh)
    assert fresh == {flight.SIZE_VARIABLE: "2000"}

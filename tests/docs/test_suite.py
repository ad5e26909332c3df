"""The parts of the suite: `make test` runs each file once, `make quick` some of them."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import run

PROJECT = Path(__file__).resolve().parents[2]


def test_every_test_file_is_in_one_part() -> None:
    *folders, rest = run.parts()
    assert rest.paths == (".",)
    for file in sorted((PROJECT / "tests").rglob("test_*.py")):
        path = file.relative_to(PROJECT / "tests").as_posix()
        holders = [part.name for part in folders if _below(path, part.paths) and not _below(path, part.without)]
        assert len(holders) == int(_below(path, rest.without)), path
    assert {part.only for part in folders} == {"", "--walk", "--stories"} <= run.WHAT.keys()


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def test_quick_runs_only_what_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = subprocess.run(["make", "-n", "quick"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"python -m tests\.run --quick$", recipe, re.MULTILINE)
    marks = []
    for name, quick in (("slow", False), ("fast", True)):
        mark = tmp_path / name
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    open({str(mark)!r}, 'w').close()\n")
        marks.append(run.Part(paths=(os.path.relpath(tmp_path / f"test_{name}.py", PROJECT / "tests"),), quick=quick))
    monkeypatch.setattr(run, "parts", lambda: list(marks))
    monkeypatch.setattr("tests.run.leash.hold", lambda: None)
    monkeypatch.setattr("tests.run.signal.signal", lambda *_: None)
    assert run.main(["--quick", "-q", "-p", "no:cacheprovider"]) == 0
    assert [(tmp_path / name).exists() for name in ("slow", "fast")] == [False, True]
    assert "the quick part: " in capsys.readouterr().out


@pytest.mark.parametrize("target", ["walk", "stories"])
def test_a_target_runs_its_parts_and_the_suite_does_not(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For `make walk` and `make stories`."""
    recipe = subprocess.run(["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"python -m tests\.run --{target}( -rs)?$", recipe, re.MULTILINE)
    mine = [part for part in run.parts() if part.only == f"--{target}"]
    assert mine
    assert all((PROJECT / "tests" / path).is_file() for part in mine for path in part.paths)
    marks = []
    for name, only in (("usual", ""), ("own", f"--{target}")):
        mark = tmp_path / name
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    open({str(mark)!r}, 'w').close()\n")
        marks.append(run.Part(paths=(os.path.relpath(tmp_path / f"test_{name}.py", PROJECT / "tests"),), only=only))
    monkeypatch.setattr("tests.run.leash.hold", lambda: None)
    monkeypatch.setattr("tests.run.signal.signal", lambda *_: None)
    for options, ran in (([f"--{target}"], [False, True]), ([], [True, False])):
        monkeypatch.setattr(run, "parts", lambda: [dataclasses.replace(part) for part in marks])
        assert run.main([*options, "-q", "-p", "no:cacheprovider"]) == 0
        assert [(tmp_path / name).exists() for name in ("usual", "own")] == ran
        for name in ("usual", "own"):
            (tmp_path / name).unlink(missing_ok=True)
    assert "the whole suite: " in capsys.readouterr().out

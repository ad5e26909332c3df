"""The parts of the suite: `make test` runs each file once, `make quick` some of them."""

from __future__ import annotations

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

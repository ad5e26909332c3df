"""`make test` runs every test file, and each once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hyperpod_ray_sandbox import leash
from tests import run

TESTS = run.PROJECT / "tests"


def covers(part: run.Part, file: Path) -> bool:
    def below(paths: tuple[str, ...]) -> bool:
        return any(file.is_relative_to(TESTS / path) for path in paths)

    return below(part.paths) and not below(part.without)


def test_every_file_is_in_one_part() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    assert len(files) > 150
    parts = run.parts()
    assert {
        str(file): [p.name for p in parts if covers(p, file)]
        for file in files
        if sum(covers(p, file) for p in parts) != 1
    } == {}


def test_every_path_exists() -> None:
    for part in run.parts():
        for path in (*part.paths, *part.without):
            assert (TESTS / path).exists(), path


def test_a_part_that_fails_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown option of pytest's, in one of three parts."""
    good = [run.Part(paths=("environments",)), run.Part(paths=("lifecycle",))]
    monkeypatch.setattr(run, "parts", lambda: [*good, run.Part(paths=("no-such-folder",))])
    monkeypatch.setattr(leash, "hold", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run.main(["-q", "--collect-only"]) == 1
    out = capsys.readouterr().out
    assert "tests/environments: passed in " in out
    assert "tests/no-such-folder: failed in " in out
    assert "the suite: " in out

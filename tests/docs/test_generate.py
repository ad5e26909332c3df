"""Generated files are what their sources give today."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from docs import generate

SLOW = {"speed.yaml"}
"""What takes seconds. `tests/planner/test_fitting.py` has the same in less time: with the constants of the file."""
GENERATED = [
    pytest.param(file, text, id=file.name, marks=[pytest.mark.slow] if file.name in SLOW else [])
    for file, text in generate.generated()
]


@pytest.mark.parametrize(("file", "text"), GENERATED)
def test_each_generated_file_is_fresh(file: Path, text: Callable[[], str]) -> None:
    assert file.read_text(encoding="utf-8") == text(), "run .venv/bin/python -m docs.generate"


def test_a_stale_file_is_named_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other, page = tmp_path / "other.md", tmp_path / "new" / "page.md"
    other.write_text("stays", encoding="utf-8")
    monkeypatch.setattr(generate, "PROJECT", tmp_path)
    monkeypatch.setattr(generate, "generated", lambda: iter([(page, lambda: "fresh"), (other, lambda: "fresh")]))
    assert generate.main(["--check", "page"]) == generate.STALE
    expected = "new/page.md: stale. Expected what its source gives. Fix: python -m docs.generate\n"
    assert capsys.readouterr().err == expected
    assert not page.exists()
    assert generate.main(["page"]) == 0
    assert (page.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("fresh", "stays")
    assert generate.main(["--check", "page"]) == 0

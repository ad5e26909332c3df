"""What `test_plan.py`, `test_pictures.py`, `test_writing.py` share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "environments"
    made.mkdir()
    for name in ("prod", "dev"):
        shutil.copy(PROJECT / "environments" / f"{name}.yaml", made / f"{name}.yaml")
    return made


RUN = ("--model", "llama-3.1-70b", "--tokens", "1T", "--no-deploy")


def figure(data: dict[str, Any], answer: str, what: str) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = [row for row in data["answers"][answer]["figures"] if row["what"] == what]
    return row

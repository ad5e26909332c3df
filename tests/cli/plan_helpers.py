"""What `test_plan.py`, `test_pictures.py`, `test_writing.py` share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "environments"
    made.mkdir()
    for name in ("prod", "dev"):
        shutil.copy(PROJECT / "environments" / f"{name}.yaml", made / f"{name}.yaml")
    return made

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.jobs import packing


def test_a_folder_that_ray_would_refuse_is_not_uploaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(packing, "PACKAGE_LIMIT_MIB", 0)
    with pytest.raises(OpsError, match=r"packs to 0 MiB\. Expected at most 0"):
        packing.pack(tmp_path)


def test_without_git_caches_are_not_packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    caches = ("__pycache__", ".venv", ".git", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache")
    for name in ("train.py", "data/a", *(f"{cache}/a" for cache in caches), "data/__pycache__/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.setattr("hyperpod_ray.ops.jobs.packing.shutil", SimpleNamespace(which=lambda _: None))
    assert [path.relative_to(tmp_path).as_posix() for path in packing.files_of(tmp_path)] == ["data/a", "train.py"]

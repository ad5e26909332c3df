from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from hyperpod_ray.core import project, yaml_text


def test_caches_go_to_the_users_folder_where_the_checkout_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperpod_ray.core import project

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "checkout").mkdir()
    assert project.cache("x") == tmp_path / "xdg" / "hyperpod-ray" / "x"  # no project here
    (tmp_path / "checkout" / "cdk.json").touch()
    monkeypatch.chdir(tmp_path / "checkout")
    assert project.cache("x") == tmp_path / "checkout" / ".cache" / "x"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert project.cache("x") == tmp_path / "xdg" / "hyperpod-ray" / "x"
    (tmp_path / "checkout" / ".cache" / "x").mkdir(parents=True)
    assert project.cache("x") == tmp_path / "checkout" / ".cache" / "x"


@pytest.mark.parametrize("name", project.LOCKS)
def test_lock_files_are_read_as_pyyaml_reads_them(name: str) -> None:
    text = (project.PACKAGE / "locks" / name).read_text(encoding="utf-8")
    assert yaml_text.load(text) == yaml.safe_load(text)

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


def holding(folder: Path) -> Path:
    """A folder of environment files below another."""
    inner = folder / "environments"
    inner.mkdir(parents=True)
    (inner / "dev.yaml").write_text("account: x\nregion: y\nhyperpod: {}\n", encoding="utf-8")
    return inner


def test_the_nearest_folder_of_environment_files_is_the_projects_or_the_only_one(tmp_path: Path) -> None:
    outer = holding(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert project.environments(below) == outer
    inner = holding(tmp_path / "a")
    with pytest.raises(project.FolderError) as refused:
        project.environments(below)
    assert str(refused.value).startswith(f"2 folders of environment files: {inner}, {outer}. Expected one, or cdk.json")
    assert "Fix: give hyperpod-ray --environments FOLDER" in str(refused.value)
    (tmp_path / "a" / "cdk.json").touch()
    assert project.environments(below) == inner


def test_there_is_none_where_no_folder_holds_environment_files(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    assert project.environments(tmp_path) is None


def test_a_lock_file_is_written_in_a_project(tmp_path: Path) -> None:
    assert project.to_write(tmp_path, "charts.lock.yaml") == tmp_path / "charts.lock.yaml"
    with pytest.raises(project.FolderError, match="belongs to a project, and there is none"):
        project.to_write(None, "charts.lock.yaml")

"""A checkpoint that somebody else can have written is not unpickled: its state runs what its writer put into it."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from hyperpod_ray_training import folder as folders
from hyperpod_ray_training.folder import RunFolder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files change hands: root only")
NAME = "step-00000099-abcdef"
SOMEBODY = 23191


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run's folder with one whole checkpoint of this user."""
    dcp.save({"a": torch.ones(2), "b": pickle.dumps({"own": 1})}, checkpoint_id=tmp_path / NAME, no_dist=True)
    yield tmp_path
    os.chown(tmp_path, 0, 0)


def test_a_checkpoint_of_this_user_is_taken(run: Path) -> None:
    folder = RunFolder(str(run))
    assert (folder.why_unusable(NAME), folder.why_foreign(NAME)) == (None, None)
    (run / NAME).chmod(0o775)  # its group is trusted
    assert folder.why_foreign(NAME) is None


@pytest.mark.parametrize("place", ["", NAME, f"{NAME}/.metadata", f"{NAME}/__0_0.distcp"])
def test_a_place_of_somebody_else_is_not(run: Path, place: str) -> None:
    os.chown(run / place, SOMEBODY, SOMEBODY)
    reason = RunFolder(str(run)).why_foreign(NAME)
    assert reason is not None
    assert f"is of user {SOMEBODY}, and this process of user 0" in reason


@pytest.mark.parametrize("place", ["", NAME, f"{NAME}/__0_0.distcp"])
def test_a_place_that_everybody_writes_is_not(run: Path, place: str) -> None:
    path = run / place
    path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWOTH)
    reason = RunFolder(str(run)).why_foreign(NAME)
    assert reason == f"foreign: everybody may write {path}"


def test_a_shared_folder_in_which_nobody_renames_anothers_is_taken(run: Path) -> None:
    run.chmod(0o1777)
    assert RunFolder(str(run)).why_foreign(NAME) is None


def test_a_link_to_somebody_elses_file_is_not(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    planted = tmp_path_factory.mktemp("elsewhere") / "planted"
    planted.write_bytes((run / NAME / "__0_0.distcp").read_bytes())
    os.chown(planted, SOMEBODY, SOMEBODY)
    (run / NAME / "__0_0.distcp").unlink()
    (run / NAME / "__0_0.distcp").symlink_to(planted)
    reason = RunFolder(str(run)).why_foreign(NAME)
    assert reason is not None
    assert f"is of user {SOMEBODY}" in reason


def test_a_link_of_somebody_else_is_not(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Who has the link may point it elsewhere, whoever has what it points at now: symlink(7)."""
    own = tmp_path_factory.mktemp("elsewhere") / "own"
    (run / NAME / "__0_0.distcp").rename(own)
    link = run / NAME / "__0_0.distcp"
    link.symlink_to(own)
    assert RunFolder(str(run)).why_foreign(NAME) is None
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    reason = RunFolder(str(run)).why_foreign(NAME)
    assert reason == f"foreign: {link} is of user {SOMEBODY}, and this process of user 0"


def test_a_link_to_what_everybody_writes_is_not(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    planted = tmp_path_factory.mktemp("elsewhere") / "planted"
    planted.write_bytes(b"")
    planted.chmod(0o666)
    (run / NAME / "more").symlink_to(planted)
    reason = RunFolder(str(run)).why_foreign(NAME)
    assert reason == f"foreign: everybody may write {run / NAME / 'more'}"


def test_a_file_system_that_gives_all_files_to_one_user_says_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this process writes there is not its own either."""
    os.chown(run / NAME, SOMEBODY, SOMEBODY)
    monkeypatch.setattr(folders, "_tells_owners", lambda _: False)
    assert RunFolder(str(run)).why_foreign(NAME) is None


def test_owners_are_told_by_a_file_of_this_process(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders._tells_owners(str(run))
    assert folders._tells_owners(str(run / "nothing"))
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    assert not folders._tells_owners(str(run))

"""What a run's folder takes for a checkpoint, and what it may delete, judged without a training."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from hyperpod_ray_training.folder import METADATA, POINTER, SNAPSHOT, RunFolder

NAME, ATTEMPT = "step-00000004-aaaaaa", "bbbbbb"
PART, CONTENT = "__0_0.distcp", b"weights" * 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run with one whole checkpoint: `.metadata` names one file, whose CRC-32 is noted."""
    place = tmp_path / NAME
    place.mkdir()
    (place / METADATA).write_bytes(b"")
    (place / PART).write_bytes(CONTENT)
    (place / "checksums-0.json").write_text(json.dumps({PART: zlib.crc32(CONTENT)}), encoding="utf-8")
    monkeypatch.setattr(RunFolder, "files_of", lambda *_: {PART: len(CONTENT)})
    return RunFolder(str(tmp_path))


def test_a_whole_checkpoint_counts(folder: RunFolder) -> None:
    assert folder.why_unusable(NAME) is None
    assert folder.spoilt_files(NAME, rank=0, world=1) == []


def test_a_file_that_was_cut_short_does_not_count(folder: RunFolder) -> None:
    Path(folder.at(NAME, PART)).write_bytes(CONTENT[:-1])
    assert folder.why_unusable(NAME) == f"{PART} has {len(CONTENT) - 1} bytes, {len(CONTENT)} expected"


def test_a_file_that_is_gone_does_not_count(folder: RunFolder) -> None:
    Path(folder.at(NAME, PART)).unlink()
    assert folder.why_unusable(NAME) == f"{PART} is missing"


def test_a_bit_that_flipped_is_damage(folder: RunFolder) -> None:
    Path(folder.at(NAME, PART)).write_bytes(b"W" + CONTENT[1:])
    (problem,) = folder.spoilt_files(NAME, rank=0, world=1)
    assert problem.startswith(f"{PART} has CRC-32 ")


def test_a_file_without_a_note_is_damage(folder: RunFolder) -> None:
    Path(folder.at(NAME, "checksums-0.json")).write_text("{}", encoding="utf-8")
    assert folder.spoilt_files(NAME, rank=0, world=1) == [f"{PART} has no CRC-32 noted in checksums-N.json"]


def test_only_what_nobody_needs_is_deleted(folder: RunFolder, tmp_path: Path) -> None:
    """Ray refuses to start where its snapshot names a checkpoint that is gone."""
    unfinished, named, of_this_attempt = ("step-00000005-cccccc", "step-00000006-dddddd", f"step-00000007-{ATTEMPT}")
    for name in (unfinished, named, of_this_attempt):
        (tmp_path / name).mkdir()
    snapshot = {"ray_version": "2", "checkpoint_results": [{"checkpoint_dir_name": named}]}
    (tmp_path / SNAPSHOT).write_text(json.dumps(snapshot), encoding="utf-8")
    assert folder.remove_unfinished(keep_attempt=ATTEMPT) == [unfinished]
    assert sorted(path.name for path in tmp_path.glob("step-*")) == sorted([NAME, named, of_this_attempt])


def test_what_a_tier_holds_is_not_emptied_to_make_room(folder: RunFolder, tmp_path: Path) -> None:
    """Its folder has a pointer alone, which takes no room: without it nothing says what memory and S3 have."""
    older = [f"step-{step:08}-aaaaaa" for step in (1, 2)]
    for name in older:
        (tmp_path / name).mkdir()
        (tmp_path / name / POINTER).write_text("{}", encoding="utf-8")
    folder.make_room(keep=1)
    assert [name for name in older if folder.why_unusable(name) is None] == older
    assert folder.why_unusable(NAME) is None, "the newest"
    folder.make_room(keep=0)
    assert folder.why_unusable(NAME) is not None


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_the_ranks_look_at_every_file_and_at_each_once(
    world: int, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has become smaller has more files of a checkpoint than ranks."""
    files = [f"__{rank}_0.distcp" for rank in range(5)]
    monkeypatch.setattr(RunFolder, "files_of", lambda *_: dict.fromkeys(files, 1))
    Path(folder.at(NAME, "checksums-0.json")).write_text("{}", encoding="utf-8")
    said = [problem for rank in range(world) for problem in folder.spoilt_files(NAME, rank=rank, world=world)]
    assert sorted(said) == [f"{file} has no CRC-32 noted in checksums-N.json" for file in files]

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.folder import RunFolder, check_writable
from hyperpod_ray_training.room import advice
from hyperpod_ray_training.saving import reasons

QUOTA, DISK = OSError(errno.EDQUOT, "Disk quota exceeded"), OSError(errno.ENOSPC, "No space left on device")


def test_the_page_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "teams.md").read_text(encoding="utf-8")
    monkeypatch.setattr(os, "geteuid", lambda: 23191)
    monkeypatch.setattr(Path, "is_mount", lambda place: str(place) == "/fsx")
    printed = (
        f"last error: save failed at step 6: {' '.join(reasons(QUOTA))}. To make room, {advice(QUOTA, '/fsx/runs/a')}"
    )
    assert printed in page.splitlines()


def test_a_run_is_not_started_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(str(tmp_path / "runs" / "first"))

    def no_room(*_: object) -> None:
        raise QUOTA

    monkeypatch.setattr(folder.fs, "pipe_file", no_room)
    with pytest.raises(InputError, match=r"cannot be written \(Disk quota exceeded\).*Fix: delete runs .*lfs setquota"):
        check_writable(folder)

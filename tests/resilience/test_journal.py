"""The writer of a journal keeps what its events add up to; tests/ops/test_one_truth.py compares all who read it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from hyperpod_ray_training import journal as writer
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.history import History
from hyperpod_ray_training.journal import Journal


def up_to(folder: Path, most_bytes: int) -> History:
    summary = History()
    summary.take_up(folder / "events.jsonl", most_bytes=most_bytes)
    return summary


def test_the_writer_keeps_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run's process writes is what a reader of all lines would find."""
    clock = iter(range(1_790_000_000, 1_800_000_000))
    monkeypatch.setattr(writer, "_wall_clock", lambda: float(next(clock)))
    journal = writer.Journal(RunFolder(str(tmp_path)), name="a")
    driver = writer.Journal(RunFolder(str(tmp_path)), name="a")
    driver.event("start", role="driver")
    driver.update(at_once=True, state="starting")
    for step in range(1, 50):
        journal.event("step", step=step, loss=1.0, world=2)
        journal.update(at_once=step % 10 == 0, last_step=step)
    driver.event("error", role="driver", message="x")
    driver.update(at_once=True, state="failed")
    kept = History.kept(json.loads((tmp_path / "progress.json").read_text())["history"])
    assert kept.summary() == up_to(tmp_path, 1 << 40).summary()
    assert kept.counts == {"start": 1, "step": 49, "error": 1}


def test_a_run_on_object_storage_has_its_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_790_000_000, 1_800_000_000))
    monkeypatch.setattr(writer, "_wall_clock", lambda: float(next(clock)))
    folder = RunFolder("memory://bucket/runs/a")
    driver = writer.Journal(folder, name="a")
    driver.event("start", role="driver")
    driver.update(at_once=True, state="starting")
    worker = writer.Journal(folder, name="a")
    for step in range(1, 31):
        worker.event("step", step=step, loss=1.0, world=4)
    worker.update(at_once=True, last_step=30, state="running")
    driver.progress |= driver._read()  # as `Run.train` does when training has ended
    driver.event("error", role="driver", message="gone")
    driver.update(at_once=True, state="failed")
    progress = json.loads(folder.fs.cat_file(folder.at("progress.json")))
    kept = History.kept(progress["history"])
    assert kept.counts == {"start": 1, "step": 30, "error": 1}
    assert kept.seconds["training"] == 29 and kept.useful_ranks == 29 * 4


def test_a_summary_that_fails_stops_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = writer.Journal(RunFolder(str(tmp_path)), name="a")
    monkeypatch.setattr(History, "take_up", lambda *_, **__: 1 / 0)
    journal.event("step", step=1)
    journal.update(at_once=True, last_step=1)
    assert json.loads((tmp_path / "progress.json").read_text())["last_step"] == 1


def test_a_state_has_the_moment_it_began(tmp_path: Path) -> None:
    journal = Journal(RunFolder(str(tmp_path)), name="first")
    journal.update(at_once=True, state="running")
    began = journal.progress["state_t"]
    journal.update(at_once=True, state="running", last_step=1)
    assert journal.progress["state_t"] == began
    journal.progress["state_t"] = 1.0
    journal.update(at_once=True, state="saving")
    assert journal.progress["state_t"] > 1.0


QUOTA, DISK = OSError(errno.EDQUOT, "Disk quota exceeded"), OSError(errno.ENOSPC, "No space left on device")


def test_a_full_quota_of_the_journal_is_told_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Room for half a line, then for none, then for all: neither raises, and later lines are whole."""
    journal = Journal(RunFolder(str(tmp_path)), name="first")
    journal.update(at_once=True, state="running", last_step=1)
    before = (tmp_path / "progress.json").read_bytes()
    write, rest = os.write, iter([8])

    def full(handle: int, content: bytes) -> int:
        room = next(rest, 0)
        if not room:
            raise QUOTA
        return write(handle, content[:room])

    def no_room(*_: object) -> int:
        raise QUOTA

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr(Path, "write_bytes", no_room)
        for step in (1, 2):
            journal.event("step", step=step, loss=1.0)
        journal.update(at_once=True, last_step=2)
    assert (tmp_path / "progress.json").read_bytes() == before, "the last whole one stays"
    assert not list(tmp_path.glob(".progress*"))
    told = capsys.readouterr().err
    assert told.count("not written (Disk quota exceeded); training continues without it. To make room, ") == 1
    assert f"lfs setquota -u {os.geteuid()} -B SIZE" in told
    for step in (3, 4):
        journal.event("step", step=step, loss=1.0)
    journal.update(at_once=True, last_step=4)
    assert json.loads((tmp_path / "progress.json").read_text())["last_step"] == 4
    history = History()
    history.take_up(tmp_path / "events.jsonl")
    assert history.highest == 4
    assert history.counts["step"] == 2, "3 stands behind half a line and is read"

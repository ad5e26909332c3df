"""How many failed saves in a row a run takes, and a full quota, without a training."""

from __future__ import annotations

import errno
import json
import os
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.checkpoint.api import CheckpointException

from hyperpod_ray_training.errors import InputError, Unrecoverable
from hyperpod_ray_training.folder import RunFolder, check_writable
from hyperpod_ray_training.history import History
from hyperpod_ray_training.journal import Journal
from hyperpod_ray_training.room import advice
from hyperpod_ray_training.saving import BROKEN, NO_ROOM, WRITTEN, Save, Saver, reasons


def saver() -> Any:
    quiet = SimpleNamespace(event=lambda *_, **__: None, update=lambda **_: None)
    folder = SimpleNamespace(
        at=lambda *parts: "/".join(parts), url="/fsx/runs/a", path="/fsx/runs/a", remove_failed=lambda _: None
    )
    holder: Any = object.__new__(Saver)
    holder.__dict__.update(
        run=SimpleNamespace(settings=SimpleNamespace(save_failure_limit=3)), folder=folder, journal=quiet, tier=None,
        ranks=SimpleNamespace(rank=0, world=1), report=lambda *_: None, saved_step=-1, failures=0, last_save_s=0.0,
    )  # fmt: skip
    return holder


def settle(holder: Any, step: int, *, error: Exception | None = None) -> float:
    """A save that ended here with an error, or well; what this rank says of it."""
    future: Future[Any] = Future()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(None)
    holder.in_flight = Save(f"step-{step:08}-aaaaaa", step, "interval", {}, future, time.monotonic())
    outcome = float(holder.outcome_here)
    holder.settle(outcome=outcome)
    return outcome


IO = OSError(errno.EIO, "Input/output error")
QUOTA, DISK = OSError(errno.EDQUOT, "Disk quota exceeded"), OSError(errno.ENOSPC, "No space left on device")


def of_ranks(**errors: Exception) -> CheckpointException:
    """What DCP raises on every rank where some could not write their part."""
    return CheckpointException("write", {int(rank[1:]): (error, []) for rank, error in errors.items()})


def test_a_save_between_two_failures_begins_the_count_again() -> None:
    holder = saver()
    for step, error in enumerate([IO, IO, None, IO, IO]):
        settle(holder, step, error=error)
    assert (holder.saved_step, holder.failures) == (2, 2)


def test_three_in_a_row_end_the_run() -> None:
    holder = saver()
    settle(holder, 1)
    for step in (2, 3):
        settle(holder, step, error=IO)
    with pytest.raises(Unrecoverable, match=r"3 saves in a row failed.*step 1, the newest complete checkpoint"):
        settle(holder, 4, error=IO)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (QUOTA, NO_ROOM),
        (of_ranks(r0=QUOTA, r3=DISK), NO_ROOM),
        (of_ranks(r0=QUOTA, r3=IO), BROKEN),
        (RuntimeError("enforce fail"), BROKEN),
        (None, WRITTEN),
    ],
)
def test_only_a_full_quota_is_no_end(error: Exception | None, outcome: float) -> None:
    holder = saver()
    assert settle(holder, 1, error=error) == outcome
    assert holder.failures == (outcome == BROKEN)


def test_a_rank_with_a_good_part_hears_of_another_that_had_no_room() -> None:
    holder = saver()
    for step in range(5):
        future: Future[Any] = Future()
        future.set_result(None)
        holder.in_flight = Save(f"step-{step:08}-aaaaaa", step, "interval", {}, future, time.monotonic())
        holder.settle(outcome=NO_ROOM)
    assert (holder.saved_step, holder.failures) == (-1, 0)


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

"""The writer of a journal keeps what its events add up to; tests/ops/test_one_truth.py compares all who read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyperpod_ray_training import journal as writer
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.history import History


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

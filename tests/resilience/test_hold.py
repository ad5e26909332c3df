"""A rehearsal holds the ranks at the start of a step, and nobody counts them as hung in that time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_training import faults
from hyperpod_ray_training.faults import HOLD, FaultHooks
from hyperpod_ray_training.resumable import Resumable


class Loop:
    """As much of a training as the start of a step looks at."""

    def __init__(self, folder: Path) -> None:
        self.done: list[str] = []
        self.hooks = FaultHooks(folder=folder, rank=0, announce=lambda *_, **__: None)
        self.complete = SimpleNamespace(step_begins=lambda *_: self.done.append("begins"))
        self.step = 3

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        self.done.append("waits")
        yield
        self.done.append("continues")

    def about_to_step(self) -> None:
        step: Any = Resumable.about_to_step
        step(self)


def test_a_rank_waits_unhurried_until_the_file_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.SWITCH, "1")
    waiting = threading.Event()

    def sleep(seconds: float) -> None:
        waiting.set()
        threading.Event().wait(min(seconds, 0.01))

    monkeypatch.setattr("hyperpod_ray_training.faults.time.sleep", sleep)
    (tmp_path / HOLD).touch()
    loop = Loop(tmp_path)
    rank = threading.Thread(target=loop.about_to_step, daemon=True)
    rank.start()
    assert waiting.wait(120)
    assert loop.done == ["waits"]
    (tmp_path / HOLD).unlink()
    rank.join(120)
    assert loop.done == ["waits", "continues", "begins"]
    loop.about_to_step()
    assert loop.done[3:] == ["begins"]


def test_without_the_switch_of_rehearsals_nothing_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.SWITCH, raising=False)
    (tmp_path / HOLD).touch()
    loop = Loop(tmp_path)
    loop.about_to_step()
    assert loop.done == ["begins"]


@pytest.mark.parametrize(("done", "waits"), [(2, False), (3, True), (4, True)])
def test_a_rank_waits_once_it_has_done_so_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int, waits: bool
) -> None:
    monkeypatch.setenv(faults.SWITCH, "1")
    (tmp_path / HOLD).write_text("3")
    monkeypatch.setattr("hyperpod_ray_training.faults.time.sleep", lambda _: (tmp_path / HOLD).unlink())
    loop = Loop(tmp_path)
    loop.step = done
    loop.about_to_step()
    assert loop.done == (["waits", "continues", "begins"] if waits else ["begins"])

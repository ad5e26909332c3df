"""How long a rehearsal waits for its run. No Ray; the clock is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal import scene as module
from rehearsal.events import Event
from rehearsal.options import Options
from rehearsal.scene import NotRecoveredError, Scene


class Made(Scene):
    """A scene whose run makes a step a turn, and whose turns last six seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, steps: bool) -> None:
        self.options, self.turns, self.steps = Options(fault_timeout_s=10), 0, steps
        self.tails: Any = {"run": None}
        self.watcher: Any = SimpleNamespace(status="RUNNING", message="")
        clock = SimpleNamespace(time=lambda: 6.0 * self.turns, sleep=lambda _: None)
        monkeypatch.setattr(module, "time", clock)

    def pump(self, *_: Any, **__: Any) -> list[Event]:
        self.turns += 1
        return [Event(t=0.0, kind="step" if self.steps else "start")]

    def wait(self, doing: str) -> None:
        self.until("run", None, lambda _: self.turns == 9, doing=doing)  # type: ignore[arg-type]


def test_a_run_that_only_has_to_finish_has_time_as_long_as_it_makes_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    Made(monkeypatch, steps=True).wait("finishing")
    for steps, doing in [(False, "finishing"), (True, "recovering from node")]:
        with pytest.raises(NotRecoveredError, match=rf"timed out {doing}. Expected less than 10 s"):
            Made(monkeypatch, steps=steps).wait(doing)

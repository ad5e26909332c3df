"""How long a rehearsal waits for its run. No Ray; the clock is made up."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal import loopback_run as module
from hyperpod_ray_sandbox.rehearsal.job import STANDBY
from hyperpod_ray_sandbox.rehearsal.loopback_run import NotRecoveredError, Scene
from hyperpod_ray_sandbox.rehearsal.options import Options
from hyperpod_ray_sandbox.rehearsal.ray_hosts import isolation
from hyperpod_ray_training import standby
from hyperpod_ray_training.history import Event


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


def test_the_driver_is_not_its_standby() -> None:
    assert standby.NAME == STANDBY
    wait = "import sys; from pathlib import Path; Path('/proc/self/comm').write_text(sys.argv[1]); sys.stdin.read()"
    names = ["python", STANDBY]
    processes = [
        subprocess.Popen([sys.executable, "-c", wait, name, "train.py", "--name", "run"], stdin=subprocess.PIPE)
        for name in names
    ]
    try:
        pids = [process.pid for process in processes]
        deadline = time.monotonic() + 600
        while [isolation.process_name(pid) for pid in pids] != names:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        scene = Scene.__new__(Scene)
        scene.under_way = ("run", None)  # type: ignore[assignment]
        scene.cluster = SimpleNamespace(alive_pods=lambda: ["pod"], find=lambda *_: pids)  # type: ignore[assignment]
        assert scene.driver() == pids[0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

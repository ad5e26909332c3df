"""The guard's process: when it ends, what it retries, and what ends it when it is stuck."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.guard import __main__ as process
from hyperpod_ray.guard.kubernetes import KubernetesError

PROJECT = Path(__file__).resolve().parents[2]


class Turns:
    """A guard whose turns are given; after the last one, the process is told to end."""

    turns: list[Exception | None]

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def turn(self) -> None:
        if not self.turns:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)  # the handler ends it here
        if error := self.turns.pop(0):
            raise error


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("NODE_NAME", "hyperpod-i-0a")
    monkeypatch.setattr(process, "Guard", Turns)
    monkeypatch.setattr(process, "Kubernetes", lambda folder: folder)
    monkeypatch.setattr(process, "RETRY_SECONDS", 0)
    previous = signal.getsignal(signal.SIGTERM)
    words = ["--cluster", "ml-a", "--region", "us-west-2", "--endpoint", "https://api", "--not-ready-seconds", "30"]
    words += ["--ready-file", str(tmp_path / "ready"), "--service-account", str(tmp_path)]
    monkeypatch.setattr(process, "_end", _ends(previous))
    return words


def _ends(previous: Any) -> Any:
    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, previous)
        raise SystemExit(0)

    return end


def test_each_turn_has_a_limit_that_ends_the_process(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        "faulthandler.dump_traceback_later",
        lambda seconds, *, exit: limits.append((seconds, exit)),
    )  # fmt: skip
    Turns.turns = [None, None]
    with pytest.raises(SystemExit) as ended:
        process.main(arguments)
    assert ended.value.code == 0
    assert limits == [(240, True)] * 3, "a process that is stuck ends, and the kubelet starts another"


def test_without_kubernetes_it_is_not_ready_and_asks_again(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faulthandler.dump_traceback_later", lambda *_, **__: None)
    Turns.turns = [KubernetesError(503, "no answer"), None, KubernetesError(503, "no answer")]
    (tmp_path / "ready").touch()
    with pytest.raises(SystemExit):
        process.main(arguments)
    assert Turns.turns == []
    assert not (tmp_path / "ready").exists()


def test_outside_of_a_pod_it_ends_with_2(tmp_path: Path) -> None:
    words = ["--cluster", "a", "--region", "us-west-2", "--endpoint", "https://api", "--not-ready-seconds", "30"]
    words += ["--ready-file", str(tmp_path / "ready"), "--service-account", str(tmp_path / "none")]
    done = subprocess.run(
        [sys.executable, "-m", "hyperpod_ray.guard", *words], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "not in a pod of the guard" in done.stderr
    assert "Traceback" not in done.stderr

"""Ranks that torchrun started, without Ray's controller: signals, checkpoints to keep, the limit of a collective."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import Run, Settings, torchrun
from hyperpod_ray_training.folder import RunFolder

Start = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ["--save-every-steps", "1000000"]
MANY = "1000000"


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    written = run / "events.jsonl"
    lines = written.read_text().splitlines() if written.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one, while it is written
            continue
    return [event for event in found if event["kind"] == kind]


def when(run: Path, check: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """Do something once a run has come so far."""

    def wait() -> None:
        deadline = time.monotonic() + 900
        while not check():
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def send(run: Path, number: signal.Signals) -> None:
    """To rank 0 alone: it is the one whose process the journal names."""
    workers = [event for event in events(run, "start") if event.get("role") == "worker"]
    os.kill(int(workers[-1]["pid"]), number)


@pytest.mark.slow
def test_sigusr1_saves_and_sigterm_saves_and_leaves_on_every_rank_at_the_same_step(
    run_job: Start, tmp_path: Path
) -> None:
    run = tmp_path / "asked"
    saving = when(run, lambda: len(events(run, "step")) >= 3, lambda: send(run, torchrun.SAVE))
    leaving = when(run, lambda: len(events(run, "save")) >= 1, lambda: send(run, torchrun.LEAVE))
    done = run_job("classify", "--name", "asked", "--steps", MANY, *SMALL, ranks=2, check=False)
    saving.join()
    leaving.join()
    assert done.returncode == torchrun.LEFT, done.stderr[-3000:]
    saves = events(run, "save")
    assert [event["reason"] for event in saves] == ["signal", "leave"]
    assert [event["signal"] for event in events(run, "drain")] == ["SIGUSR1", "SIGTERM"]
    last = events(run, "step")[-1]["step"]
    assert saves[-1]["step"] == last, "no step was done after the last save"

    total = str(last + 20)
    run_job("classify", "--name", "asked", "--steps", total, *SMALL, ranks=2)
    run_job("classify", "--name", "calm", "--steps", total, *SMALL, ranks=2)
    assert [event["step"] for event in events(run, "restore")] == [last]

    def losses(name: str) -> dict[int, float]:
        return {event["step"]: event["loss"] for event in events(tmp_path / name, "step")}

    assert losses("asked") == losses("calm")


@pytest.mark.slow
def test_the_newest_checkpoints_stay_where_no_controller_prunes(run_job: Start, tmp_path: Path) -> None:
    run_job("classify", "--name", "kept", "--steps", "12", "--save-every-steps", "2", "--keep", "2", "--save", "sync",
            ranks=2)  # fmt: skip
    assert sorted(int(path.name.split("-")[1]) for path in (tmp_path / "kept").glob("step-*")) == [10, 12]


def folder_with(tmp_path: Path, metrics: dict[int, float | None]) -> RunFolder:
    """Complete checkpoints with a metric each."""
    folder = RunFolder(str(tmp_path / "run"))
    for step, value in metrics.items():
        name = f"step-{step:08d}-abcdef"
        folder.note(name, "about.json", {"metrics": {"loss": value} if value is not None else {}})
    return folder


@pytest.mark.parametrize(
    ("keep", "best", "stay"),
    [
        (None, None, {1, 2, 3, 4}),
        (2, None, {3, 4}),
        (1, ("loss", "min"), {2, 4}),
        (2, ("loss", "min"), {2, 3, 4}),
        (1, ("loss", "max"), {1, 4}),
    ],
)
def test_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int | None, best: tuple[str, str] | None, stay: set[int]
) -> None:
    folder = folder_with(tmp_path, {1: 0.9, 2: 0.1, 3: 0.2, 4: None})
    monkeypatch.setattr(folder, "why_unusable", lambda _: None)
    torchrun.prune(folder, Run(storage=str(tmp_path), name="run", best=best, settings=Settings()), keep=keep)
    assert {found.step for found in folder.checkpoints()} == stay


def test_nothing_goes_that_is_unfinished_or_that_ray_answers_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, {1: 0.9, 2: 0.1, 3: 0.2, 4: 0.3})
    unfinished, named = "step-00000001-abcdef", "step-00000002-abcdef"
    monkeypatch.setattr(folder, "why_unusable", lambda name: "unfinished" if name == unfinished else None)
    snapshot = type("Snapshot", (), {"names": frozenset({named})})()
    monkeypatch.setattr(folder, "snapshot", lambda: snapshot)
    removed = torchrun.prune(folder, Run(storage=str(tmp_path), name="run", settings=Settings()), keep=1)
    assert removed == ["step-00000003-abcdef"]


def test_leaving_outweighs_saving_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (torchrun.SAVE, torchrun.LEAVE)}
    try:
        torchrun.listen()
        assert torchrun.heard() is None
        os.kill(os.getpid(), torchrun.SAVE)
        assert [torchrun.heard(), torchrun.heard()] == [torchrun.SAVE, None]
        os.kill(os.getpid(), torchrun.SAVE)
        os.kill(os.getpid(), torchrun.LEAVE)
        assert [torchrun.heard(), torchrun.heard()] == [torchrun.LEAVE, torchrun.LEAVE]
    finally:
        torchrun._heard.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_node_has_slurms_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert torchrun.node() == "local"
    monkeypatch.setenv("SLURMD_NODENAME", "ip-10-0-1-23")
    assert torchrun.node() == "ip-10-0-1-23"

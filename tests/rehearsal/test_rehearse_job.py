"""The undisturbed run is ended, however busy the machine is: its end must not hide why a rehearsal failed."""

from __future__ import annotations

import signal
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperpod_ray_sandbox.rehearsal import job
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from tests.support.emulator import until

PROJECT = Path(__file__).resolve().parents[2]
STUBBORN = """#!/bin/sh
echo $RESILIENCE_PROCESS_GROUP_TIMEOUT_S > "$0.limit"
trap '' TERM
sleep 3600 &
echo $! > "$0.child"
wait
wait
"""


def test_one_that_takes_no_sigterm_is_killed_with_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(STUBBORN)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(job, "GRACE_S", 0.5)
    twin = job.Undisturbed(
        job.Job(name="finetune", project=PROJECT, steps=1, interval=1, step_delay_s=0.1, workers="2"),
        bin_folder=tmp_path, storage=tmp_path / "fsx",
    )  # fmt: skip
    child = Path(f"{python}.child")
    rank = int(until(lambda: child.exists() and child.read_text()))
    assert int(Path(f"{python}.limit").read_text()) >= 900, "a rank that waits is short of processor time, not lost"
    with pytest.raises(LocalError, match=r"stands still at step 0\. Expected a step within 0\.1 s"):
        twin.events(timeout_s=0.1)
    assert twin.process.returncode == -signal.SIGKILL
    until(lambda: not alive(rank))


def test_one_that_is_slow_has_all_the_time_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a busy suite it is as slow as the machine: each event gives it the whole time again."""
    python, end = tmp_path / "python", tmp_path / "end"
    python.write_text(f"#!/bin/sh\nwhile [ ! -e {end} ]; do sleep 0.1; done\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    twin = job.Undisturbed(
        job.Job(name="finetune", project=PROJECT, steps=1, interval=1, step_delay_s=0.1, workers="2"),
        bin_folder=tmp_path, storage=tmp_path / "fsx",
    )  # fmt: skip
    events = tmp_path / "fsx" / "undisturbed" / "events.jsonl"
    events.parent.mkdir()
    clock = [0.0]

    def sleep(_: float) -> None:
        clock[0] += 3.0
        with events.open("a") as stream:
            stream.write('{"kind": "step", "t": 1.0, "step": 1, "loss": 2.0}\n')
        if clock[0] > 15.0:
            end.touch()
            twin.process.wait()

    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    assert len(twin.events(timeout_s=5.0)) == 6


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

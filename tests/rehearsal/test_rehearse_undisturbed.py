"""The undisturbed run is ended, however busy the machine is: its end must not hide why a rehearsal failed."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest

from rehearsal import job
from rehearsal.ray_hosts.errors import LocalError
from tests.support.emulator import until

PROJECT = Path(__file__).resolve().parents[2]
STUBBORN = "#!/bin/sh\ntrap '' TERM\nsleep 600 &\necho $! > \"$0.child\"\nwait\nwait\n"


def test_one_that_takes_no_sigterm_is_killed_with_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(STUBBORN)
    torchrun.chmod(torchrun.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(job, "GRACE_S", 0.5)
    twin = job.Undisturbed(
        job.Job(name="finetune", project=PROJECT, steps=1, interval=1, step_delay_s=0.1, workers="2"),
        bin_folder=tmp_path, storage=tmp_path / "fsx",
    )  # fmt: skip
    child = Path(f"{torchrun}.child")
    rank = int(until(lambda: child.exists() and child.read_text()))
    with pytest.raises(LocalError, match=r"did not end\. Expected its end within 0\.1 s"):
        twin.events(timeout_s=0.1)
    assert twin.process.returncode == -signal.SIGKILL
    until(lambda: not alive(rank))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

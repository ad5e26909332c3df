"""What a command or a test run started ends with it, however it ends; what `up` started stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperpod_ray_sandbox import leash
from tests.support.emulator import until

PROJECT = Path(__file__).resolve().parents[2]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]

# starts a child, and a grandchild that detaches as a daemon does; waits
HOLDER = """
import signal, subprocess, sys, time
from hyperpod_ray_sandbox import leash
for number in (signal.SIGINT, signal.SIGHUP):  # a run in the background or under nohup ignores them, and so would this
    signal.signal(number, signal.SIG_DFL)
leash.hold()
leash.hold()
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
detached = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], start_new_session=True, stdout=s.DEVNULL).pid)"
child = subprocess.Popen(sleep)
grandchild = subprocess.run([sys.executable, "-c", detached, *sleep], stdout=subprocess.PIPE, text=True).stdout
print(child.pid, grandchild.strip(), flush=True)
time.sleep({seconds})
"""

# pytest that has set up its fixtures and then never ends
HANGING = """
import pathlib, time, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    pathlib.Path({ready!r}).touch()
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def holder(seconds: float) -> tuple[subprocess.Popen[str], list[int]]:
    code = HOLDER.replace("{seconds}", str(seconds))
    process = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_what_was_started_ends_with_the_one_that_was_signalled(number: signal.Signals) -> None:
    process, started = holder(600)
    assert len(started) == 2
    assert all(alive(pid) for pid in started)
    process.send_signal(number)
    process.wait(timeout=600)
    until(lambda: not any(alive(pid) for pid in started))


def test_what_was_started_ends_with_the_one_that_returned() -> None:
    process, started = holder(0)
    assert process.wait(timeout=600) == 0
    until(lambda: not any(alive(pid) for pid in started))


def test_a_process_that_takes_no_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    environment = {**os.environ, leash.VARIABLE: "other,mine"}
    process = subprocess.Popen([sys.executable, "-c", stubborn], env=environment, stdout=subprocess.PIPE)
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, leash.VARIABLE: "mine-too"})
    assert process.stdout is not None
    process.stdout.readline()
    monkeypatch.setattr(leash, "PATIENCE_SECONDS", 0.5)
    try:
        assert leash.carriers("mine") == [process.pid]
        leash.end("mine")
        assert process.wait(timeout=600) == -signal.SIGKILL
        assert other.poll() is None, "the mark of another command"
    finally:
        for started in (process, other):
            started.kill()
            started.wait()


# what macOS prints for `ps -axEww -o pid=,command=`: command line and environment in one line, of living processes
PS = """#!/bin/sh
[ "$*" = "-axEww -o pid=,command=" ] || exit 1
echo "    1 /sbin/launchd"
kill -0 {pid} 2> /dev/null && echo "{pid} /usr/bin/python3 serve.py HOME=/Users/a {variable}=other,mine LANG=C"
kill -0 {other} 2> /dev/null && echo "{other} /bin/sleep 600 {variable}=mine-too"
exit 0
"""


def test_without_proc_ps_lists_who_carries_a_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on macOS, by a `ps` that prints what that one prints."""
    marked, other = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    ps = tmp_path / "ps"
    ps.write_text(PS.format(pid=marked.pid, other=other.pid, variable=leash.VARIABLE))
    ps.chmod(0o755)
    monkeypatch.setattr(leash, "_PROC", tmp_path / "proc")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    reaper = threading.Thread(target=marked.wait)  # `kill -0` finds a child that nobody waited for
    reaper.start()
    try:
        assert leash.carriers("mine") == [marked.pid]
        leash.end("mine")
        reaper.join(timeout=600)
        assert marked.returncode == -signal.SIGTERM
        assert leash.carriers("mine") == []
        assert other.poll() is None, "the mark of another command"
    finally:
        for started in (marked, other):
            started.kill()
            started.wait()


def test_without_pidfd_the_end_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, which has no `os.pidfd_open`."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = subprocess.Popen(["sleep", "600"])
    reading, writing = os.pipe()
    follower = threading.Thread(target=leash._follow, args=(process.pid, writing), daemon=True)
    follower.start()
    assert os.read(reading, 16) == b"ready\n"
    os.close(reading)
    assert follower.is_alive()
    process.kill()
    process.wait()
    follower.join(timeout=600)
    assert not follower.is_alive()


def test_this_run_s_own_processes_carry_its_mark() -> None:
    assert os.environ[leash.VARIABLE]
    assert leash.inherited() == {leash.VARIABLE: os.environ[leash.VARIABLE]}


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[bytes], Path]]]:
    """Starts pytest on one test and waits until its fixtures are set up; it then hangs in the test."""
    runs = []

    def start(test: str) -> tuple[subprocess.Popen[bytes], Path]:
        ready, base = tmp_path / "ready", tmp_path / "base"
        (tmp_path / "hanging.py").write_text(HANGING.format(ready=str(ready)))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "hanging",
            "-p",
            "no:cacheprovider",
            f"--basetemp={base}",
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment.get("PYTHONPATH", "")])
        with (tmp_path / "log").open("wb") as log:
            run = subprocess.Popen(
                [*command, f"--basetemp={base}", test], cwd=PROJECT, env=environment, stdout=log, stderr=log
            )
        runs.append(run)
        until(lambda: ready.exists() or run.poll() is not None)
        assert ready.exists(), (tmp_path / "log").read_text()
        return run, base

    yield start
    for run in runs:
        run.kill()
        run.wait()


@pytest.mark.emulator
def test_a_killed_test_run_leaves_no_emulator(
    interrupted: Callable[[str], tuple[subprocess.Popen[bytes], Path]],
) -> None:
    run, base = interrupted("tests/sandbox/aws/test_control_plane.py")
    state = next(base.rglob("state.json"))
    record = json.loads(state.read_text())
    started = [record["pid"], record["kubernetes_pid"]]
    assert all(alive(pid) for pid in started)
    run.kill()
    run.wait()
    until(lambda: not any(alive(pid) for pid in started))

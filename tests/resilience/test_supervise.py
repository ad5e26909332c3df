"""The supervisor with real processes: what starts again, what ends the job, and what a stop reaches."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperpod_ray_training.standby import NAME
from hyperpod_ray_training.supervise import SOON_S, Supervisor, main

ROOT = Path(__file__).resolve().parents[2]

# counts its starts in a file, then does what the start's number says
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
count = Path(sys.argv[1])
count.write_text(count.read_text() + "x" if count.exists() else "x")
what = sys.argv[1 + len(count.read_text())]
if what == "wait":
    Path(sys.argv[1] + ".pid").write_text(str(os.getpid()))
    time.sleep(3600)
if what.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, what))
sys.exit(int(what))
"""


class Clock:
    """Seconds that pass only where the supervisor sleeps, and by `work_s` at each look."""

    def __init__(self, *, work_s: float = 0.0) -> None:
        self.now, self.work_s, self.slept = 0.0, work_s, list[float]()

    def __call__(self) -> float:
        self.now += self.work_s
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def _supervise(folder: Path, *whats: str, limit: int = 5, work_s: float = 0.0) -> tuple[int, int, list[float]]:
    count, clock = folder / "count", Clock(work_s=work_s)
    command = [sys.executable, "-c", SCRIPT, str(count), *whats]
    code = Supervisor(command, limit=limit, sleep=clock.sleep, clock=clock).run()
    return code, len(count.read_text()), clock.slept


def test_a_script_that_ends_is_not_started_again(tmp_path: Path) -> None:
    assert _supervise(tmp_path, "0") == (0, 1, [])


def test_an_error_of_the_script_is_the_job_s(tmp_path: Path) -> None:
    assert _supervise(tmp_path, "3", "0") == (3, 1, [])


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT"])
def test_a_killed_driver_starts_again(tmp_path: Path, number: str) -> None:
    assert _supervise(tmp_path, number, "0") == (0, 2, [])


def test_a_stopped_driver_does_not_start_again(tmp_path: Path) -> None:
    assert _supervise(tmp_path, "SIGTERM", "0") == (128 + signal.SIGTERM, 1, [])


def test_losses_soon_after_the_start_end_the_job(tmp_path: Path) -> None:
    code, starts, slept = _supervise(tmp_path, *["SIGKILL"] * 5, "0", limit=3)
    assert (code, starts, slept) == (137, 3, [0.5])


def test_a_driver_that_worked_for_long_may_be_lost_any_number_of_times(tmp_path: Path) -> None:
    code, starts, slept = _supervise(tmp_path, *["SIGKILL"] * 5, "0", limit=2, work_s=SOON_S + 1)
    assert (code, starts, slept) == (0, 6, [])


def test_without_a_limit_it_never_gives_up(tmp_path: Path) -> None:
    assert _supervise(tmp_path, *["SIGKILL"] * 5, "0", limit=0)[:2] == (0, 6)


def _wait_for(path: Path) -> int:
    deadline = time.monotonic() + 600
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


def _start(folder: Path, *whats: str) -> subprocess.Popen[bytes]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "hyperpod_ray_training.supervise", str(script), str(folder / "count"), *whats]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_a_stop_of_the_job_reaches_the_driver_and_nothing_starts_again(tmp_path: Path) -> None:
    with _start(tmp_path, "wait", "0") as process:
        pid = _wait_for(tmp_path / "count.pid")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 128 + signal.SIGTERM
        assert _gone(pid)
        assert (tmp_path / "count").read_text() == "x"


def test_a_killed_driver_says_so_in_the_job_s_log(tmp_path: Path) -> None:
    with _start(tmp_path, "wait", "0") as process:
        os.kill(_wait_for(tmp_path / "count.pid"), signal.SIGKILL)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0
        assert b"the driver was killed by SIGKILL; it starts again at once" in errors


def test_no_driver_outlives_its_supervisor(tmp_path: Path) -> None:
    with _start(tmp_path, "wait") as process:
        pid = _wait_for(tmp_path / "count.pid")
        process.kill()
        process.wait(timeout=600)
        assert _gone(pid)


# as `hyperpod_ray_training.standby` does, without what takes seconds to import
STANDBY = """
import sys
from pathlib import Path
from hyperpod_ray_training import standby
standby.MODULES = ("colorsys", "there.is.none")
import os
Path(sys.argv[2] + ".standby").write_text(str(os.getpid()))
sys.exit(standby.main(sys.argv[1:]))
"""


def _with_standby(folder: Path, *whats: str, code: str = STANDBY) -> Supervisor:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    given = [str(script), str(folder / "count"), *whats]
    standby = [sys.executable, "-c", code, *given]
    return Supervisor([sys.executable, *given], limit=0, standby=standby, standby_after_s=0.05)


def _kill_when(folder: Path, supervisor: Supervisor, path: str) -> threading.Thread:
    """SIGKILL to the driver once a file is there."""

    def kill() -> None:
        standby = _wait_for(folder / path)
        if Path(f"/proc/{standby}").exists():
            _until(lambda: _name(standby) == NAME)
            (folder / "count.names").write_text(_name(standby))
        os.kill(_wait_for(folder / "count.pid"), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.usefixtures("importable")
def test_the_standby_is_the_next_driver(tmp_path: Path) -> None:
    supervisor = _with_standby(tmp_path, "wait", "SIGKILL", "7")
    _kill_when(tmp_path, supervisor, "count.standby")
    assert supervisor.run() == 7
    assert (tmp_path / "count.names").read_text().split() == ["driver-standby"]
    assert (tmp_path / "count").read_text() == "xxx"
    # no standby of the last driver, which ended at once, is left
    assert _gone(_wait_for(tmp_path / "count.standby"))


@pytest.mark.usefixtures("importable")
def test_a_standby_that_ended_is_replaced_by_a_new_process(tmp_path: Path) -> None:
    # it hears the call, and ends without an answer
    dead = 'import sys; open(sys.argv[2] + ".standby", "w").write("999999999"); sys.stdin.readline()'
    supervisor = _with_standby(tmp_path, "wait", "0", code=dead)
    _kill_when(tmp_path, supervisor, "count.standby")
    assert supervisor.run() == 0
    assert (tmp_path / "count").read_text() == "xx"


@pytest.mark.usefixtures("importable")
def test_a_standby_ends_with_the_driver_that_needs_it_no_more(tmp_path: Path) -> None:
    # with its number in it: the standby may be ended between the two
    script = (
        "import sys, time, pathlib\nfile = pathlib.Path(sys.argv[2] + '.standby')\n"
        "while not file.exists() or not file.read_text(): time.sleep(0.02)"
    )
    supervisor = _with_standby(tmp_path, "0")
    supervisor.command = [sys.executable, "-c", script, "", str(tmp_path / "count")]
    assert supervisor.run() == 0
    assert _gone(_wait_for(tmp_path / "count.standby"))


@pytest.mark.usefixtures("importable")
def test_a_standby_ends_with_its_supervisor(tmp_path: Path) -> None:
    code = (
        "import sys; from hyperpod_ray_training.supervise import Supervisor; import json; "
        "a = json.loads(sys.argv[1]); Supervisor(a[0], limit=0, standby=a[1], standby_after_s=0.05).run()"
    )
    made = _with_standby(tmp_path, "wait")
    given = json.dumps([made.command, made.standby_command])
    with subprocess.Popen([sys.executable, "-c", code, given]) as process:
        pid = _wait_for(tmp_path / "count.standby")
        process.kill()
        process.wait(timeout=600)
        assert _gone(pid)


LOOK = """
import json, os, sys
import beside_the_script
assert open("/proc/self/comm").read().strip() != "driver-standby"
print(json.dumps([__name__, sys.argv[1:], sys.path[0], sys.stdin.read(), "colorsys" in sys.modules, __file__]))
raise ValueError("from the script")
"""


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.usefixtures("importable")
def test_a_standby_runs_the_script_as_python_does(tmp_path: Path, go: bool) -> None:
    (tmp_path / "beside_the_script.py").touch()
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    code = STANDBY.replace("Path(sys.argv[2]", f'Path("{tmp_path}/count"')
    way, its = socket.socketpair()
    with way, its:
        command = [sys.executable, "-c", code, str(script), "--name", "a"]
        if go:
            way.sendall(b"go\n")
        way.shutdown(socket.SHUT_WR)
        done = subprocess.run(command, stdin=its.fileno(), capture_output=True, text=True, check=False)
        its.close()
        assert way.recv(100) == (b"taken\n" if go else b"")
    if not go:
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return
    assert json.loads(done.stdout) == ["__main__", ["--name", "a"], str(tmp_path), "", True, str(script)]
    assert done.returncode == 1
    assert "ValueError: from the script" in done.stderr


@pytest.mark.parametrize(
    ("setting", "arguments", "stands_by"),
    [("true", ["train.py"], True), ("false", ["train.py"], False), ("true", ["-m", "train"], False)],
)
def test_when_a_standby_is_kept(
    monkeypatch: pytest.MonkeyPatch, setting: str, arguments: list[str], stands_by: bool
) -> None:
    monkeypatch.setenv("RESILIENCE_STANDBY_DRIVER", setting)
    seen: list[Supervisor] = []

    def run(self: Supervisor) -> int:
        seen.append(self)
        return 0

    monkeypatch.setattr(Supervisor, "run", run)
    assert main(arguments) == 0
    expected = [sys.executable, "-m", "hyperpod_ray_training.standby", *arguments] if stands_by else []
    assert seen[0].standby_command == expected


def test_without_a_script_it_shows_its_usage() -> None:
    command = [sys.executable, "-m", "hyperpod_ray_training.supervise"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage: python -m hyperpod_ray_training.supervise SCRIPT" in done.stderr


def test_an_invalid_setting_is_one_message(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hyperpod_ray_training.supervise", "train.py"]
    env = {**os.environ, "RESILIENCE_CRASH_LOOP_LIMIT": "x"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "RESILIENCE_CRASH_LOOP_LIMIT: 'x'. Expected int" in done.stderr

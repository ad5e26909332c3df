"""Ends what a command started when the command is gone, however it ended: by SIGKILL and by a closed terminal as well.

`hold()` marks this process's environment, which everything it starts inherits, and starts a watchdog: a process of its
own, with Python's standard library only. When the process that called `hold` ends, the watchdog ends every process that
carries the mark. A process with a composed environment carries it by `inherited()`.

Commands that leave something running on purpose (`up`) do not call this. Their processes carry the mark of whoever
called them, if any.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "SANDBOX_ENDS_WITH"
SEPARATOR = ","
PATIENCE_SECONDS = 5.0
_PROC = Path("/proc")


def hold() -> None:
    """Let everything that this process starts from now on end with it. A second call does nothing."""
    prefix = f"{os.getpid()}-"
    if any(mark.startswith(prefix) for mark in _marks(os.environ)):
        return
    mark = prefix + secrets.token_hex(8)
    unmarked = {name: value for name, value in os.environ.items() if name != VARIABLE}
    os.environ[VARIABLE] = SEPARATOR.join([*_marks(os.environ), mark])
    # -I -S: it starts at once and imports nothing of the folder it is started in
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark],
        env=unmarked,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    # it says when it watches; from then on no end of this process is missed
    assert watchdog.stdout is not None  # noqa: S101  (narrowing only)
    watchdog.stdout.readline()
    watchdog.stdout.close()
    watchdog.returncode = 0  # nobody waits for it, and nobody is warned about that


def inherited() -> dict[str, str]:
    """Return what a composed environment must contain so that its process ends with the one that holds it."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def carriers(mark: str) -> list[int]:
    """Return the processes that carry a mark."""
    return [pid for pid, environment in _environments() if mark in _marks(environment) and pid != os.getpid()]


def end(mark: str) -> None:
    """End every process that carries a mark: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + PATIENCE_SECONDS
        signalled: set[int] = set()
        while (pids := carriers(mark)) and time.monotonic() < deadline:
            for pid in pids:
                # SIGKILL again and again: one that was being forked is seen by the next look only
                if pid not in signalled or number == signal.SIGKILL:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                        os.kill(pid, signal.SIGCONT)  # a stopped process takes no SIGTERM
            signalled.update(pids)
            time.sleep(0.05)


def _marks(environment: Mapping[str, str]) -> list[str]:
    return [mark for mark in environment.get(VARIABLE, "").split(SEPARATOR) if mark]


def _environments() -> Iterator[tuple[int, Mapping[str, str]]]:
    """Processes and, of their environment, the variable with the marks."""
    name = VARIABLE + "="
    if not (_PROC / "self").exists():  # macOS: `ps` prints the environment after the command line
        listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], capture_output=True, text=True, check=False)
        for line in listing.stdout.splitlines():
            pid, *words = line.split()
            for word in words:
                if word.startswith(name):
                    yield int(pid), {VARIABLE: word.removeprefix(name)}
        return
    for process in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for variable in (process / "environ").read_bytes().decode(errors="replace").split("\0"):
                if variable.startswith(name):
                    yield int(process.name), {VARIABLE: variable.removeprefix(name)}


def _follow(pid: int, ready: int) -> None:
    """Return when a process has ended."""
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return
    except OSError:  # an old kernel
        handle = None
    os.write(ready, b"ready\n")
    os.close(ready)
    if handle is not None:
        select.select([handle], [], [])
        return
    while _lives(pid):
        time.sleep(0.5)


def _lives(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def main(pid: str, mark: str) -> None:
    """Watch a process; when it ends, end what carries the mark."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _follow(int(pid), sys.stdout.fileno())
    end(mark)


if __name__ == "__main__":
    main(*sys.argv[1:])

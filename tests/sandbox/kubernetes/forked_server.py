"""Servers forked from a process that has imported the server: importing is nine tenths of a server's start.

Run by `.venv-emulator`. What the command `python -m hyperpod_ray_sandbox.kubernetes.server` itself does, the servers of
the fixture `empty` show.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


class ForkedServer:
    """A server as a process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, python: Path, arguments: Sequence[str], *, log: Path) -> None:
        self._forks = _forks(python)
        self.pid = self._ask({"arguments": list(arguments), "log": str(log)})
        self._descriptor = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def _ask(self, request: object) -> int:
        assert self._forks.stdin
        assert self._forks.stdout
        self._forks.stdin.write(json.dumps(request) + "\n")
        self._forks.stdin.flush()
        return int(self._forks.stdout.readline())

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._end(timeout=0)

    def wait(self, timeout: float) -> int:
        """Its exit code, when it has ended."""
        code = self._end(timeout=timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked server", timeout)
        return code

    def _end(self, *, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._descriptor], [], [], timeout)[0]:
            self.returncode = self._ask({"ended": self.pid})
            os.close(self._descriptor)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)


@functools.cache
def _forks(python: Path) -> subprocess.Popen[str]:
    """The process that forks; it ends when its input does."""
    forks = subprocess.Popen(
        [str(python), "-m", "tests.sandbox.kubernetes.forked_server"],
        cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert forks.stdin
    atexit.register(forks.wait)
    atexit.register(forks.stdin.close)
    return forks


def serve() -> None:
    """Fork a server for each line of input and print its process ID, or print the exit code of one that has ended."""
    from hyperpod_ray_sandbox.kubernetes import server

    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif (answer := os.fork()) == 0:
            code = 70
            try:
                log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
                    os.dup2(descriptor, number)
                code = server.main(request["arguments"])
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(answer, flush=True)


if __name__ == "__main__":
    serve()

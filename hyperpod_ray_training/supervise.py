"""A driver that comes back without a new submission: `python -m hyperpod_ray_training.supervise train.py ARGUMENTS`.

Ray marks a job as failed when the process of its entrypoint is lost, for example to the out-of-memory killer. The
supervisor is that process: it imports neither Ray nor torch, starts the script, and starts it again when a signal
killed it. The script resumes from the newest checkpoint, as after a second submission. A standby has imported Ray and
torch by then (`hyperpod_ray_training.standby`; about 0.5 GB of memory, `RESILIENCE_STANDBY_DRIVER=false` does without).

It does not help when the node of the driver is lost, because the supervisor runs there too. A RayJob with a
`backoffLimit` covers that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.settings import Settings
from hyperpod_ray_training.standby import GO, TAKEN

LOST = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
STOPS = (signal.SIGTERM, signal.SIGINT)
SOON_S = 60.0
STANDBY_AFTER_S = 10.0
"""The standby imports when the driver no longer does."""
TAKES_OVER_S = 60.0
"""A standby that still imports is waited for this long, as its imports are those of a new process."""
PR_SET_PDEATHSIG = 1


class Supervisor:
    """Runs a command until it ends by itself.

    Args:
        command: Program and arguments.
        limit: So many losses in a row, each within `SOON_S` seconds of the start, end the job; 0 = never.
        standby: Command of a process that becomes the next driver when it reads `standby.GO` on stdin and
            answers there. Default: none.
        standby_after_s: Seconds that a driver has lived before its standby starts.
        sleep: Waits between two starts.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        limit: int,
        standby: Sequence[str] = (),
        standby_after_s: float = STANDBY_AFTER_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.command, self.limit, self.sleep, self.clock = list(command), limit, sleep, clock
        self.standby_command, self.standby_after_s = list(standby), standby_after_s
        self.child: subprocess.Popen[bytes] | None = None
        self.standby: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self.stopping = False

    def run(self) -> int:
        """Start the command, again where a signal killed it, and return its exit code (128 + signal for a signal)."""
        before = {number: signal.signal(number, self._stop) for number in STOPS}
        try:
            return self._until_ended()
        finally:
            self._dismiss()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _until_ended(self) -> int:
        soon = 0
        while True:
            started = self.clock()
            self.child = self._next()
            if self.stopping:  # the signal came before there was a child to hand it to
                self.child.terminate()
            code = self._wait(self.child)
            number = -code
            if self.stopping or number not in LOST:
                return code if code >= 0 else 128 + number
            soon = soon + 1 if self.clock() - started < SOON_S else 1
            name = signal.Signals(number).name
            if self.limit and soon >= self.limit:
                log(f"the driver was killed by {name} {soon} times in a row, each within {SOON_S:g} s; the job ends")
                return 128 + number
            # a first loss is not a loop, and training stands still
            pause = 0.0 if soon == 1 else min(0.5 * 2.0 ** (soon - 2), 30.0)
            log(f"the driver was killed by {name}; it starts again {f'in {pause:g} s' if pause else 'at once'}")
            if pause:
                self.sleep(pause)
            if self.stopping:
                return 128 + number

    def _next(self) -> subprocess.Popen[bytes]:
        """The standby where it takes over, else a new process."""
        if self.standby is not None:
            (process, way), self.standby = self.standby, None
            with way, contextlib.suppress(OSError):  # it has ended, or does not answer
                way.settimeout(TAKES_OVER_S)
                way.sendall(GO)
                if way.recv(len(TAKEN)) == TAKEN:
                    return process
            process.kill()
            process.wait()
        return _start(self.command)

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        """The child's exit code; a standby starts once the child has lived for a while."""
        if self.standby_command:
            try:
                return child.wait(timeout=self.standby_after_s)
            except subprocess.TimeoutExpired:
                way, its = socket.socketpair()
                with its:
                    self.standby = _start(self.standby_command, stdin=its.fileno()), way
        return child.wait()

    def _dismiss(self) -> None:
        if self.standby is not None:
            process, way = self.standby
            way.close()
            process.kill()
            process.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.child is not None and self.child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.child.send_signal(number)


def _start(command: Sequence[str], *, stdin: int | None = None) -> subprocess.Popen[bytes]:
    # safe: this process has one thread
    return subprocess.Popen(command, stdin=stdin, preexec_fn=partial(_end_with, os.getpid()))  # noqa: PLW1509


def _end_with(parent: int) -> None:
    """In the child: SIGKILL when the supervisor ends, so that no driver trains on without a job."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request
        os._exit(1)


def main(arguments: Sequence[str]) -> int:
    """Exit code of the script; 2 without a script or with an invalid setting."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        print("Usage: python -m hyperpod_ray_training.supervise SCRIPT [ARGUMENTS…]", file=sys.stderr)
        return 0 if arguments else 2
    try:
        settings = Settings.from_env()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # an option of the interpreter (-m, -c) is not a script that a standby can run
    stands_by = settings.standby_driver and not arguments[0].startswith("-")
    return Supervisor(
        [sys.executable, *arguments],
        limit=settings.crash_loop_limit,
        standby=[sys.executable, "-m", "hyperpod_ray_training.standby", *arguments] if stands_by else (),
    ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

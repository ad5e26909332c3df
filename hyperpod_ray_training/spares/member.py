"""A worker's side of the connection to the coordinator: it beats, hears, and ends on request.

The beat is a thread of its own, so that a process that computes for minutes still beats, and a process that was stopped
(SIGSTOP, a frozen machine) does not. A fence is obeyed by that thread too: it kills the process, because the main
thread of a rank that hangs cannot be reached.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.members import BEATS_PER_S
from hyperpod_ray_training.spares.seat import imported_modules

Message = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """What a worker returns to Ray: the ranks of its last generation (0: it had none), and what the loop returned."""

    world: int = 0
    value: Any = None


RECONNECT_S = 60.0
_RETRY_S = 0.2
_LONGEST_LINE = 1 << 20
_FIRST_STEPS = 3
"""After so many steps nothing is imported for the first time, as a rule."""
_PULSE_BEATS = 2
"""The process beside a worker beats half as often: it says that the worker lives, not how far it is."""


class CoordinatorLostError(RuntimeError):
    """The coordinator is gone and does not come back: the run continues from its newest checkpoint."""


@dataclass(kw_only=True)
class Now:
    """Where this process stands; what a beat and a hello say about it."""

    gen: int = -1
    rank: int | None = None
    world: int = 0
    step: int = 0
    busy: int = 0
    saving: bool = False
    warm: bool = False
    seq: Callable[[], int] = field(default=lambda: 0)
    stance: Callable[[float], dict[str, Any]] = field(default=lambda _: {})
    record: Callable[[], dict[str, Any]] = field(default=dict)
    """Keeps what the flight recorder has."""


class Member:
    """One connection, made again when the coordinator was started again.

    Args:
        find: Asks for the coordinator's address; may fail while it is being started.
        token: The coordinator asks for proof of it; it never goes over the network.
        node: This node's address.
        port: Of this process's store.
        order: Ray's rank of this process.
        group: Workers that Ray has started; 0 where that is not known.
        beat_s: Seconds between two beats.
        cut: Called in the connection's thread when a generation ends: makes the main thread's collective raise.
        fence: Ends this process.
        standby: Whether this process has no seat, and waits for that of a lost one on its node.
        seat: What a standby would take over: `hyperpod_ray_training.spares.seat`.
    """

    def __init__(
        self,
        *,
        find: Callable[[], tuple[str, int]],
        token: str,
        node: str,
        port: int,
        order: int,
        group: int = 0,
        beat_s: float,
        cut: Callable[[], None],
        fence: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL),
        standby: bool = False,
        seat: str = "",
    ) -> None:
        self.find, self.token, self.node, self.port, self.order = find, token, node, port, order
        self.group, self.cut, self.fence, self.standby, self.seat = group, cut, fence, standby, seat
        self.beat_s = max(beat_s, group / BEATS_PER_S)
        self.took = 0
        self._first_step: int | None = None
        self._told_modules = standby
        self.uid = f"{node}-{os.getpid()}-{time.monotonic_ns() % 10**9}"
        self.now = Now()
        self.newest_gen = -1
        self.move_asked = self.resize_asked = False
        self.over = threading.Event()
        self._inbox: deque[Message] = deque()
        self._heard = threading.Condition()
        self._sending = threading.Lock()
        self._socket: socket.socket | None = None
        self._pulse: subprocess.Popen[bytes] | None = None
        self._connect()
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name=f"resilience{work.__name__}", daemon=True).start()

    # ---- towards the coordinator ----

    def send(self, message_type: str, **fields: Any) -> None:
        """Say something; silently lost while there is no connection, since the next hello says it all again."""
        with self._sending, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.sendall((json.dumps({"type": message_type, **fields}) + "\n").encode())

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While inside, this rank does something that may take long (storage, a validation): it does not hang."""
        self.now.busy += 1
        self._say_beat()  # at once: what comes may keep the next one back
        try:
            yield
        finally:
            self.now.busy -= 1

    def _connect(self) -> None:
        connection = socket.create_connection(self.find(), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shown = pulse.proof(self.token, challenge=pulse.challenged(connection), role="hello", uid=self.uid)
        standing = self.now
        hello = {
            "type": "hello", "proof": shown, "uid": self.uid, "order": self.order, "node": self.node,
            "port": self.port, "pid": os.getpid(), "gen": max(standing.gen, self.newest_gen),
            # a generation that has ended is none that a new coordinator could take up
            "rank": standing.rank if standing.gen >= self.newest_gen else None,
            "warm": standing.warm, "world": standing.world, "group": self.group, "standby": self.standby,
            "seat": self.seat, "took": self.took,
        }  # fmt: skip
        connection.sendall((json.dumps(hello) + "\n").encode())
        with self._sending:
            self._socket = connection
        self._start_pulse(*connection.getpeername()[:2])

    def _start_pulse(self, host: str, port: int) -> None:
        """A process beats beside this one, for times in which Python's lock is taken: see `pulse.py`."""
        self._end_pulse()
        options = {
            "host": host, "port": port, "token": self.token, "uid": self.uid, "pid": os.getpid(),
            "beat_s": self.beat_s * _PULSE_BEATS,
        }  # fmt: skip
        try:
            self._pulse = subprocess.Popen([sys.executable, "-I", "-S", pulse.__file__], stdin=subprocess.PIPE)
            assert self._pulse.stdin is not None  # noqa: S101
            # the token goes there, and not on a command line that everybody can read
            self._pulse.stdin.write((json.dumps(options) + "\n").encode())
            self._pulse.stdin.flush()
        except OSError as error:
            log(f"pulse: {error}; a call that holds Python's lock for long will look like a lost worker")

    def _end_pulse(self) -> None:
        process, self._pulse = self._pulse, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
                process.wait()
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    def _beat(self) -> None:
        while not self.over.wait(self.beat_s):
            fields: dict[str, Any] = {}
            with contextlib.suppress(Exception):  # the groups are being changed by the main thread
                fields["seq"] = self.now.seq()
            with contextlib.suppress(Exception):  # a frame or a file may be gone when it is looked at
                fields |= self.now.stance(time.monotonic())
            self._say_beat(**fields)
            self._say_modules()

    def _say_modules(self) -> None:
        """Once, after the first steps of rank 0: what standbys should have imported."""
        standing = self.now
        if self._told_modules or standing.rank != 0:
            return
        self._first_step = standing.step if self._first_step is None else self._first_step
        if standing.step - self._first_step >= _FIRST_STEPS:
            self._told_modules = True
            self.send("modules", modules=imported_modules())

    def _say_beat(self, **fields: Any) -> None:
        standing = self.now
        self.send("beat", step=standing.step, busy=standing.busy > 0, saving=standing.saving, **fields)

    # ---- from the coordinator ----

    def _listen(self) -> None:
        while not self.over.is_set():
            connection = self._socket
            assert connection is not None  # noqa: S101
            with contextlib.suppress(OSError, ValueError), connection.makefile("r", encoding="utf-8") as lines:
                while line := lines.readline(_LONGEST_LINE):
                    self._hear(json.loads(line))
            if self.over.is_set() or not self._come_back():
                break

    def _come_back(self) -> bool:
        until = time.monotonic() + RECONNECT_S
        while time.monotonic() < until:
            time.sleep(_RETRY_S)
            with contextlib.suppress(Exception):
                self._connect()
                log(f"coordinator: connected again as {self.uid}")
                return True
        self._put({"type": "alone"})
        self.cut()
        return False

    def _hear(self, message: Message) -> None:
        message_type = message.get("type")
        if message_type == "fence":
            self.fence()
            return
        if message_type == "record":
            with contextlib.suppress(Exception):  # a fence follows all the same
                self.send("recorded", rank=self.now.rank, newest=self.now.record())
            return
        if message_type == "move":
            self.resize_asked = bool(message.get("resize", False))
            self.move_asked = True
            return
        if message_type == "over":
            self.over.set()
        if message_type == "abandon":
            self.newest_gen = max(self.newest_gen, int(message["gen"]))
        self._put(message)
        if message_type in {"abandon", "fallback"} and self.now.gen >= 0 and self.newest_gen != self.now.gen:
            self.cut()

    def _put(self, message: Message) -> None:
        with self._heard:
            self._inbox.append(message)
            self._heard.notify_all()

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message for the main thread; None after `timeout` seconds without one."""
        with self._heard:
            if not self._heard.wait_for(lambda: bool(self._inbox), timeout):
                return None
            return self._inbox.popleft()

    def sockets(self) -> set[int]:
        """The descriptor of the connection; it is none of a generation's."""
        connection = self._socket
        return set() if connection is None else {connection.fileno()}

    def close(self) -> None:
        """The run is over for this process."""
        self.over.set()
        self._end_pulse()
        with self._sending, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()

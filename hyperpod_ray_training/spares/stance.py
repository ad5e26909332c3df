"""Where the thread of a loop stands, and for how long: what tells a rank that hangs from one that is at work.

A thread moves where its Python frames change, or where it uses the processor. One that does neither waits for
something. What that is follows from the frame that called, and from the system call under way (`/proc/self/task`).
Somebody at work does not hang: a loop that evaluates, compiles, reads, sleeps or is being debugged. A thread that
waits for a lock or a device, in a process that uses nothing, is the one that may never come back.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from hyperpod_ray_training.hardware import device_is_busy
from hyperpod_ray_training.sources import of_package, of_python

COLLECTIVE, BACKWARD, COPY = "collective", "backward", "copy"
"""Waits for other ranks; may wait for them (DDP does in C++); waits for a copy, which may be large."""
WORK = frozenset({"data", "storage", "compile", "debugger", "sleep", "input", "moves"})
"""Legitimate for as long as it takes: it reads, writes, compiles, sleeps until a moment, or is being looked at."""
LOCK = "lock"
"""Waits for a lock or a device, and its process uses no processor: nobody here will bring it back."""

_LIBRARY = str(Path(__file__).parents[1]) + os.sep
_MARKS = (
    ("debugger", ("/bdb.py", "/pdb.py", "/debugpy/", "/pydevd", "/IPython/core/debugger")),
    ("data", ("/torch/utils/data/", "/torchdata/", "/ray/data/", "/datasets/", "/webdataset/", "/pyarrow/")),
    ("storage", ("/torch/distributed/checkpoint/", "/torch/serialization", "/fsspec/", "/s3fs/", "/safetensors/")),
    (
        "compile",
        (
            "/torch/_dynamo/convert_frame", "/torch/_dynamo/symbolic_convert", "/torch/_inductor/compile_fx",
            "/torch/_inductor/async_compile", "/torch/_inductor/codecache", "/torch/_inductor/select_algorithm",
            "/torch/_inductor/compile_worker", "/triton/compiler", "/triton/runtime/autotuner",
        ),
    ),
    (COLLECTIVE, ("/torch/distributed/",)),
    (BACKWARD, ("/torch/autograd/", "/torch/nn/parallel/distributed")),
)  # fmt: skip
_OWN = {
    "ranks.py": COLLECTIVE, "spares/neighbour.py": COPY, "spares/memory.py": COPY, "spares/wires.py": COPY,
    "spares/snapshot.py": COPY, "spares/side_stream.py": COPY,
    "rows.py": "data", "batches.py": "data", "saving.py": "storage", "restoring.py": "storage", "folder.py": "storage",
    "writers.py": "storage", "tiered.py": "storage", "merging.py": "storage", "journal.py": "storage",
}  # fmt: skip
"""What this library's own files wait for."""
_BUSY_SHARE = 0.2
DEVICE_S = 10.0
"""A thread that uses the processor at one place for so long, while its GPU is never idle, waits for a stuck kernel."""
# https://man7.org/linux/man-pages/man2/syscalls.2.html: numbers differ by architecture
_CALLS: dict[str, dict[str, tuple[int, ...]]] = {
    "x86_64": {
        "sleep": (35, 230), "lock": (202, 449),
        "input": (0, 1, 7, 17, 19, 20, 23, 42, 43, 44, 45, 46, 47, 61, 74, 75, 232, 247, 257, 270, 271, 281, 288, 299),
    },
    "aarch64": {
        "sleep": (101, 115), "lock": (98, 449),
        "input": (22, 56, 63, 64, 65, 67, 72, 73, 82, 83, 95, 202, 203, 206, 207, 211, 212, 242, 243, 260),
    },
}  # fmt: skip


class Stance:
    """The stance of one thread, looked at several times a second from another.

    Args:
        thread: Its identifier (`threading.get_ident()`) and its number for the system (`threading.get_native_id()`).
            Default: the calling thread.
    """

    def __init__(self, thread: tuple[int, int] | None = None) -> None:
        self.identifier, self.number = thread or (threading.get_ident(), threading.get_native_id())
        self._clock = time.pthread_getcpuclockid(self.identifier)
        self._calls = _CALLS.get(os.uname().machine, {})
        self._before: tuple[Any, float, float, float] | None = None
        self._moved = 0.0
        self._device_since: float | None = None

    def look(self, now: float) -> dict[str, Any]:
        """Of this moment: `still` (seconds since it last moved), `activity` and `at` (the line that it stands in)."""
        frame = sys._current_frames().get(self.identifier)
        if frame is None:
            return {}
        stack, used, process = _stack(frame), time.clock_gettime(self._clock), time.process_time()
        idle = False
        if self._before is not None and stack == self._before[0]:
            threshold = _BUSY_SHARE * (now - self._before[3])
            idle = process - self._before[2] < threshold
            moved = used - self._before[1] > threshold
            if moved and self._waits_for_device(now):
                self._before = stack, used, process, now
                return {"still": round(now - self._moved, 2), "place": LOCK, "at": _line(frame)}
        else:
            moved, self._device_since = True, None
        self._before = stack, used, process, now
        if moved and self._device_since is None:
            self._moved = now
        activity = "moves" if moved else self._place(frame)
        activity = "process" if activity == LOCK and not idle else activity
        return {"still": round(now - self._moved, 2), "place": activity, "at": _line(frame)}

    def _waits_for_device(self, now: float) -> bool:
        """Whether it has stood at its place for long, and its GPU has been at work at each look."""
        if not device_is_busy():
            self._device_since = None
        elif self._device_since is None:
            self._device_since = now
        return self._device_since is not None and now - self._device_since >= DEVICE_S

    def _place(self, frame: FrameType) -> str:
        caller: FrameType | None = frame
        waits_for_thread = False
        while caller is not None and _is_standard(caller):
            if _marked(caller) == "debugger":
                return "debugger"
            waits_for_thread = waits_for_thread or caller.f_code.co_filename.endswith(f"{os.sep}threading.py")
            caller = caller.f_back
        if caller is None:
            return "unknown"
        file = caller.f_code.co_filename
        activity = _own(caller) or _marked(caller)
        if activity is not None:
            return COPY if activity == COLLECTIVE and _copies(caller) else activity
        called = self._call()
        if called not in {LOCK, "unknown"}:
            return called
        if of_package(file) and not _is_torch(file):
            return "package"
        return "thread" if waits_for_thread else called

    def _call(self) -> str:
        try:
            text = Path(f"/proc/self/task/{self.number}/syscall").read_text()
        except OSError:
            return "unknown"
        token = text.split(maxsplit=1)[0]
        if not token.lstrip("-").isdigit():
            return "moves"  # running
        number = int(token)
        return next((name for name, numbers in self._calls.items() if number in numbers), "unknown")


def _is_standard(frame: FrameType) -> bool:
    """Whether a frame is the standard library's; installed packages lie below it."""
    file = frame.f_code.co_filename
    return of_python(file)


def _own(frame: FrameType) -> str | None:
    """What a file of this library waits for."""
    return _OWN.get(frame.f_code.co_filename.removeprefix(_LIBRARY).replace(os.sep, "/"))


def _copies(frame: FrameType) -> bool:
    """Whether a collective is one of the copies': some frame around it is theirs."""
    caller: FrameType | None = frame
    while caller is not None:
        if _own(caller) == COPY:
            return True
        caller = caller.f_back
    return False


def _is_torch(file: str) -> bool:
    return of_package(file, "torch")


def _marked(frame: FrameType) -> str | None:
    file = frame.f_code.co_filename.replace(os.sep, "/")
    return next((activity for activity, marks in _MARKS if any(mark in file for mark in marks)), None)


def _stack(frame: FrameType) -> tuple[tuple[int, int], ...]:
    """What changes when Python gets on."""
    out, caller = [], frame
    while caller is not None:
        out.append((id(caller), caller.f_lasti))
        caller = caller.f_back  # type: ignore[assignment]
    return tuple(out)


def _line(frame: FrameType) -> str:
    """The innermost line of the user's own code; of a package where there is none."""
    caller: FrameType | None = frame
    while caller is not None:
        file = caller.f_code.co_filename
        if not file.startswith(_LIBRARY) and not of_python(file) and not of_package(file):
            return f"{Path(file).name}:{caller.f_lineno} in {caller.f_code.co_name}"
        caller = caller.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"

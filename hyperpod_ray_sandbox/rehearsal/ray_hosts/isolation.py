"""One process namespace per pod, so that "the machine is gone" is one signal, also for an ordinary user.

A pod with a namespace has a root of its own as well, in which `/fsx` is the cluster's folder (`pod_root.py`).

Three ways, tried in this order at start (`choose`):

1. `pid`: `unshare --pid` as root.
2. `user+pid`: the same inside a user namespace, for an ordinary user (needs unprivileged user namespaces).
3. `session`: no namespace; a pod is its process tree. A process that has left the tree of a dead parent is found by the
   variable `MARKER` in its environment where /proc shows it.

Signals go only to processes that belong to a recorded pod, never to names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hyperpod_ray.core import names
from hyperpod_ray_sandbox.rehearsal.ray_hosts import pod_root

Mode = Literal["pid", "user+pid", "session"]
MARKER = "RAY_ON_HYPERPOD_POD"
_NAMESPACE = ["--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
PREFIXES: dict[Mode, list[str]] = {
    "pid": ["unshare", *_NAMESPACE],
    "user+pid": ["unshare", "--user", "--map-current-user", *_NAMESPACE],
    "session": [],
}
MEANING: dict[Mode, str] = {
    "pid": "one process namespace per pod",
    "user+pid": "one process namespace per pod, inside a user namespace",
    "session": "no process namespaces on this system: a pod is a process tree; a process that detaches can outlive it, "
    f"and {names.MOUNT_PATH} is this machine's own",
}
_PROC = Path("/proc")
_TREE_LIMIT_S = 120.0


def choose() -> Mode:
    """The strongest isolation this system allows, found by trying it."""
    modes: tuple[Mode, ...] = ("pid", "user+pid") if os.geteuid() == 0 else ("user+pid",)
    if shutil.which("unshare"):
        for mode in modes:
            command = [*prefix(mode, fsx=Path("/")), "true"]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return mode
    return "session"


def prefix(mode: Mode, *, fsx: Path) -> list[str]:
    """What a pod's command follows, so that it has its own processes and, at `/fsx`, the folder `fsx`.

    In `session` nothing: `/fsx` is the machine's.
    """
    if mode == "session":
        return []
    to_mount = ["--keep-caps"] if mode == "user+pid" else []
    return [*PREFIXES[mode], *to_mount, sys.executable, "-I", "-S", pod_root.__file__, str(fsx), names.MOUNT_PATH]


@dataclass(frozen=True)
class Process:
    """A process by id and start time, so that a reused id is never signalled."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """The running process `pid`; `started` is 0 where the system does not tell."""
        return cls(pid=pid, started=_start_ticks(pid) or 0)

    @property
    def alive(self) -> bool:
        """Running or stopped; neither gone, nor a zombie, nor another process under the same id."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # reap our own child, else it stays a zombie
        if _PROC.joinpath("self").exists():
            return _start_ticks(self.pid) == self.started
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 0)
            return True
        return False


def _stat(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def _pids() -> list[int]:
    return [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit()] if _PROC.exists() else []


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    if _PROC.joinpath("self").exists():
        for pid in _pids():
            if fields := _stat(pid):
                children[int(fields[1])].append(pid)
    else:
        listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False).stdout
        for line in listing.splitlines():
            pid, parent = map(int, line.split())
            children[parent].append(pid)
    return children


def tree(root: int) -> list[int]:
    """`root` and everything below it, parents first."""
    children, pids = _children(), [root]
    for pid in pids:
        pids.extend(children.get(pid, []))
    return pids


def _marked(marker: str) -> list[int]:
    needle, pids = f"{MARKER}={marker}".encode(), []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if needle in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                pids.append(pid)
    return pids


def members(root: Process, *, mode: Mode, marker: str) -> list[int]:
    """The processes of a pod as this system numbers them, without the `unshare` that holds them.

    Args:
        root: the process started for the pod (`unshare` itself, or `ray start` in `session`).
        mode: how it was started.
        marker: the pod's value of `MARKER`.
    """
    if mode == "session":
        return list(dict.fromkeys([*(tree(root.pid) if root.alive else []), *_marked(marker)]))
    if not root.alive:
        return []  # --kill-child and the namespace: nothing can be left
    return tree(root.pid)[1:]


def command_line(pid: int) -> str:
    """What the process calls itself; empty once it is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def process_name(pid: int) -> str:
    """Its name of up to 15 characters; empty once it is gone."""
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def inner_id(pid: int) -> int | None:
    """A process's id in its own namespace, which is what it knows itself by; None once it is gone."""
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    return int(line.split()[-1]) if line else pid


def send(pids: list[int], number: signal.Signals) -> None:
    """Signal each process that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def destroy(root: Process, *, mode: Mode, marker: str) -> None:
    """End a pod at once, as a power cut does. In a namespace one signal is enough; a tree is stopped first."""
    if mode == "session":
        _destroy_tree(root, marker=marker)
    elif root.alive:
        inside = members(root, mode=mode, marker=marker)
        send(inside[:1] or [root.pid], signal.SIGKILL)
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        os.waitpid(root.pid, 0)


def _destroy_tree(root: Process, *, marker: str) -> None:
    """Stop, then kill, until a look finds nobody: a child that is being forked is seen by the next look only."""
    deadline = time.monotonic() + _TREE_LIMIT_S
    while (pids := members(root, mode="session", marker=marker)) and time.monotonic() < deadline:
        send(pids, signal.SIGSTOP)  # stopped processes cannot fork away
        send(members(root, mode="session", marker=marker), signal.SIGKILL)
        time.sleep(0.02)

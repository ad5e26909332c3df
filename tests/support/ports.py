"""A port for a server that a test starts a moment later and that takes no listening socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

# Below those that the kernel gives to connections (net.ipv4.ip_local_port_range), and beside those of the local
# Kubernetes API: between the choice and the server's start, neither takes one of these.
PORTS = range(26_000, 32_000)
_TAKEN: list[IO[str]] = []


def free_port(host: str = "127.0.0.1") -> int:
    """A port of a host on which nothing listens; no other process that asks here gets it while this one lives."""
    folder = Path(tempfile.gettempdir()) / f"hyperpod-ray-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(PORTS, 100):
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            _TAKEN.append(lock)
            return port
        lock.close()
    raise AssertionError(f"no free port on {host}")

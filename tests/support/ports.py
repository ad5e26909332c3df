"""A port for a server that a test starts a moment later and that takes no listening socket."""

from __future__ import annotations

import contextlib
import random
import socket

# below those that the kernel gives to connections (net.ipv4.ip_local_port_range): between the choice and the server's
# start no connection of another test takes one of these
PORTS = range(20_000, 32_000)


def free_port(host: str = "127.0.0.1") -> int:
    """A port of a host on which nothing listens."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            return port
    raise AssertionError(f"no free port on {host}")

"""Plain connections that copies go over: to the rank that keeps this rank's copies, and from the one it keeps them for.

Gloo has one connection for each pair of ranks, and one thread that reads and writes it. Between two EC2 instances one
connection reaches 5 Gbit/s, 10 in a cluster placement group, however fast the network is
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html), so large copies go over
several at once. Each waits in the kernel for whole chunks: a thread that came back to Python for every megabyte would
take the interpreter from the training loop.

Who connects proves that it has the secret of the run, for these connections and no others. What goes over them is not
encrypted, as nothing is that ranks send each other.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from hyperpod_ray_training.spares.sealed import TAG_BYTES, ForeignError, gathered_messages, seal, unseal

CONNECTIONS = 4
"""At most: a copy of fewer chunks takes fewer."""
CHUNK = 32 << 20
"""Bytes that one connection takes at a time: those that are copied are sent while the rest is copied."""
OPENING_S = 10.0
"""Ranks connect within this; a rank that is lost until then has a successor."""
_ASKED_AGAIN_S = 0.1
_HELLO_S = 1.0
_NONCE_BYTES = 16


@dataclass(frozen=True)
class Ends:
    """Who connects with whom.

    Args:
        rank: This rank.
        world: Ranks.
        distance: From each rank to the one that keeps its copies.
        host: This rank's address.
    """

    rank: int
    world: int
    distance: int
    host: str

    @property
    def to(self) -> int:
        """The rank that keeps this rank's copies."""
        return (self.rank + self.distance) % self.world

    @property
    def source(self) -> int:
        """The rank whose copies this one keeps."""
        return (self.rank - self.distance) % self.world


class Wires:
    """Open connections of one generation.

    Args:
        outgoing: To the rank that keeps this rank's copies.
        incoming: From the rank whose copies it keeps, in the same order.
        limit: Of one chunk.
    """

    def __init__(
        self, *, outgoing: Sequence[socket.socket], incoming: Sequence[socket.socket], limit: timedelta
    ) -> None:
        self.outgoing, self.incoming, self.limit = outgoing, incoming, limit
        for connection in (*outgoing, *incoming):
            connection.setblocking(True)
            # by the kernel: with a limit of Python's own, each piece would come back to the interpreter
            wait = struct.pack("ll", int(limit.total_seconds()), 0)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                connection.setsockopt(socket.SOL_SOCKET, option, wait)

    @classmethod
    def open(
        cls,
        ends: Ends,
        *,
        group: Any,
        secret: str,
        limit: timedelta,
        check: Callable[[], None] = lambda: None,
    ) -> Wires:
        """Connect with both neighbours; all ranks of the group call this together.

        Args:
            ends: Who connects with whom.
            group: Of all ranks; addresses go over it.
            secret: Of the run.
            limit: Of one chunk.
            check: Raises where the generation is over.

        Raises:
            ConnectionError: A neighbour cannot be reached, or does not come.
        """
        family = socket.AF_INET6 if ":" in ends.host else socket.AF_INET
        nonce = secrets.token_hex(_NONCE_BYTES)
        with socket.create_server((ends.host, 0), family=family, backlog=2 * CONNECTIONS) as server:
            own = json.dumps([ends.host, server.getsockname()[1], nonce]).encode()
            places = [json.loads(message) for message in gathered_messages(own, group=group, world=ends.world)]
            host, port, their_nonce = places[ends.to]
            outgoing: list[socket.socket] = []
            incoming: dict[int, socket.socket] = {}
            try:
                for number in range(CONNECTIONS):
                    check()
                    outgoing.append(socket.create_connection((host, port), timeout=OPENING_S))
                    proof = seal(b"", secret=secret, about=_about(ends.rank, number, their_nonce))
                    outgoing[-1].sendall(bytes([number]) + proof)
                _accept_all(server, incoming, secret=secret, source=ends.source, nonce=nonce, check=check)
            except BaseException as error:
                for connection in (*outgoing, *incoming.values()):
                    connection.close()
                if isinstance(error, OSError):
                    raise ConnectionError(f"copies of rank {ends.rank}, to rank {ends.to}: {error}") from error
                raise
        return cls(outgoing=outgoing, incoming=[incoming[number] for number in range(CONNECTIONS)], limit=limit)

    def send(self, buffer: torch.Tensor, *, ready: Callable[[int], None]) -> Callable[[], None]:
        """Send all bytes in the background; what is returned waits until they are sent.

        Args:
            buffer: Of host memory.
            ready: Waits until so many bytes of it may be sent. One thread at a time calls it.
        """
        view, lock = memoryview(buffer.numpy()), threading.Lock()

        def send_through(connection: socket.socket, offset: int) -> None:
            for chunk in _chunks(view, offset):
                with lock:
                    ready(chunk.stop)
                connection.sendall(view[chunk])

        return self._all(self.outgoing, len(view), send_through)

    def receive(self, buffer: torch.Tensor) -> Callable[[], None]:
        """Receive as many bytes as the buffer has, in the background; what is returned waits for them."""
        view = memoryview(buffer.numpy())

        def receive_through(connection: socket.socket, offset: int) -> None:
            for chunk in _chunks(view, offset):
                _fill(connection, view[chunk])

        return self._all(self.incoming, len(view), receive_through)

    def cut(self) -> None:
        """End each transfer, here and at the neighbours; the descriptors stay taken.

        `Groups` shuts the generation's descriptors by number: one that was given out again would be somebody else's.
        """
        for connection in (*self.outgoing, *self.incoming):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End each transfer and let go of the connections, with their generation."""
        self.cut()
        for connection in (*self.outgoing, *self.incoming):
            connection.close()

    def _all(
        self, connections: Sequence[socket.socket], size: int, transfer: Callable[[socket.socket, int], None]
    ) -> Callable[[], None]:
        """Use as many connections as there are chunks."""
        flows = [
            Flow(lambda connection=connection, offset=offset: transfer(connection, offset))  # type: ignore[misc]
            for offset, connection in enumerate(connections[: -(-size // CHUNK)])
        ]

        def wait() -> None:
            for flow in flows:
                try:
                    flow.over()
                except BaseException as error:
                    self.cut()  # the other flows, here and there, would wait for what never comes
                    if isinstance(error, BlockingIOError):  # the kernel's limit
                        raise ConnectionError(f"a chunk of a copy was under way for {self.limit}") from error
                    if isinstance(error, OSError):
                        raise ConnectionError(f"the connection of a copy broke: {error}") from error
                    raise

        return wait


class Flow(threading.Thread):
    """A transfer in a thread of its own."""

    def __init__(self, transfer: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._transfer = transfer
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """The transfer; `over` raises what it raised."""
        try:
            self._transfer()
        except BaseException as error:  # the exchange's thread raises it
            self._error = error

    def over(self) -> None:
        """Wait until it is over."""
        self.join()
        if self._error is not None:
            raise self._error


def _chunks(view: memoryview, offset: int) -> Sequence[slice]:
    """Every so many chunks, from one on: a connection's share."""
    return [slice(at, min(at + CHUNK, len(view))) for at in range(offset * CHUNK, len(view), CONNECTIONS * CHUNK)]


def _fill(connection: socket.socket, view: memoryview) -> None:
    at = 0
    while at < len(view):
        count = connection.recv_into(view[at:], flags=socket.MSG_WAITALL)
        if not count:
            raise ConnectionError(f"the rank whose copies are kept here ended after {at:,} of {len(view):,} bytes")
        at += count


def _accept_all(
    server: socket.socket,
    incoming: dict[int, socket.socket],
    *,
    secret: str,
    source: int,
    nonce: str,
    check: Callable[[], None],
) -> None:
    """Accept every connection of one rank; whoever else comes is sent away."""
    deadline = time.monotonic() + OPENING_S
    server.settimeout(_ASKED_AGAIN_S)
    while len(incoming) < CONNECTIONS:
        check()
        if time.monotonic() > deadline:
            raise ConnectionError(f"rank {source} did not connect for its copies within {OPENING_S:g} s")
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        number = _number_of(connection, secret=secret, source=source, nonce=nonce)
        if number is None or number in incoming:
            connection.close()
        else:
            incoming[number] = connection


def _number_of(connection: socket.socket, *, secret: str, source: int, nonce: str) -> int | None:
    """Which connection it is; None where it is nobody of this run."""
    hello = b""
    connection.settimeout(_HELLO_S)
    try:
        while len(hello) < 1 + TAG_BYTES:
            part = connection.recv(1 + TAG_BYTES - len(hello))
            if not part:
                return None
            hello += part
    except OSError:
        return None
    number = hello[0]
    try:
        unseal(hello[1:], secret=secret, about=_about(source, number, nonce))
    except ForeignError:
        return None
    return number if number < CONNECTIONS else None


def _about(rank: int, number: int, nonce: str) -> str:
    return f"connection {number} for the copies of rank {rank}, {nonce}"

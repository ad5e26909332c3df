"""A port of a pod on 127.0.0.1, through the Kubernetes API's port-forward."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import socketserver
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.errors import OpsError, explain, shortened
from hyperpod_ray.ops.reach.clients import Kubernetes

LOOPBACK = "127.0.0.1"
CHUNK = 65536
PROTOCOL = "v4.channel.k8s.io"
CONNECTIONS = 100
"""At once: each has a thread and two file descriptors."""
ROOM = 4 * 1024 * 1024
"""Bytes that wait for one side; the other is not read until then."""
END_SECONDS, CLOSE_SECONDS = 30, 2
"""How long a side may take to read what the other sent last, and to say goodbye."""
CONTINUATION, BINARY, CLOSE, PING, PONG = 0, 2, 8, 9, 10
"""Kinds of WebSocket frames (RFC 6455, section 11.8)."""


class Forward:
    """Listens on 127.0.0.1 only and hands every connection to a pod's port. A context manager.

    A pod that went is looked for again, so that a new head is found under its new name. The protocol knows no
    half-close: a client that ends its sending side gets no more of the answer.

    Args:
        find: The name of the pod now; called at once, and again when the pod cannot be reached.
        local: Local port; 0 takes any.
        busy: The next command to say where the local port is taken.

    Raises:
        OpsError: The local port cannot be used, or there is no pod.
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        *,
        namespace: str,
        find: Callable[[], str],
        remote: int,
        local: int,
        busy: str = "",
    ) -> None:
        self._kubernetes = kubernetes
        self._find = find
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self.namespace = namespace
        self.remote = remote
        self.pod = find()
        self._uid = self._look()
        self.failure = ""
        """Why the last connection that failed did."""
        self.ended = False
        """Whether a connection was ended by the other side: by the server in the pod, or with the pod."""
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                outer.failure = _reason(sys.exception())

        try:
            self._server = Server((LOOPBACK, local), Handler)
        except OSError as error:
            raise port_taken(local, error, fix=busy) from None

    @property
    def port(self) -> int:
        """The local port."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Forward:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def news(self) -> str:
        """What happened to the pod since this was last asked; empty where it is the one it was."""
        before, self._uid = self._uid, self._look()
        if self._uid == before:
            return ""
        name = f"pod {self.namespace}/{self.pod}"
        if not self._uid:
            return f"{name} is gone, and its connections with it"
        return f"connections go to {name} now" if not before else f"connections go to a new {name} now"

    def _look(self) -> str:
        """The identity of the pod; empty where there is none."""
        try:
            pod = self._kubernetes.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}")
        except Exception as error:
            if not absent(error):
                raise
            return ""
        return str(pod["metadata"]["uid"])

    # --- one connection --------------------------------------------------------------------------------------------

    def _serve(self, near: socket.socket) -> None:
        with contextlib.closing(near), self._room:
            try:
                websocket = self._connect()
            except Exception as error:  # whatever it is, it concerns this connection only
                self.failure = _reason(error)
                return
            with contextlib.closing(Relay(near, websocket, port=self.remote)) as relay:
                try:
                    relay.run()
                except Exception as error:
                    relay.error = _reason(error)
                if relay.ended:
                    self._said(relay.error)

    def _connect(self) -> Any:
        """A WebSocket to the pod; where that fails, to the pod that has taken its place."""
        try:
            return self._open(self.pod)
        except Exception:
            name = self._find()
            if name == self.pod:
                raise
            self.pod = name
            return self._open(name)

    def _open(self, pod: str) -> Any:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/portforward"
        return self._kubernetes.api.websocket(path, query={"ports": self.remote}, protocol=PROTOCOL)

    def _said(self, text: str) -> None:
        """Keep what the pod's node, or the connection to it, said at the end."""
        if "connection refused" in text:
            text = f"nothing listens on port {self.remote} of pod {self.namespace}/{self.pod} (connection refused)"
        if text:
            self.failure = shortened(text)
        self.ended = True


class Relay:
    """Copies both ways between a connection here and a pod's port, until one side has ended.

    In one thread, which never waits for one direction alone: a peer that writes before it reads would stop both.
    Python's TLS sockets are not for two threads.

    Args:
        near: The connection on this machine.
        websocket: What `portforward` opened: channel 0 carries bytes, channel 1 the node's error text.
        port: The pod's port, which the first message of each channel must repeat.
    """

    def __init__(self, near: socket.socket, websocket: Any, *, port: int) -> None:
        self._near, self._websocket, self._far = near, websocket, websocket.sock
        self._port = port.to_bytes(2, "little")
        self._opened: set[int] = set()
        self._to_near, self._to_pod, self._message = bytearray(), bytearray(), bytearray()
        self.error = ""
        """What the pod's node said."""
        self.ended = False
        """Whether the far side ended it."""

    def run(self) -> None:
        """Copy; returns when one side has ended and what it sent has been handed on."""
        self._near.setblocking(False)
        self._far.settimeout(0)
        open_here = True
        with selectors.DefaultSelector() as selector:
            while open_here and not self.ended:
                self._wait(selector)
                open_here = self._from_near()
                self._send_to_pod()
                self._from_pod()
                open_here = self._send_to_near() and open_here
        side, rest = (self._near, self._to_near) if self.ended else (self._far, self._to_pod)
        if rest:
            side.settimeout(END_SECONDS)
            with contextlib.suppress(OSError):
                side.sendall(rest)

    def close(self) -> None:
        """End both sides."""
        _end(self._near)
        with contextlib.suppress(Exception):
            # what was sent last must arrive: a socket that is closed with unread data loses it
            self._websocket.shutdown() if self.ended else self._websocket.close(timeout=CLOSE_SECONDS)

    def _wait(self, selector: selectors.BaseSelector) -> None:
        """Until something can be read or written."""
        _watch(selector, self._near, read=len(self._to_pod) < ROOM, write=bool(self._to_near))
        full = len(self._to_near) >= ROOM
        _watch(selector, self._far, read=not full, write=bool(self._to_pod))
        pending = getattr(self._far, "pending", lambda: 0)
        selector.select(0 if pending() and not full else None)

    def _from_near(self) -> bool:
        """Read what is there; False when the connection here has ended."""
        if len(self._to_pod) >= ROOM:
            return True
        try:
            data = self._near.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if data:
            self._queue(b"\0" + data, BINARY)
        return bool(data)

    def _queue(self, payload: bytes, code: int) -> None:
        from websocket import ABNF

        self._to_pod += ABNF.create_frame(payload, code).format()

    def _send_to_pod(self) -> None:
        while self._to_pod:
            try:
                sent = self._far.send(self._to_pod)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._to_pod[:sent]

    def _from_pod(self) -> None:
        from websocket import WebSocketConnectionClosedException

        while len(self._to_near) < ROOM and not self.ended:
            try:
                frame = self._websocket.recv_frame()  # the package keeps the part of a frame that has arrived
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except (WebSocketConnectionClosedException, OSError):
                self.ended = True
                return
            if frame.opcode == CLOSE:
                self.ended = True
            elif frame.opcode == PING:  # behind what waits: the package would write into the middle of a frame
                self._queue(frame.data, PONG)
            elif frame.opcode in (BINARY, CONTINUATION):
                self._message += frame.data
                if frame.fin and self._message:
                    message, self._message = bytes(self._message), bytearray()
                    self._take(message[0], message[1:])

    def _take(self, channel: int, data: bytes) -> None:
        if channel not in self._opened:
            if channel > 1 or data != self._port:
                raise OSError(f"port-forward began with channel {channel} and {data[:8]!r}")
            self._opened.add(channel)
        elif channel == 0:
            self._to_near += data
        else:
            self.error += data.decode(errors="replace")
            self.ended = True

    def _send_to_near(self) -> bool:
        """Write what is there to write; False when the connection here has ended."""
        try:
            while self._to_near:
                del self._to_near[: self._near.send(self._to_near)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


def _watch(selector: selectors.BaseSelector, side: socket.socket, *, read: bool, write: bool) -> None:
    events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
    with contextlib.suppress(KeyError):
        selector.unregister(side)
    if events:
        selector.register(side, events)


def _reason(error: BaseException | None) -> str:
    """One line about a failed connection; the API server's own words where it has said some."""
    # the system's own words say more of a lost connection than the general sentence
    failure = explain(error) if error and not isinstance(error, OSError) else None
    if failure is not None:
        return failure.message
    status, body = getattr(error, "status_code", None), getattr(error, "resp_body", None)
    if status:
        text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
        with contextlib.suppress(ValueError, AttributeError):
            text = str(json.loads(text).get("message") or text)
        return f"the Kubernetes API answers {status}: {shortened(text)}"
    return shortened(str(error)) or type(error).__name__


def _end(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)


def port_taken(port: int, error: OSError, *, fix: str = "") -> OpsError:
    """Why a local port cannot be listened on, with who uses it where that can be seen."""
    user = f"; {program} uses it" if (program := holder(port)) else ""
    return OpsError(
        f"port {port} on {LOOPBACK} cannot be used ({error.strerror}){user}",
        expected="a free port",
        fix=fix or "choose another port",
    )


def holder(port: int) -> str:
    """Which process listens on a local port: `python (pid 4711)`; empty where this cannot be seen."""
    inodes = set(_listening(port))
    if not inodes:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if any(_points_to(link, inodes) for link in (folder / "fd").iterdir()):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"{command[:80]} (pid {folder.name})"
    return "a process of another user"


def _points_to(link: Path, targets: set[str]) -> bool:
    try:
        return str(link.readlink()) in targets
    except OSError:  # closed in between
        return False


def _listening(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            host, _, at = fields[1].rpartition(":")
            if fields[3] == "0A" and int(at, 16) == port and _in_the_way(host):
                yield f"socket:[{fields[9]}]"


def _in_the_way(host: str) -> bool:
    """Whether a listener at an address (as /proc writes it) takes the port of 127.0.0.1: that one, or all."""
    words = [int.from_bytes(bytes.fromhex(host[at : at + 8]), sys.byteorder) for at in range(0, len(host), 8)]
    return words[-1] in (0x7F000001, 0)

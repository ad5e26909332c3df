"""A port of a pod on 127.0.0.1, through the Kubernetes API's port-forward."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import socket
import socketserver
import sys
import tempfile
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
"""At once: each takes four file descriptors, and the client's loop cannot look at those above 1023."""


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
        self._lock = threading.Lock()
        self._kept = contextlib.ExitStack()
        self._authority_file = ""
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
        self._kept.close()

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
                stream = self._connect()
            except Exception as error:  # whatever it is, it concerns this connection only
                self.failure = _reason(error)
                return
            with contextlib.closing(stream.socket(self.remote)) as far:
                relay(near, far, at_end=lambda: self._said(stream))

    def _connect(self) -> Any:
        """A stream to the pod; where that fails, to the pod that has taken its place."""
        try:
            return self._open(self.pod)
        except Exception:
            name = self._find()
            if name == self.pod:
                raise
            self.pod = name
            return self._open(name)

    def _open(self, pod: str) -> Any:
        from kubernetes.stream import ws_client

        configuration = copy.copy(self._kubernetes.api.configuration)
        if configuration.ca_cert_data and not configuration.ssl_ca_cert:
            configuration.ssl_ca_cert = self._authority(configuration.ca_cert_data)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/portforward"
        _, url, headers, *_ = self._kubernetes.api.param_serialize(
            method="GET",
            resource_path=path,
            query_params=[("ports", str(self.remote))],
            header_params={"sec-websocket-protocol": PROTOCOL},
            auth_settings=["BearerToken"],
        )
        websocket = ws_client.create_websocket(
            configuration, ws_client.get_websocket_url(url), {key.lower(): value for key, value in headers.items()}
        )
        return _stream_class()(websocket, [self.remote])

    def _authority(self, certificates: str) -> str:
        """The cluster's certificate authority as a file: the client's WebSocket takes nothing else."""
        with self._lock:
            if not self._authority_file:
                made = tempfile.NamedTemporaryFile("w", prefix="cluster-ca-", suffix=".pem")  # noqa: SIM115
                file = self._kept.enter_context(made)
                file.write(certificates)
                file.flush()
                self._authority_file = file.name
            return self._authority_file

    def _said(self, stream: Any) -> None:
        """Keep what the pod's node, or the connection to it, said at the end."""
        text = stream.error(self.remote) or stream.failure
        if "connection refused" in text:
            text = f"nothing listens on port {self.remote} of pod {self.namespace}/{self.pod} (connection refused)"
        if text:
            self.failure = shortened(text)
        self.ended = True


@functools.cache
def _stream_class() -> Any:
    """The client's own port-forward, that says how it ended where the client's would show a traceback."""
    from kubernetes.stream import ws_client

    base: Any = ws_client.PortForward

    class Stream(base):  # type: ignore[misc]  # the client has no types
        failure = ""

        def _proxy(self) -> None:
            try:
                super()._proxy()
            except Exception as error:
                self.failure = _reason(error)
            finally:
                for port in self.local_ports.values():
                    port.python.close()
                with contextlib.suppress(Exception):
                    self.websocket.shutdown()

    return Stream


def _reason(error: BaseException | None) -> str:
    """One line about a failed connection; the API server's own words where it has said some."""
    known = explain(error) if error else None
    if known is not None:
        return known.message
    status, body = getattr(error, "status_code", None), getattr(error, "resp_body", None)
    if status:
        text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
        with contextlib.suppress(ValueError, AttributeError):
            text = str(json.loads(text).get("message") or text)
        return f"the Kubernetes API answers {status}: {shortened(text)}"
    return shortened(str(error)) or type(error).__name__


def relay(near: socket.socket, far: socket.socket, *, at_end: Callable[[], None] = lambda: None) -> None:
    """Copy both ways until one side has ended.

    A thread for each way: one that waits for room in one direction must not stop the other.

    Args:
        at_end: Called when `far` has ended, before `near` is notified.
    """

    def send() -> None:
        _copy(near, far)
        _end(far)

    up = threading.Thread(target=send, daemon=True)
    up.start()
    _copy(far, near)
    at_end()
    _end(near)
    up.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)


def _end(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)


def port_taken(port: int, error: OSError, *, fix: str = "") -> OpsError:
    """Why a local port cannot be listened on, with who uses it where that can be seen."""
    user = f"; {who} uses it" if (who := holder(port)) else ""
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


def _points_to(link: Path, wanted: set[str]) -> bool:
    try:
        return str(link.readlink()) in wanted
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

"""A port of a pod on 127.0.0.1, through the Kubernetes API's port-forward."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ops.clients import Kubernetes
from ops.errors import OpsError

LOOPBACK = "127.0.0.1"
CHUNK = 65536


class Forward:
    """Listens on 127.0.0.1 only and hands every connection to a pod's port. A context manager."""

    def __init__(self, kubernetes: Kubernetes, *, namespace: str, pod: str, remote: int, local: int) -> None:
        self._kubernetes = kubernetes
        self._namespace = namespace
        self._pod = pod
        self._remote = remote
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        try:
            self._server = Server((LOOPBACK, local), Handler)
        except OSError as error:
            held = f"; it is held by {who}" if (who := holder(local)) else ""
            raise OpsError(
                f"port {local} on {LOOPBACK} cannot be used ({error.strerror}){held}",
                next="choose another one with --port",
            ) from None
        self.failure: str = ""

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

    def _serve(self, near: socket.socket) -> None:
        from kubernetes import client  # noqa: PLC0415
        from kubernetes.stream import portforward  # noqa: PLC0415

        try:
            # a client of its own: opening the stream replaces a method of the client while it lasts
            core = client.CoreV1Api(client.ApiClient(self._kubernetes.api.configuration))
            stream: Any = portforward(
                core.connect_get_namespaced_pod_portforward, self._pod, self._namespace, ports=str(self._remote)
            )
            far: socket.socket = stream.socket(self._remote)
        except Exception as error:  # whatever it is, it concerns this connection only
            self.failure = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            near.close()
            return
        with near, far:
            relay(near, far)


def relay(near: socket.socket, far: socket.socket) -> None:
    """Copy both ways until both sides are done."""
    open_ = {near: far, far: near}
    while open_:
        readable, _, _ = select.select(list(open_), [], [], 300)
        if not readable:
            return
        for source in readable:
            try:
                data = source.recv(CHUNK)
                if data:
                    open_[source].sendall(data)
                    continue
            except OSError:
                return
            sink = open_.pop(source)
            try:
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                return
            if source is far:
                return  # the pod has said all there is


def holder(port: int) -> str:
    """Which process listens on a local port: `python (pid 4711)`; empty where this cannot be seen."""
    inodes = set(_listening(port))
    if not inodes:
        return ""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(link.readlink()) in inodes for link in (folder / "fd").iterdir()):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"{command[:80]} (pid {folder.name})"
        except OSError:
            continue
    return "a process of another user"


def _listening(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{fields[9]}]"

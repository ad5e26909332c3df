"""A small real web server on loopback, to stand at the far end of a forwarded port."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = bytes(range(256)) * 256


class Handler(BaseHTTPRequestHandler):
    """`GET /bytes/N`: N bytes; `GET /api/jobs/`: none; `GET /hold`: part of an answer; `POST /echo`: what came."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/hold":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"begun")
            self.server.held.wait(300)  # type: ignore[attr-defined]
            return
        if self.path == "/api/jobs/" and self.server.ray:  # type: ignore[attr-defined]
            self._answer(b"[]")
            return
        count = int(self.path.rpartition("/")[2]) if self.path.startswith("/bytes/") else 0
        self._answer((BLOCK * (count // len(BLOCK) + 1))[:count] if count else b"ok")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def web_server(*, ray: bool = True) -> Iterator[str]:
    """Its address, as `127.0.0.1:PORT`; with `ray`, it has the list of jobs that `status` asks a head for."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128
        held = threading.Event()
        ray = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A connection that was cut is what these tests do."""

    server = Server(("127.0.0.1", 0), Handler)
    server.ray = ray
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.held.set()
        server.shutdown()
        server.server_close()

"""A server on 127.0.0.1 that answers the browser of whoever started it, and no web page.

A request is answered where all of this holds; else it is refused, whatever else it carries:

- its path begins with a random key, which only the printed address has: other users of the machine lack it;
- its `Host` is 127.0.0.1 or localhost with the port: a name that was rebound to 127.0.0.1 is refused;
- it has no `Origin` but the page's own, and no `Sec-Fetch-Site` but `same-origin` or `none`: no other page sent it;
- it is a GET or a HEAD: nothing can be changed here.

Answers forbid everything that the page does not use: scripts, styles and requests of any other origin, frames, forms.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from hyperpod_ray.ops.reach.forward import LOOPBACK, port_taken

POLICY = "; ".join(
    [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    ]
)  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CONNECTIONS = 100
"""At once; more are refused."""
PATIENCE_SECONDS = 30
"""A browser opens connections ahead of time; one that sends nothing for so long is closed."""
SITES = {"same-origin", "none"}


@dataclass(frozen=True)
class Answer:
    """What a path answers."""

    body: bytes
    type: str
    status: HTTPStatus = HTTPStatus.OK


class Refusal(Exception):
    """Why a request is not answered."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Server:
    """Serves paths until it is left. A context manager.

    Args:
        paths: Path below the key → what it answers; called in the thread of the request.
        port: Port on 127.0.0.1; 0 takes any.
        busy: The next command where the port is taken.
        key: Of the address. Default: a random one.

    Raises:
        OpsError: The port cannot be used.
    """

    def __init__(
        self, paths: Mapping[str, Callable[[], Answer]], *, port: int, busy: str = "", key: str | None = None
    ) -> None:
        self._paths = dict(paths)
        self._key = key or secrets.token_urlsafe(12)
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        outer = self

        class Handler(_Handler):
            server_of = outer

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A browser that hangs up is no event."""

        try:
            self._listener = Listener((LOOPBACK, port), Handler)
        except OSError as error:
            raise port_taken(port, error, fix=busy) from None
        self._thread = threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)

    @property
    def port(self) -> int:
        """The port."""
        return int(self._listener.server_address[1])

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{LOOPBACK}:{self.port}/{self._key}/"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()

    def answer(self, method: str, path: str, headers: list[tuple[str, str]]) -> Answer:
        """What a request gets.

        Raises:
            Refusal: It gets nothing.
        """
        self._admit(headers)
        if method not in ("GET", "HEAD"):
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "this page is read-only")
        key, slash, rest = urlsplit(path).path.removeprefix("/").partition("/")
        page = self._paths.get(rest) if slash else None
        if not secrets.compare_digest(key.encode(), self._key.encode()) or page is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "not here: open the address that the command printed")
        return page()

    def _admit(self, headers: list[tuple[str, str]]) -> None:
        """Refuse what another page, or a name that leads here, sent."""
        sent: dict[str, list[str]] = {}
        for name, value in headers:
            sent.setdefault(name.lower(), []).append(value.strip().lower())
        own_hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        hosts = sent.get("host", [])
        if len(hosts) != 1 or hosts[0] not in own_hosts:
            raise Refusal(HTTPStatus.FORBIDDEN, f"this server answers as {LOOPBACK}:{self.port} only")
        if any(origin != f"http://{hosts[0]}" for origin in sent.get("origin", [])):
            raise Refusal(HTTPStatus.FORBIDDEN, "this server answers no other page")
        if not SITES.issuperset(sent.get("sec-fetch-site", [])):
            raise Refusal(
                HTTPStatus.FORBIDDEN, "this server answers no other page: type or paste the address that was printed"
            )


class _Handler(BaseHTTPRequestHandler):
    server_of: Server
    timeout = PATIENCE_SECONDS
    server_version, sys_version = "hyperpod-ray", ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._handle
        raise AttributeError(name)

    def _handle(self) -> None:
        room = self.server_of._room
        if not room.acquire(blocking=False):
            self._send(_text("too many connections at once", HTTPStatus.SERVICE_UNAVAILABLE))
            return
        try:
            self._send(self.server_of.answer(self.command, self.path, list(self.headers.items())))
        except Refusal as refusal:
            self._send(_text(refusal.text, refusal.status))
        finally:
            room.release()

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: the terminal is for what happens to the environment."""


def _text(text: str, status: HTTPStatus) -> Answer:
    return Answer(f"{text}\n".encode(), "text/plain; charset=utf-8", status)

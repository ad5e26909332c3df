"""What tests of `image_registry`, `recording` share."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

INDEX = "application/vnd.oci.image.index.v1+json"
BOTH = [{"platform": {"os": "linux", "architecture": one}} for one in ("amd64", "arm64")]


def manifest(platforms: list[dict[str, dict[str, str]]]) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": platforms}).encode()


class Registry:
    """Hands out a token for one repository and a manifest for whoever brings it."""

    def __init__(self) -> None:
        self.body = manifest(BOTH)
        self.headers: dict[str, str] = {}
        self.challenge: str | None = None
        self.anonymous = False
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        parts = urlsplit(handler.path)
        if parts.path == "/token":
            query = parse_qs(parts.query)
            known = query == {"service": ["registry"], "scope": ["repository:rayproject/ray:pull"]}
            self.send(handler, 200 if known else 400, json.dumps({"token": "for-everyone"}).encode())
        elif not self.anonymous and handler.headers.get("Authorization") != "Bearer for-everyone":
            challenge = self.challenge or (
                f'Bearer realm="{self.url}/token",service="registry",scope="repository:rayproject/ray:pull"'
            )
            self.send(handler, 401, b"{}", {"WWW-Authenticate": challenge})
        elif parts.path == "/v2/rayproject/ray/manifests/2.60.0":
            assert INDEX in handler.headers["Accept"]
            self.send(handler, 200, self.body, {"Content-Type": INDEX, **self.headers})
        else:
            self.send(handler, 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')

    def send(
        self, handler: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()

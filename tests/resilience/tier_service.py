"""Stand-ins on loopback for what the tiered writer calls: the nodes' memory service, and Amazon S3.

The memory service answers as `amzn-sagemaker-checkpointing` 1.1.3 asks it: namespaces, and one blob per rank and
step, of which the newest few are kept. S3 answers where a bucket is; objects go through `Objects` in place of the
native client.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

NAMESPACE = re.compile(r"/v1/cp/namespaces/([^/]+)$")
CHECKPOINT = re.compile(r"/v1/cp/checkpoints/([^/]+)/(\d+)/(\d+)$")
LATEST = re.compile(r"/v1/cp/checkpoints/([^/]+)/latest$")


@dataclass
class Memory:
    """What the memory service holds: namespace, rank, step, then the blob and its header."""

    ranks: dict[str, int] = field(default_factory=dict)
    retained: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, dict[int, dict[int, tuple[bytes, str]]]] = field(default_factory=dict)
    port: int = 0

    def lose(self) -> None:
        """Every node was replaced."""
        self.ranks.clear()
        self.blobs.clear()

    def steps(self, namespace: str, rank: int = 0) -> list[int]:
        """Steps that are held of a rank."""
        return sorted(self.blobs.get(namespace, {}).get(rank, {}))


@contextlib.contextmanager
def memory_service() -> Iterator[Memory]:
    """The service on a free port of loopback."""
    memory = Memory()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, body: bytes = b"{}", header: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if header:
                self.send_header("Shard-Meta", header)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if (found := NAMESPACE.match(path)) and found[1] in memory.ranks:
                said = {"num_ranks": memory.ranks[found[1]], "steps_to_retain_per_rank": memory.retained[found[1]]}
                self.answer(200, json.dumps(said).encode())
            elif found := LATEST.match(path):
                held = {step for steps in memory.blobs.get(found[1], {}).values() for step in steps}
                self.answer(200, json.dumps(sorted(held, reverse=True)[:3]).encode())
            elif found := CHECKPOINT.match(path):
                blob = memory.blobs.get(found[1], {}).get(int(found[2]), {}).get(int(found[3]))
                self.answer(200, *blob) if blob else self.answer(404)
            else:
                self.answer(404)

        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if found := NAMESPACE.match(parts.path):
                asked = {key: int(values[0]) for key, values in parse_qs(parts.query).items()}
                memory.ranks[found[1]], memory.retained[found[1]] = asked["num_ranks"], asked["steps_retained"]
                self.answer(200)
            elif (found := CHECKPOINT.match(parts.path)) and found[1] in memory.ranks:
                held = memory.blobs.setdefault(found[1], {}).setdefault(int(found[2]), {})
                held[int(found[3])] = (body, self.headers.get("Shard-Meta", ""))
                for old in sorted(held)[: -memory.retained[found[1]]]:
                    del held[old]
                self.answer(200)
            else:
                self.answer(404)

    with serving(Handler) as memory.port:
        yield memory


@contextlib.contextmanager
def bucket_location() -> Iterator[str]:
    """The URL of an S3 that says in which region a bucket is."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            assert "location" in parse_qs(urlsplit(self.path).query, keep_blank_values=True), self.path
            body = b"<LocationConstraint>us-west-2</LocationConstraint>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Objects:
    """In place of s3torchconnector's `S3Checkpoint`: objects by URL, whole once their writer is closed."""

    held: ClassVar[dict[str, bytes]] = {}

    def __init__(self, *, region: str) -> None:
        assert region == "us-west-2"

    @contextlib.contextmanager
    def writer(self, url: str) -> Iterator[io.BytesIO]:
        stream = io.BytesIO()
        yield stream
        self.held[url] = stream.getvalue()

    @contextlib.contextmanager
    def reader(self, url: str) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self.held[url])

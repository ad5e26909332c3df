"""What tests of `node_check`, `ops_jobs_api`, `run_files` share."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.orchestrators.eks import node_check
from hyperpod_ray.ops.reach import jobs_api
from hyperpod_ray.ops.reach.jobs_api import Jobs

Reply = tuple[int, bytes]


class Head:
    """Ray's dashboard: answers by method and path, the last answer again; keeps what was asked."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, str], list[Reply]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        head = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                head.asked.append((self.command, self.path, dict(self.headers), body))
                replies = head.replies.get((self.command, self.path.partition("?")[0]), [(404, b"no such path")])
                status, content = replies.pop(0) if len(replies) > 1 else replies[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def jobs(self) -> Jobs:
        return Jobs(f"http://127.0.0.1:{self.server.server_port}", token="secret")

    def says(self, method: str, path: str, *replies: Any) -> None:
        """Answers: bytes and JSON with 200, or a status with its text."""
        self.replies[method, path] = [
            reply
            if isinstance(reply, tuple)
            else (200, reply if isinstance(reply, bytes) else json.dumps(reply).encode())
            for reply in replies
        ]

    def calls(self) -> list[str]:
        return [f"{method} {path.partition('?')[0]}" for method, path, _, _ in self.asked]


@pytest.fixture
def head() -> Iterator[Head]:
    ray = Head()
    yield ray
    ray.server.shutdown()
    ray.server.server_close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only while somebody sleeps."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    fake = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(jobs_api, "time", fake)
    monkeypatch.setattr(run_state, "time", fake)
    monkeypatch.setattr(node_check, "time", fake)
    return now


def reads(head: Head, *states: Any, logs: str, package: str = "") -> None:
    """Ray runs the job that reads: its states, one after another, and its log."""
    name = package or in_ray.package()[0]
    head.says("GET", f"/api/packages/gcs/{name}", (404, b""))
    head.says("PUT", f"/api/packages/gcs/{name}", (200, b""))
    head.says("POST", "/api/jobs/", {"submission_id": "x"})

    class Paths(dict[tuple[str, str], list[Reply]]):
        """Answers for whatever ID the job has."""

        def get(self, key: tuple[str, str], default: Any = None) -> Any:
            method, path = key
            parts = path.removeprefix("/api/jobs/read-").split("/")
            if path.startswith("/api/jobs/read-"):
                return super().get((method, "/".join(["job", *parts[1:]])), default)
            return super().get(key, default)

    head.replies = Paths(head.replies)
    head.says("GET", "job", *states)
    head.says("GET", "job/logs", {"logs": logs})
    head.says("POST", "job/stop", {"stopped": True})
    head.says("DELETE", "job", {"deleted": True})

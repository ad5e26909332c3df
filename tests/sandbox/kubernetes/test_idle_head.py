"""What answers for a Ray head that runs nothing, asked over a real socket and read by Python's own HTTP."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.idle_head import IdleHead, is_head


class Socket:
    """What `http.client` reads an answer from."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def asked(*requests: bytes) -> list[bytes]:
    async def talk() -> list[bytes]:
        head, answers = IdleHead(), []
        for request in requests:
            reader, writer = await head.connect()
            writer.write(request)
            writer.write_eof()
            answers.append(await asyncio.wait_for(reader.read(), 120))
            writer.close()
        assert head._server is not None
        assert head._server.sockets[0].getsockname()[0] == "127.0.0.1"
        head._server.close()
        return answers

    return asyncio.run(talk())


@pytest.mark.parametrize(
    ("line", "status", "content"),
    [
        ("GET /api/jobs/ HTTP/1.1", 200, []),
        ("GET /api/jobs/?x=1 HTTP/1.1", 200, []),
        ("GET /api/version HTTP/1.1", 200, {"version": "4", "ray_version": "sandbox", "ray_commit": ""}),
        ("POST /api/jobs/ HTTP/1.1", 501, None),
        ("GET /api/jobs/raysubmit_1 HTTP/1.1", 501, None),
        ("DELETE /api/jobs/ HTTP/1.1", 501, None),
    ],
)
def test_it_has_no_jobs_and_runs_none(line: str, status: int, content: Any) -> None:
    (data,) = asked(f"{line}\r\nHost: ray\r\n\r\n".encode())
    answer: Any = http.client.HTTPResponse(Socket(data))  # type: ignore[arg-type]
    answer.begin()
    body = answer.read().decode()
    assert answer.status == status
    if content is not None:
        assert json.loads(body) == content
    else:
        assert "Fix: hyperpod-ray local ray start" in body


@pytest.mark.parametrize("request_", [b"", b"GET", b"\r\n\r\n", b"GET /\r\n\r\n"])
def test_what_is_no_request_gets_no_answer_and_the_next_one_does(request_: bytes) -> None:
    silence, answer = asked(request_, b"GET /api/jobs/ HTTP/1.1\r\n\r\n")
    assert silence == b""
    assert answer.endswith(b"\r\n\r\n[]")


@pytest.mark.parametrize(
    ("labels", "port", "head"),
    [
        ({"ray.io/node-type": "head"}, 8265, True),
        ({"ray.io/node-type": "worker"}, 8265, False),
        ({"ray.io/node-type": "head"}, 6379, False),
        (None, 8265, False),
    ],
)
def test_the_dashboard_of_a_head(labels: dict[str, str] | None, port: int, head: bool) -> None:
    """https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations."""
    assert is_head({"metadata": {"labels": labels}}, port) is head

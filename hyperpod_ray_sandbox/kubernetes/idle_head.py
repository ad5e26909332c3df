"""What answers on port 8265 of a recorded Ray head that no bridge leads away from: a head without jobs.

`GET /api/jobs/` is an empty list and `GET /api/version` a version; whatever would run something is 501. It checks no
token and keeps nothing: a real head shows what is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from hyperpod_ray_rules import names

_LONGEST = 64 * 1024
_ANSWERS: dict[str, Any] = {
    "/api/jobs/": [],
    "/api/version": {"version": "4", "ray_version": "sandbox", "ray_commit": ""},
}
_NO_RAY = (
    "the sandbox's head runs no jobs. Expected a Ray behind it. Fix: hyperpod-ray local ray start, then "
    "hyperpod-ray local ray bridge"
)


def is_head(pod: dict[str, Any], port: int) -> bool:
    """Whether a port of a pod is the dashboard of a Ray head."""
    labels = pod["metadata"].get("labels") or {}
    return port == names.DASHBOARD_PORT and labels.get(names.RAY_ROLE_LABEL) == "head"


class IdleHead:
    """Listens on loopback from its first use."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._lock = asyncio.Lock()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to it."""
        async with self._lock:
            if self._server is None:
                self._server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return await asyncio.open_connection(host, port)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, one answer, the end."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        head = (await reader.readuntil(b"\r\n\r\n"))[:_LONGEST].decode("latin-1")
        method, path, _ = head.split("\r\n", 1)[0].split(" ", 2)
        path = path.partition("?")[0]
        answered = method == "GET" and path in _ANSWERS
        code, reason = (200, "OK") if answered else (501, "Not Implemented")
        body = json.dumps(_ANSWERS[path]) if answered else _NO_RAY
        media_type = "application/json" if answered else "text/plain"
        lines = [
            f"HTTP/1.1 {code} {reason}",
            f"Content-Type: {media_type}",
            f"Content-Length: {len(body.encode())}",
            "Connection: close",
        ]
        writer.write("\r\n".join([*lines, "", body]).encode())
        await writer.drain()
    writer.close()

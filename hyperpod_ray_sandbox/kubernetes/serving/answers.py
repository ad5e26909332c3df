"""How an answer goes out over ASGI."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]
Receive = Callable[[], Awaitable[Json]]


async def send_bytes(
    send: Send, code: int, body: bytes, content_type: str, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Answer with a body of any media type."""
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_json(
    send: Send, code: int, body: Any, warnings: list[str] | None = None, extra: dict[str, str] | None = None
) -> None:
    """Answer with JSON, and the warnings that kubectl prints."""
    headers = [
        (b"warning", ('299 - "' + w.replace("\\", "\\\\").replace('"', '\\"') + '"').encode()) for w in warnings or []
    ]
    headers += [(k.encode(), v.encode()) for k, v in (extra or {}).items()]
    await send_bytes(send, code, json.dumps(body).encode(), "application/json", headers)


async def lifespan(receive: Receive, send: Send) -> None:
    """Agree to whatever the server says of its own start and end."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

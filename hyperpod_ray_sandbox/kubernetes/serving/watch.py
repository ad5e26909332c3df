"""Watch: what is there, then every change, as a stream of events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.serving.answers import Receive, Send, disconnected
from hyperpod_ray_sandbox.kubernetes.serving.pages import not_a_version
from hyperpod_ray_sandbox.kubernetes.serving.parameters import check_list
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target
from hyperpod_ray_sandbox.kubernetes.serving.shapes import bookmark, shape, view
from hyperpod_ray_sandbox.kubernetes.serving.verbs import selection
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import Change

Json = dict[str, Any]

_WATCH_SECONDS = 1800.0
_BOOKMARK_SECONDS = 30.0


class Watch:
    """One client's watch of one target."""

    def __init__(self, api: Api, request: Request, target: Target, send: Send) -> None:
        self._api = api
        self._request = request
        self._target = target
        self._send = send
        self._select = selection(request, target.resource)
        check_list(request)

    def _keep(self, obj: Json) -> bool:
        target, meta = self._target, obj["metadata"]
        return (
            (not target.namespace or meta.get("namespace") == target.namespace)
            and (not target.name or meta["name"] == target.name)
            and self._select(self._api.present(target.resource, obj))
        )

    async def stream(self, receive: Receive) -> None:
        """Send what is there and every change, until the client goes or its time is over."""
        request, resource, api = self._request, self._target.resource, self._api
        version = request.query.get("resourceVersion", "")
        initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
        if version and not version.isdigit():
            raise not_a_version(version)
        backlog: list[Change] = []
        snapshot: list[Json] = []
        expired: ApiError | None = None
        queue = api.store.subscribe()
        try:
            if initial or (initial is None and version in ("", "0")):
                snapshot = [o for o in api.store.objects(resource.store) if self._keep(o)]
            elif version not in ("", "0"):
                try:
                    backlog = api.watch_from(version)
                except ApiError as error:
                    expired = error
            await self._send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            if expired is not None:  # a watch says so in its stream
                await self._write("ERROR", expired.status())
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            for obj in snapshot:
                await self._event("ADDED", obj)
            if initial:
                mark = bookmark(resource, api.store.version)
                mark["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
                await self._event("BOOKMARK", mark)
            for change in backlog:
                await self._change(change)
            await self._follow(queue, receive)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            api.store.unsubscribe(queue)

    async def _follow(self, queue: asyncio.Queue[Change], receive: Receive) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + float(self._request.query.get("timeoutSeconds") or _WATCH_SECONDS)
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            while (remaining := deadline - loop.time()) > 0:
                waiting = asyncio.ensure_future(queue.get())
                done, _ = await asyncio.wait(
                    {waiting, gone}, timeout=min(remaining, _BOOKMARK_SECONDS), return_when=asyncio.FIRST_COMPLETED
                )
                if waiting in done:
                    await self._change(waiting.result())
                else:
                    waiting.cancel()
                    if not done and self._request.flag("allowWatchBookmarks"):
                        await self._event("BOOKMARK", bookmark(self._target.resource, self._api.store.version))
                if gone in done:
                    return
        finally:
            gone.cancel()

    async def _change(self, change: Change) -> None:
        if change.key[0] != self._target.resource.store:
            return
        was = change.old is not None and self._keep(change.old)
        now_ = change.new is not None and self._keep(change.new)
        if now_:
            await self._event("MODIFIED" if was else "ADDED", change.last)
        elif was:
            # what left the selection is reported as it was, at the version of the change
            final = (
                change.last
                if change.new is None
                else {
                    **(change.old or {}),
                    "metadata": {**(change.old or {})["metadata"], "resourceVersion": str(change.version)},
                }
            )
            await self._event("DELETED", final)

    async def _event(self, event_type: str, obj: Json) -> None:
        resource = self._target.resource
        content = self._api.present(resource, obj)
        if event_type == "BOOKMARK":
            if view(self._request) == "Table":
                content = {
                    "kind": "Table",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
                    "columnDefinitions": None,
                    "rows": [],
                }
        else:
            content = shape(self._request, resource, content)
        await self._write(event_type, content)

    async def _write(self, event_type: str, content: Json) -> None:
        body = json.dumps({"type": event_type, "object": content}).encode() + b"\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

"""HTTP: reads a request, finds the resource and the verb, answers with JSON, a Table or a stream of watch events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes import portforward
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.auth import Authenticator
from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Action
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity, impersonated
from hyperpod_ray_sandbox.kubernetes.controllers.common import node_ready
from hyperpod_ray_sandbox.kubernetes.faults import Faults, as_error
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.serving.answers import Receive, Send, lifespan, send_bytes, send_json
from hyperpod_ray_sandbox.kubernetes.serving.documents import Documents
from hyperpod_ray_sandbox.kubernetes.serving.request import (
    Request,
    action_of,
    applies,
    options_of,
    read,
    target_of,
    verb_of,
)
from hyperpod_ray_sandbox.kubernetes.serving.shapes import shape
from hyperpod_ray_sandbox.kubernetes.serving.verbs import act
from hyperpod_ray_sandbox.kubernetes.serving.watch import Watch
from hyperpod_ray_sandbox.kubernetes.spdy import SpdyError
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request

Json = dict[str, Any]

log = logging.getLogger(__name__)

_HEALTH = tuple(
    f"/{probe}{check}" for probe in ("healthz", "livez", "readyz") for check in ("", "/etcd", "/log", "/ping")
)


class App:
    """The ASGI application."""

    def __init__(
        self,
        api: Api,
        authenticator: Authenticator,
        faults: Faults,
        go_unreachable: Callable[[float], None],
        hooks: Callable[[str, str, Any], Any],
    ) -> None:
        self.api = api
        self.authenticator = authenticator
        self.faults = faults
        self.go_unreachable = go_unreachable
        self.hooks = hooks
        self.bridges = portforward.Bridges()
        self._documents = Documents(api.registry)

    async def __call__(self, scope: Json, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = read(scope, body)
        options = options_of(request)
        options.doubled = request.doubled
        try:
            await self._serve(request, options, receive, send)
        except ApiError as error:
            extra = {}
            if error.code == 429:
                extra["retry-after"] = str(error.details.get("retryAfterSeconds", 1))
            await send_json(send, error.code, error.status(), options.warnings, extra)
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            await send_json(send, 500, ApiError(500, "InternalError", f"Internal error occurred: {error!r}").status())

    # ---- routing ---------------------------------------------------------------------------------------------------

    async def _serve(self, request: Request, options: Options, receive: Receive, send: Send) -> None:
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH:
            await send_bytes(send, 200, b"ok", "text/plain")
            return
        user = await self._user(request)
        if path.startswith("/rehearsal/"):
            if "system:masters" not in user.groups:
                raise ApiError(403, "Forbidden", "the rehearsal's own hooks are for its administrator")
            await send_json(send, 200, self._rehearsal(request, path))
            return
        target = target_of(self.api.registry, path)
        if target is not None and request.method == "HEAD":
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        verb = verb_of(request, target)
        options.user = self._authorize(request, action_of(request, target, verb, path), user)
        if target is not None and verb == "patch" and applies(request) and not self.api.exists(*target.key):
            self.api.rbac.require(options.user, action_of(request, target, "create", path))
        await self._fault(verb, target.resource.plural if target else path, target.namespace if target else "")
        if target is None:
            await self._documents.answer(request, path, send)
        elif verb == "watch":
            await Watch(self.api, request, target, send).stream(receive)
        else:
            code, answer = act(self.api, request, options, target, verb)
            body = shape(request, target.resource, answer) if request.method == "GET" else answer
            await send_json(send, code, body, options.warnings)

    async def _user(self, request: Request) -> Identity:
        user = await self.authenticator.identify(request.headers.get("authorization", ""))
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def _authorize(self, request: Request, action: Action, user: Identity) -> Identity:
        """The user who acts, perhaps as somebody else; raises 403 where they may not."""
        rbac = self.api.rbac
        acting_user = impersonated(request.headers, request.groups)
        if acting_user is not None:
            if acting_user.username.startswith("system:serviceaccount:"):
                _, _, namespace, name = (acting_user.username + "::").split(":")[:4]
                rbac.require(user, Action("impersonate", "", "serviceaccounts", namespace, name))
            else:
                rbac.require(user, Action("impersonate", "", "users", name=acting_user.username))
            for group in request.groups:
                rbac.require(user, Action("impersonate", "", "groups", name=group))
            user = acting_user
        rbac.require(user, action)
        return user

    async def _fault(self, verb: str, resource: str, namespace: str) -> None:
        fault = self.faults.take(verb, resource, namespace)
        if fault:
            if fault["kind"] in ("error", "throttle"):
                raise as_error(fault)
            await asyncio.sleep(float(fault["seconds"]) if fault["kind"] == "slow" else 86_400)

    async def _websocket(self, scope: Json, receive: Receive, send: Send) -> None:
        """The one thing served over WebSocket is `pods/portforward`; a refusal is an HTTP answer to the handshake."""
        request = read({**scope, "method": "GET"}, b"")

        async def refuse(message: Json) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        await receive()  # websocket.connect
        try:
            user = await self._user(request)
            path = request.path.rstrip("/")
            target = target_of(self.api.registry, path)
            self._authorize(request, action_of(request, target, "get", path), user)
            if target is None or target.subresource != "portforward":
                raise bad_request("this recording API speaks WebSocket at pods/portforward only")
            await self._fault("get", "pods/portforward", target.namespace)
            pod = self.api.get(target.resource, target.namespace, target.name)
            # the subscription comes first: an end between the look and the forwarding must not be missed
            with portforward.deleted(self.api, pod) as ended:
                portforward.require_running(pod, reachable=self._reachable(pod))
                protocol = portforward.choose_protocol(list(scope.get("subprotocols") or []))
                inside = portforward.Inside(pod, self.bridges)
                session: portforward.Tunnel | portforward.Channels
                if protocol == portforward.TUNNEL:
                    session = portforward.Tunnel(inside, send)
                else:
                    session = portforward.Channels(inside, portforward.ports_of(request.query), send)
                await send({"type": "websocket.accept", "subprotocol": protocol})
                await session.run(receive, ended())
                await send({"type": "websocket.close", "code": 1000})
        except ApiError as error:
            await send_json(refuse, error.code, error.status())
        except SpdyError as error:
            await send({"type": "websocket.close", "code": 1002, "reason": str(error)[:100]})

    def _reachable(self, pod: Json) -> bool:
        """Whether the kubelet of a pod's node answers."""
        node = self.api.find("v1", "Node", "", (pod.get("spec") or {}).get("nodeName") or "")
        return node is not None and node_ready(node)

    def _rehearsal(self, request: Request, path: str) -> Any:
        parts = path.strip("/").split("/")
        if parts[1:2] == ["faults"]:
            if request.method == "GET":
                return {"faults": self.faults.entries}
            if request.method == "DELETE":
                self.faults.clear(parts[2] if len(parts) > 2 else "")
                return {"faults": self.faults.entries}
            fault = self.faults.add(request.object())
            if fault["kind"] == "unreachable":
                self.go_unreachable(float(fault["seconds"]))
            return fault
        if parts[1:2] == ["bridges"]:
            if request.method == "POST":
                return self.bridges.add(request.object())
            if request.method == "DELETE":
                self.bridges.clear(parts[2] if len(parts) > 2 else "")
            return {"bridges": self.bridges.entries}
        return self.hooks(request.method, path, request.object() if request.body else None)

"""HTTP: reads a request, finds the resource and the verb, answers with JSON, a Table or a stream of watch events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import yaml

from sandbox.kubernetes import decoding, discovery, openapi, portforward, protobuf, table
from sandbox.kubernetes.admission import eviction
from sandbox.kubernetes.api import Api, Options
from sandbox.kubernetes.auth import Authenticator
from sandbox.kubernetes.authorization import reviews
from sandbox.kubernetes.authorization.rbac import Action
from sandbox.kubernetes.authorization.users import ADMINISTRATOR, Identity, impersonated
from sandbox.kubernetes.controllers.common import node_ready
from sandbox.kubernetes.faults import Faults, as_error
from sandbox.kubernetes.resources import Resource
from sandbox.kubernetes.selectors import field_selector, label_selector
from sandbox.kubernetes.spdy import SpdyError
from sandbox.kubernetes.status import ApiError, bad_request, no_such_path, success
from sandbox.kubernetes.store import Change, copy

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]
Receive = Callable[[], Awaitable[Json]]

log = logging.getLogger(__name__)

_NO_CONTAINERS = ("exec", "attach", "proxy", "log", "ephemeralcontainers")
_WATCH_SECONDS = 1800.0
_BOOKMARK_SECONDS = 30.0


@dataclass
class Request:
    """One HTTP request, read."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    # paths of fields that the body gives twice, once it was read
    doubled: list[str] = field(default_factory=list)
    groups: tuple[str, ...] = ()

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true."""
        return self.query.get(name, "") in ("true", "1", "True")

    def object(self) -> Any:
        """The body as an object: JSON or YAML."""
        kind = self.headers.get("content-type", "application/json").split(";")[0].strip()
        if kind == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.body)
        try:
            if kind in ("application/yaml", "text/yaml"):
                return yaml.safe_load(self.body)
            if kind not in ("application/json", "*/*", ""):
                raise ApiError(
                    415,
                    "UnsupportedMediaType",
                    f"the body of the request was in an unknown format ({kind}) - accepted "
                    "media types include: application/json, application/yaml",
                )
            value, doubled = decoding.read(self.body)
            self.doubled[:] = doubled
            return value
        except (ValueError, yaml.YAMLError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


@dataclass(frozen=True)
class Target:
    """What a path names."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[Resource, str, str]:
        """What `Api` finds an object by."""
        return self.resource, self.namespace, self.name


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
        self._documents: dict[tuple[int, str], bytes] = {}

    async def __call__(self, scope: Json, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
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
        request = _request(scope, body)
        options = _options(request)
        options.doubled = request.doubled
        try:
            await self._serve(request, options, receive, send)
        except ApiError as error:
            extra = {}
            if error.code == 429:
                extra["retry-after"] = str(error.details.get("retryAfterSeconds", 1))
            await _json(send, error.code, error.status(), options.warnings, extra)
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            await _json(send, 500, ApiError(500, "InternalError", f"Internal error occurred: {error!r}").status())

    # ---- routing ---------------------------------------------------------------------------------------------------

    async def _serve(self, request: Request, options: Options, receive: Receive, send: Send) -> None:
        path = request.path.rstrip("/") or "/"
        if path in ("/healthz", "/livez", "/readyz"):
            await _send(send, 200, b"ok", "text/plain")
            return
        user = await self._user(request)
        if path.startswith("/rehearsal/"):
            if "system:masters" not in user.groups:
                raise ApiError(403, "Forbidden", "the rehearsal's own hooks are for its administrator")
            await _json(send, 200, self._rehearsal(request, path))
            return
        target = self._target(path)
        verb = _verb(request, target)
        options.user = self._authorize(request, _action(request, target, verb, path), user)
        if target is not None and verb == "patch" and _applies(request) and not self.api.exists(*target.key):
            self.api.rbac.require(options.user, _action(request, target, "create", path))
        await self._fault(verb, target.resource.plural if target else path, target.namespace if target else "")
        if target is None:
            await self._documents_of(request, path, send)
        elif verb == "watch":
            await self._watch(request, target, receive, send)
        else:
            code, answer = self._act(request, options, target, verb)
            shown = self._shape(request, target.resource, answer) if request.method == "GET" else answer
            await _json(send, code, shown, options.warnings)

    async def _user(self, request: Request) -> Identity:
        user = await self.authenticator.identify(request.headers.get("authorization", ""))
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def _authorize(self, request: Request, action: Action, user: Identity) -> Identity:
        """The user who acts, perhaps as somebody else; raises 403 where they may not."""
        rbac = self.api.rbac
        other = impersonated(request.headers, request.groups)
        if other is not None:
            if other.username.startswith("system:serviceaccount:"):
                _, _, namespace, name = (other.username + "::").split(":")[:4]
                rbac.require(user, Action("impersonate", "", "serviceaccounts", namespace, name))
            else:
                rbac.require(user, Action("impersonate", "", "users", name=other.username))
            for group in request.groups:
                rbac.require(user, Action("impersonate", "", "groups", name=group))
            user = other
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
        request = _request({**scope, "method": "GET"}, b"")

        async def refuse(message: Json) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        await receive()  # websocket.connect
        try:
            user = await self._user(request)
            path = request.path.rstrip("/")
            target = self._target(path)
            self._authorize(request, _action(request, target, "get", path), user)
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
            await _json(refuse, error.code, error.status())
        except SpdyError as error:
            await send({"type": "websocket.close", "code": 1002, "reason": str(error)[:100]})

    def _reachable(self, pod: Json) -> bool:
        """Whether the kubelet of a pod's node answers."""
        node = self.api.find("v1", "Node", "", (pod.get("spec") or {}).get("nodeName") or "")
        return node is not None and node_ready(node)

    def _target(self, path: str) -> Target | None:
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
        resource = self.api.registry.by_path(group, version, rest[0])
        if resource is None:
            raise no_such_path()
        if len(rest) > 3 and not (len(rest) > 2 and rest[2] == "proxy"):
            raise no_such_path()
        subresource = rest[2] if len(rest) > 2 else ""
        if subresource and subresource not in resource.subresources:
            raise no_such_path()
        return Target(resource, namespace, rest[1] if len(rest) > 1 else "", subresource)

    async def _documents_of(self, request: Request, path: str, send: Send) -> None:
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        registry = self.api.registry
        accept = request.headers.get("accept", "")
        parts = path.strip("/").split("/")
        if path in ("/api", "/apis") and "apidiscovery.k8s.io" in accept and "v=v2;" in accept.replace(" ", "") + ";":
            document = discovery.aggregated(registry, core=path == "/api")
            kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            await _send(send, 200, json.dumps(document).encode(), kind)
            return
        if path.startswith("/openapi/"):
            if path == "/openapi/v2" and "protobuf" in accept and "json" not in accept:
                # kubectl falls back to this form for kinds it does not find in v3: an empty document says
                # "nothing here"
                await _send(send, 200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
                return
            await self._openapi(path, parts, send)
            return
        found: Json | None
        if path == "/version":
            found = discovery.version()
        elif path == "/api":
            found = discovery.core_versions()
        elif path == "/apis":
            found = discovery.groups(registry)
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.resources(registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resources(registry, parts[1], parts[2])
        else:
            found = None
        if found is None:
            raise no_such_path()
        await _json(send, 200, found)

    async def _openapi(self, path: str, parts: list[str], send: Send) -> None:
        registry = self.api.registry
        known = (registry.generation, path)
        if known not in self._documents:
            if len(self._documents) > 200:
                self._documents.clear()
            document: Json | None = None
            if path == "/openapi/v2":
                document = openapi.v2(registry)
            elif path == "/openapi/v3":
                document = openapi.index(registry)
            elif parts[2:3] == ["api"] and len(parts) == 4:
                document = openapi.v3(registry, "", parts[3])
            elif parts[2:3] == ["apis"] and len(parts) == 5:
                document = openapi.v3(registry, parts[3], parts[4])
            if document is None:
                raise no_such_path()
            self._documents[known] = json.dumps(document).encode()
        await _send(send, 200, self._documents[known], "application/json")

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

    # ---- verbs -----------------------------------------------------------------------------------------------------

    def _act(self, request: Request, options: Options, target: Target, verb: str) -> tuple[int, Any]:  # noqa: PLR0911, PLR0912
        api, resource, namespace, name = self.api, target.resource, target.namespace, target.name
        if target.subresource in _NO_CONTAINERS:
            raise ApiError(
                501, "NotImplemented", f"this recording API has no containers: {target.subresource} cannot work here"
            )
        if target.subresource == "portforward":
            if "upgrade" not in request.headers:
                raise bad_request("Upgrade request required")
            raise ApiError(
                501,
                "NotImplemented",
                "this recording API forwards ports over WebSocket only: use kubectl 1.31 or newer, "
                "or hyperpod-ray connect",
            )
        if verb not in resource.verbs and not target.subresource:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if resource.namespaced and not namespace and verb not in ("list",):
            raise bad_request("an empty namespace may not be set during creation")
        if target.subresource == "scale":
            return 200, self._scale(request, options, target, verb)
        if target.subresource == "eviction":
            eviction.check(api, api.get(resource, namespace, name))
            self._delete_options(request, options)
            api.delete(resource, namespace, name, options)
            return 201, success()
        if target.subresource == "token":
            raise ApiError(501, "NotImplemented", "this recording API issues no service account tokens")
        if target.subresource == "finalize":
            stored = api.update(resource, namespace, name, request.object(), options)
            return 200, stored
        if verb == "create":
            if not resource.crd and resource.group in ("authorization.k8s.io", "authentication.k8s.io"):
                return 201, reviews.answer(api.rbac, resource, request.object(), options.user or ADMINISTRATOR)
            return 201, api.create(resource, namespace, request.object(), options)
        if verb == "get":
            return 200, api.get(resource, namespace, name)
        if verb == "list":
            return 200, self._list(request, target)
        if verb == "update":
            return 200, api.update(resource, namespace, name, request.object(), options, subresource=target.subresource)
        if verb == "patch":
            kind = request.headers.get("content-type", "").split(";")[0].strip()
            stored, created = api.patch(
                resource, namespace, name, request.body, kind, options, subresource=target.subresource
            )
            return (201 if created else 200), stored
        self._delete_options(request, options)
        if verb == "delete":
            last, gone = api.delete(resource, namespace, name, options)
            if gone and resource.kind != "Pod":
                return 200, success(
                    details={
                        "name": name,
                        "group": resource.group,
                        "kind": resource.plural,
                        "uid": last["metadata"]["uid"],
                    }
                )
            return 200, api.present(resource, api.store.get(api.key(resource, namespace, name)) or last)
        if verb == "deletecollection":
            found = self._list(request, target)
            for obj in found["items"]:
                api.delete(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], options)
            return 200, found
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    @staticmethod
    def _delete_options(request: Request, options: Options) -> None:
        body = request.object() if request.body else {}
        given = {**request.query, **(body if isinstance(body, dict) else {})}
        if given.get("propagationPolicy"):
            options.propagation = str(given["propagationPolicy"])
        elif given.get("orphanDependents") in (True, "true"):
            options.propagation = "Orphan"
        if given.get("gracePeriodSeconds") not in (None, ""):
            options.grace_seconds = int(given["gracePeriodSeconds"])
        options.preconditions = given.get("preconditions") or {}
        options.dry_run = options.dry_run or "All" in (given.get("dryRun") or [])

    def _keep(self, request: Request) -> Callable[[Json], bool]:
        labels = label_selector(request.query["labelSelector"]) if request.query.get("labelSelector") else None
        fields = field_selector(request.query["fieldSelector"]) if request.query.get("fieldSelector") else None

        def keep(obj: Json) -> bool:
            return (labels is None or labels(obj["metadata"].get("labels") or {})) and (fields is None or fields(obj))

        return keep

    def _list(self, request: Request, target: Target) -> Json:
        # `limit` is not obeyed: a server may return everything at once
        keep = self._keep(request)
        if target.name:
            found = [
                o
                for o in self.api.select(target.resource, target.namespace, keep)
                if o["metadata"]["name"] == target.name
            ]
        else:
            found = self.api.select(target.resource, target.namespace, keep)
        meta = {"resourceVersion": str(self.api.store.version)}
        resource = target.resource
        return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": found}

    def _scale(self, request: Request, options: Options, target: Target, verb: str) -> Json:
        resource, namespace, name = target.resource, target.namespace, target.name
        obj = self.api.get(resource, namespace, name)
        if verb in ("update", "patch"):
            body = request.object() if verb == "update" else json.loads(request.body)
            replicas = (body.get("spec") or {}).get("replicas")
            if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
                raise bad_request(f"spec.replicas must be a number that is not negative, got {replicas!r}")
            changed = copy(obj)
            changed["spec"]["replicas"] = replicas
            obj = self.api.update(resource, namespace, name, changed, options)
        labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
        meta = {k: obj["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": meta,
            "spec": {"replicas": obj["spec"].get("replicas", 0)},
            "status": {
                "replicas": (obj.get("status") or {}).get("replicas", 0),
                "selector": ",".join(f"{k}={v}" for k, v in labels.items()),
            },
        }

    # ---- tables ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _view(request: Request) -> str:
        for part in request.headers.get("accept", "").split(","):
            text = part.replace(" ", "")
            if "as=Table" in text and "v=v1" in text.split(";"):
                return "Table"
            if "as=PartialObjectMetadata" in text:
                return "PartialObjectMetadata"
            if text.split(";")[0] in ("application/json", "*/*") and "as=" not in text:
                return ""
        return ""

    def _shape(self, request: Request, resource: Resource, answer: Json) -> Json:
        view = self._view(request)
        is_list = "items" in answer and answer.get("kind", "").endswith("List")
        if view == "Table" and "list" in resource.verbs and answer.get("kind") != "Scale":
            objects = answer["items"] if is_list else [answer]
            meta = answer["metadata"] if is_list else {"resourceVersion": answer["metadata"]["resourceVersion"]}
            return table.table(resource, objects, meta, include=request.query.get("includeObject", "Metadata"))
        if view.startswith("PartialObjectMetadata"):
            if is_list:
                items = [_partial(o) for o in answer["items"]]
                return {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": answer["metadata"],
                    "items": items,
                }
            return _partial(answer)
        if is_list:
            return {**answer, "items": answer["items"]}
        return answer

    # ---- watch -----------------------------------------------------------------------------------------------------

    async def _watch(self, request: Request, target: Target, receive: Receive, send: Send) -> None:
        resource, api = target.resource, self.api
        select = self._keep(request)

        def keep(obj: Json) -> bool:
            meta = obj["metadata"]
            return (
                (not target.namespace or meta.get("namespace") == target.namespace)
                and (not target.name or meta["name"] == target.name)
                and select(api.present(resource, obj))
            )

        version = request.query.get("resourceVersion", "")
        initial = request.query.get("sendInitialEvents")
        backlog: list[Change] = []
        first: list[Json] = []
        queue = api.store.subscribe()
        try:
            if initial == "true" or (initial is None and version in ("", "0")):
                first = [o for o in api.store.objects(resource.store) if keep(o)]
            elif version not in ("", "0"):
                backlog = api.watch_from(version)
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            for obj in first:
                await self._event(request, resource, "ADDED", obj, send)
            if initial == "true":
                mark = _bookmark(resource, api.store.version)
                mark["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
                await self._event(request, resource, "BOOKMARK", mark, send)
            for change in backlog:
                await self._change(request, resource, change, keep, send)
            await self._follow(request, resource, queue, keep, receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            api.store.unsubscribe(queue)

    async def _follow(  # noqa: PLR0917
        self,
        request: Request,
        resource: Resource,
        queue: asyncio.Queue[Change],
        keep: Callable[[Json], bool],
        receive: Receive,
        send: Send,
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds") or _WATCH_SECONDS)
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            while (left := end - loop.time()) > 0:
                waiting = asyncio.ensure_future(queue.get())
                done, _ = await asyncio.wait(
                    {waiting, gone}, timeout=min(left, _BOOKMARK_SECONDS), return_when=asyncio.FIRST_COMPLETED
                )
                if waiting in done:
                    await self._change(request, resource, waiting.result(), keep, send)
                else:
                    waiting.cancel()
                    if not done and request.flag("allowWatchBookmarks"):
                        await self._event(
                            request, resource, "BOOKMARK", _bookmark(resource, self.api.store.version), send
                        )
                if gone in done:
                    return
        finally:
            gone.cancel()

    async def _change(
        self, request: Request, resource: Resource, change: Change, keep: Callable[[Json], bool], send: Send
    ) -> None:
        if change.key[0] != resource.store:
            return
        was = change.old is not None and keep(change.old)
        now_ = change.new is not None and keep(change.new)
        if now_:
            await self._event(request, resource, "MODIFIED" if was else "ADDED", change.last, send)
        elif was:
            # what left the selection is reported as it was, at the version of the change
            last = (
                change.last
                if change.new is None
                else {
                    **(change.old or {}),
                    "metadata": {**(change.old or {})["metadata"], "resourceVersion": str(change.version)},
                }
            )
            await self._event(request, resource, "DELETED", last, send)

    async def _event(self, request: Request, resource: Resource, kind: str, obj: Json, send: Send) -> None:
        shown = self.api.present(resource, obj)
        if kind == "BOOKMARK":
            if self._view(request) == "Table":
                shown = {
                    "kind": "Table",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
                    "columnDefinitions": None,
                    "rows": [],
                }
        else:
            shown = self._shape(request, resource, shown)
        body = json.dumps({"type": kind, "object": shown}).encode() + b"\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})


# ---- small functions -----------------------------------------------------------------------------------------------


def _bookmark(resource: Resource, version: int) -> Json:
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _applies(request: Request) -> bool:
    """Whether a patch is a server-side apply, which may create."""
    return request.headers.get("content-type", "").startswith("application/apply-patch")


def _action(request: Request, target: Target | None, verb: str, path: str) -> Action:
    """What a request does, as roles name it."""
    if target is None:
        return Action(verb, path=path)
    resource = target.resource
    full = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    namespace = target.name if resource.kind == "Namespace" and not resource.group else target.namespace
    return Action(verb, resource.group, full, namespace, target.name)


def _request(scope: Json, body: bytes) -> Request:
    return Request(
        method=scope["method"],
        path=scope["path"],
        query={k: v[-1] for k, v in parse_qs(scope["query_string"].decode(), keep_blank_values=True).items()},
        headers={k.decode().lower(): v.decode() for k, v in scope["headers"]},
        body=body,
        groups=tuple(v.decode() for k, v in scope["headers"] if k.decode().lower() == "impersonate-group"),
    )


def _verb(request: Request, target: Target | None) -> str:
    if target is None:
        return request.method.lower()
    if request.method in ("GET", "HEAD"):
        if request.flag("watch"):
            return "watch"
        return "get" if target.name else "list"
    words = {
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete" if target.name else "deletecollection",
    }
    if request.method not in words:
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    return words[request.method]


def _options(request: Request) -> Options:
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    return Options(
        dry_run=request.query.get("dryRun") == "All",
        manager=request.query.get("fieldManager")
        or (agent if request.headers.get("content-type", "") != "application/apply-patch+yaml" else ""),
        validation=request.query.get("fieldValidation") or "Warn",
        force=request.flag("force"),
    )


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, code: int, body: bytes, kind: str, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _json(
    send: Send, code: int, body: Any, warnings: list[str] | None = None, extra: dict[str, str] | None = None
) -> None:
    headers = [
        (b"warning", ('299 - "' + w.replace("\\", "\\\\").replace('"', '\\"') + '"').encode()) for w in warnings or []
    ]
    headers += [(k.encode(), v.encode()) for k, v in (extra or {}).items()]
    await _send(send, code, json.dumps(body).encode(), "application/json", headers)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

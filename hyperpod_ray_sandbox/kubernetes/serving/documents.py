"""What is no object: versions, discovery and OpenAPI."""

from __future__ import annotations

import json
from typing import Any

from hyperpod_ray_sandbox.kubernetes import discovery, openapi
from hyperpod_ray_sandbox.kubernetes.resources import Registry
from hyperpod_ray_sandbox.kubernetes.serving import outside
from hyperpod_ray_sandbox.kubernetes.serving.answers import Send, send_bytes, send_json
from hyperpod_ray_sandbox.kubernetes.serving.request import Request
from hyperpod_ray_sandbox.kubernetes.status import ApiError, no_such_path

Json = dict[str, Any]


class Documents:
    """The documents of one registry; those of OpenAPI are rendered once for each of its generations."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._rendered: dict[tuple[int, str], bytes] = {}

    async def answer(self, request: Request, path: str, send: Send) -> None:
        """Answer a path that names no resource; raises 404 where it names no document either."""
        if request.method not in ("GET", "HEAD"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        accept = request.headers.get("accept", "")
        parts = path.strip("/").split("/")
        if path in ("/api", "/apis") and "apidiscovery.k8s.io" in accept and "v=v2;" in accept.replace(" ", "") + ";":
            document = discovery.aggregated(self._registry, core=path == "/api")
            media_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            await send_bytes(send, 200, json.dumps(document).encode(), media_type)
            return
        if path.startswith("/openapi/"):
            if path == "/openapi/v2" and "protobuf" in accept and "json" not in accept:
                # kubectl falls back to this form for kinds it does not find in v3: an empty document says
                # "nothing here"
                await send_bytes(send, 200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
                return
            await self._openapi(path, parts, send)
            return
        body = self._body(path, parts)
        if body is None:
            outside.refuse_path(path)
            raise no_such_path()
        await send_json(send, 200, body)

    def _body(self, path: str, parts: list[str]) -> Json | None:
        """The document of a path of discovery."""
        registry, body = self._registry, None
        if path == "/":
            body = {"paths": discovery.paths(registry)}
        elif path == "/version":
            body = discovery.version()
        elif path == "/api":
            body = discovery.core_versions()
        elif path == "/apis":
            body = discovery.groups(registry)
        elif parts[0] == "api" and len(parts) == 2:
            body = discovery.resources(registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            body = discovery.group(registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            body = discovery.resources(registry, parts[1], parts[2])
        return body

    async def _openapi(self, path: str, parts: list[str], send: Send) -> None:
        registry = self._registry
        cache_key = (registry.generation, path)
        if cache_key not in self._rendered:
            if len(self._rendered) > 200:
                self._rendered.clear()
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
            self._rendered[cache_key] = json.dumps(document).encode()
        await send_bytes(send, 200, self._rendered[cache_key], "application/json")

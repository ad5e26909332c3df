"""Faults for every API call, MiniStack's own services included: errors in the form each protocol has."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs

import botocore.exceptions
import botocore.model

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.faults import Fault
from hyperpod_ray_sandbox.aws.emulator.model import LOADER

Json = dict[str, Any]
# MiniStack's name of a service where it is not botocore's
BOTOCORE_NAMES = {"monitoring": "cloudwatch", "states": "stepfunctions", "servicequotas": "service-quotas"}

_CBOR = "smithy-protocol"
"""The header of requests in CBOR, which newer SDKs send to CloudWatch."""


def inject(context: Context) -> None:
    """Put the faults before every service handler."""
    handlers = context.hooks.app.SERVICE_HANDLERS
    for service, handler in list(handlers.items()):
        handlers[service] = _faulty(context, service, handler)


def _faulty(context: Context, service: str, handler: Any) -> Any:
    operations = _Operations(service)
    names = {service, BOTOCORE_NAMES.get(service, service)}

    async def handle(method: str, path: str, headers: Json, body: bytes, query: Any) -> Any:
        if any(context.faults.concerns(name) for name in names):
            operation = operations.of(method, path, headers, body, query)
            for name in names:
                fault = context.faults.take(name, operation)
                if fault:
                    await context.faults.delay(fault)
                    if fault.code:
                        return operations.error(fault, headers)
        return await handler(method, path, headers, body, query)

    return handle


class _Operations:
    """Which operation a request is, and how an error of its service looks."""

    def __init__(self, service: str) -> None:
        self._service = BOTOCORE_NAMES.get(service, service)
        self._model: Any = None

    def _load(self) -> Any:
        if self._model is None:
            try:
                description = LOADER.load_service_model(self._service, "service-2")
            except botocore.exceptions.UnknownServiceError:
                description = {"metadata": {"protocol": "json"}, "operations": {}}
            self._model = botocore.model.ServiceModel(description, self._service)
        return self._model

    def of(self, method: str, path: str, headers: Json, body: bytes, query: Any) -> str:
        target = str(headers.get("x-amz-target", ""))
        if target:
            return target.rpartition(".")[2]
        if _CBOR in headers:  # https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html
            return path.rpartition("/operation/")[2]
        action = (query or {}).get("Action") or parse_qs(body.decode("utf-8", "replace")).get("Action")
        if action:
            return str(action[0] if isinstance(action, list) else action)
        names = {str(k).lower() for k in (*headers, *(query or {}))}
        matches = [n for n in self._load().operation_names if self._is(n, method, path, names)]
        # of several that fit, the one that asks for most of what is there
        return max(matches, key=lambda n: len(self._asks_for(n)), default="")

    def _is(self, operation: str, method: str, path: str, names: set[str]) -> bool:
        http = self._load().operation_model(operation).http
        template = re.escape(http["requestUri"].partition("?")[0])
        pattern = re.sub(r"\\\{[^}]*?(\\\+)?\\\}", lambda m: ".+" if m[1] else "[^/]+", template)
        fits = http["method"] == method and re.fullmatch(pattern + "/?", path) is not None
        return fits and self._asks_for(operation) <= names

    def _asks_for(self, operation: str) -> set[str]:
        """Return the query parameters and headers without which a request is not this operation."""
        model = self._load().operation_model(operation)
        query = model.http["requestUri"].partition("?")[2]
        required = {part.partition("=")[0].lower() for part in query.split("&") if part}
        shape = model.input_shape
        for name in shape.required_members if shape else []:
            serialization = shape.members[name].serialization
            if serialization.get("location") in ("header", "querystring"):
                required.add(serialization["name"].lower())
        return required

    def error(self, fault: Fault, headers: Json) -> tuple[int, Json, bytes]:
        """Return what the service's clients read: status, headers, and a body in the protocol of the request."""
        if _CBOR in headers:
            return fault.status, {"Content-Type": "application/cbor", _CBOR: headers[_CBOR]}, _cbor(fault)
        protocol = self._load().metadata.get("protocol", "json")
        if protocol in ("query", "ec2", "rest-xml"):
            inner = f"<Code>{fault.code}</Code><Message>{fault.message}</Message>"
            wrapped = {
                "ec2": f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>injected</RequestID></Response>",
                "rest-xml": f"<Error>{inner}<RequestId>injected</RequestId></Error>",
            }.get(protocol, f"<ErrorResponse><Error>{inner}</Error><RequestId>injected</RequestId></ErrorResponse>")
            return fault.status, {"Content-Type": "text/xml"}, wrapped.encode()
        body = json.dumps({"__type": fault.code, "message": fault.message}).encode()
        return fault.status, {"Content-Type": "application/json", "x-amzn-errortype": fault.code}, body


def _cbor(fault: Fault) -> bytes:
    """An error as a map of CBOR: https://www.rfc-editor.org/rfc/rfc8949#section-3.1 (5: a map, 3: text)."""
    words = [word.encode() for word in ("__type", fault.code, "message", fault.message)]
    return b"\xa2" + b"".join(b"\x79" + len(word).to_bytes(2, "big") + word for word in words)

"""A class with methods named as operations, served as an AWS service that speaks JSON."""

from __future__ import annotations

import json
import logging
from typing import Any, Protocol

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.model import Model

Json = dict[str, Any]
log = logging.getLogger("emulator")


class Operations(Protocol):
    """What a service class says of itself. It answers operations itself, or by its `parts`."""

    botocore_name: str


class JsonService:
    """Validates a request against botocore's model, answers it, and validates the answer."""

    def __init__(self, context: Context, operations: Operations) -> None:
        self.model = Model(operations.botocore_name)
        self._context = context
        self._operations = operations
        self.name = operations.botocore_name

    def call(self, operation: str, data: Json) -> Json:
        """Answer one operation; `ServiceError` is what a client would see."""
        if operation not in self.model.operations:
            raise ServiceError("UnknownOperationException", f"{self.name} has no operation {operation!r}")
        parts = (self._operations, *getattr(self._operations, "parts", ()))
        method = next((handler for part in parts if (handler := getattr(part, operation, None))), None)
        if method is None:
            raise ServiceError("NotImplemented", f"{self.name}.{operation} is not emulated", 501)
        self.model.check_input(operation, data)
        with self._context.lock:
            answer: Json = method(data)
        self.model.check_output(operation, answer)
        return answer

    def mount(self, scope: str) -> None:
        """Make MiniStack route this service's requests here; `scope` is the name requests are signed for."""
        hooks = self._context.hooks
        prefix = f"{self.model.target_prefix}."
        hooks.router.SERVICE_PATTERNS[scope] = {"target_prefixes": [prefix], "host_patterns": [rf"^{self.name}\."]}
        hooks.iam_actions.SERVICE_TO_IAM_NAMESPACE[scope] = scope
        hooks.app.SERVICE_HANDLERS[scope] = self._handle
        self._judge_by_resource(scope)

    def share(self, scope: str, operations: frozenset[str]) -> None:
        """Answer some operations of a service that MiniStack has; it keeps the others."""
        handlers = self._context.hooks.app.SERVICE_HANDLERS
        theirs = handlers[scope]

        async def handle(method: str, path: str, headers: dict[str, str], body: bytes, query: Any) -> Any:
            shared = headers.get("x-amz-target", "").rpartition(".")[2] in operations
            return await (self._handle if shared else theirs)(method, path, headers, body, query)

        handlers[scope] = handle
        self._judge_by_resource(scope)

    def _judge_by_resource(self, scope: str) -> None:
        """Let policies name this service's resources."""
        hooks = self._context.hooks
        resource = getattr(self._operations, "resource", None)
        if resource is None:
            return
        original = hooks.iam_actions.extract_resource_arn

        def extract(service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any) -> str:
            """Answer the ARN that a policy must allow; MiniStack knows none of this service's."""
            if service != scope:
                return str(original(service, method, path, headers, body, *rest))
            try:
                data = json.loads(body or b"{}")
            except ValueError:
                data = None
            arn = resource(data) if isinstance(data, dict) else "*"
            return str(original(service, method, path, headers, body, *rest) if arn is None else arn)

        hooks.iam_actions.extract_resource_arn = extract

    async def _handle(
        self, _method: str, _path: str, headers: dict[str, str], body: bytes, _query: Any
    ) -> tuple[int, dict[str, str], bytes]:
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        content_type = {"Content-Type": "application/x-amz-json-1.1"}
        try:
            answer = self.call(operation, json.loads(body or b"{}"))
        except ServiceError as error:
            extra = {"x-amzn-errortype": error.code}
            return error.status, {**content_type, **extra}, _dump({"__type": error.code, "message": error.message})
        except AssertionError as error:  # our own answer is wrong: say so instead of hiding it
            log.exception("invalid answer")
            return 500, content_type, _dump({"__type": "InternalFailure", "message": str(error)})
        return 200, content_type, _dump(answer)


def _dump(data: Json) -> bytes:
    return json.dumps(data).encode()

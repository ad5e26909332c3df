"""Faults on demand, set over HTTP at `/rehearsal/faults`: what goes wrong, for which verb and resource, how often."""

from __future__ import annotations

import secrets
from typing import Any

from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request

Json = dict[str, Any]

KINDS = ("error", "throttle", "slow", "hang", "unreachable")
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Faults:
    """The faults in force.

    A fault is `{"kind": …, "verb": "list"|"*", "resource": "pods"|"*", "namespace": "*", "count": n, …}`; without
    `count` it stays until it is deleted.

    `resource` is the plural; the handshake of a port-forward is the verb `get` on `pods/portforward`.

    | kind | does | further fields |
    |---|---|---|
    | error | answers with a Status | `status` (default 500), `message` |
    | throttle | answers 429 with Retry-After | `retry_after_seconds` (default 1) |
    | slow | answers after a while | `seconds` |
    | hang | never answers | |
    | unreachable | refuses every connection for a while | `seconds` |
    """

    def __init__(self) -> None:
        self.entries: list[Json] = []

    def add(self, fault: Any) -> Json:
        """Put a fault in force; raises 400 for one that cannot be read."""
        if not isinstance(fault, dict) or fault.get("kind") not in KINDS:
            raise bad_request(f"a fault needs a kind, one of {', '.join(KINDS)}")
        fields = {
            "kind",
            "verb",
            "resource",
            "namespace",
            "count",
            "status",
            "message",
            "retry_after_seconds",
            "seconds",
        }
        if set(fault) - fields:
            raise bad_request(f"unknown field in fault: {', '.join(sorted(set(fault) - fields))}")
        for name in ("count", "status", "retry_after_seconds", "seconds"):
            if name in fault and (
                isinstance(fault[name], bool) or not isinstance(fault[name], int | float) or fault[name] < 0
            ):
                raise bad_request(f"{name} must be a number that is not negative, got {fault[name]!r}")
        if fault["kind"] in ("slow", "unreachable") and "seconds" not in fault:
            raise bad_request(f"a fault of kind {fault['kind']!r} needs seconds")
        record = {"id": secrets.token_hex(4), "verb": "*", "resource": "*", "namespace": "*", **fault, "hits": 0}
        if record["kind"] != "unreachable":
            self.entries.append(record)
        return record

    def clear(self, identifier: str = "") -> None:
        """Lift one fault, or all."""
        self.entries = [e for e in self.entries if identifier and e["id"] != identifier]

    def take(self, verb: str, resource: str, namespace: str) -> Json | None:
        """The fault that hits this request, counted down."""
        for fault in self.entries:
            request = (("verb", verb), ("resource", resource), ("namespace", namespace))
            if all(fault[name] in ("*", value) for name, value in request):
                fault["hits"] += 1
                if "count" in fault:
                    fault["count"] -= 1
                    if fault["count"] <= 0:
                        self.entries.remove(fault)
                return fault
        return None


def as_error(fault: Json) -> ApiError:
    """The answer of an `error` or `throttle` fault."""
    if fault["kind"] == "throttle":
        details = {"retryAfterSeconds": int(fault.get("retry_after_seconds", 1))}
        return ApiError(429, "TooManyRequests", "the server has received too many requests (injected)", details)
    code = int(fault.get("status", 500))
    return ApiError(code, _REASONS.get(code, "InternalError"), str(fault.get("message", "injected fault")))

"""What expressions of admission ask the authorizer: whether the user, or a service account, may do something.

`Check` is the question so far, as a plain value. Source: k8s.io/apiserver, pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Json = dict[str, Any]
Check = dict[str, Any]
Allowed = Callable[[Check], tuple[bool, str]]
"""Whether somebody may, and why."""

_ALLOWED: ContextVar[Allowed] = ContextVar("allowed")


@contextmanager
def answered_by(allowed: Allowed) -> Iterator[None]:
    """Let `allowed` answer what expressions ask inside the block."""
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def variable(username: str, groups: tuple[str, ...], request: Json) -> Json:
    """The `authorizer` of a request, which asks about its user."""
    user = {"user": username, "groups": list(groups)}
    resource = request["resource"]
    asked = {
        "group": resource["group"],
        "resource": resource["resource"],
        "subresource": request.get("subResource", ""),
        "namespace": request.get("namespace", ""),
        "name": request.get("name", ""),
    }
    return {**user, "requestResource": {**user, **asked}}


def service_account(check: Check, namespace: str, name: str) -> Check:
    """The authorizer of a service account."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}


def narrowed(part: str) -> Callable[[Check, str], Check]:
    """A function that adds a part to a question."""

    def narrow(check: Check, value: str) -> Check:
        if part in ("path", "resource") and not value.strip():
            raise ValueError(f"{part} must not be empty")
        return {**{key: inner for key, inner in check.items() if key != "requestResource"}, part: value}

    return narrow


def decided(check: Check, verb: str) -> Json:
    """The decision."""
    allowed, reason = _ALLOWED.get()({**check, "verb": verb})
    return {"allowed": allowed, "reason": reason}

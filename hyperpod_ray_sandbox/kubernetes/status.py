"""Errors as the API server words them: every refusal is a `Status` object with a reason, a code and causes.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """One field that is wrong: `reason` is the API server's word (FieldValueRequired, FieldValueInvalid, …)."""

    reason: str
    message: str
    field: str = ""

    def line(self) -> str:
        """The cause as it reads inside the message of an Invalid error."""
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiError(Exception):
    """A request that is refused; `status()` is the body of the answer."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> Json:
        """The `Status` object sent to the client."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            "details": self.details,
            "code": self.code,
        }


def qualified(plural: str, group: str) -> str:
    """`deployments.apps`, or just `pods` for the core group."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404 for an object that does not exist."""
    details = {"name": name, "group": group, "kind": plural}
    return ApiError(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', details)


def no_such_path() -> ApiError:
    """404 for a path that is not served, with the API server's own sentence."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 for a create of a name that is taken."""
    details = {"name": name, "group": group, "kind": plural}
    return ApiError(409, "AlreadyExists", f'{qualified(plural, group)} "{name}" already exists', details)


def stale(plural: str, group: str, name: str) -> ApiError:
    """409 for a write based on an old resourceVersion."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        {"name": name, "group": group, "kind": plural},
    )


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> ApiError:
    """422 with one cause per wrong field."""
    lines = [cause.line() for cause in causes]
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    return ApiError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        {
            "name": name,
            "group": group,
            "kind": kind,
            "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes],
        },
    )


def bad_request(message: str) -> ApiError:
    """400 for a body or a query that cannot be read."""
    return ApiError(400, "BadRequest", message)


class UnreadableError(ApiError):
    """400 for an object that cannot be decoded: unknown fields under Strict, or values of another type."""

    def __init__(self, prefix: str, why: str) -> None:
        super().__init__(400, "BadRequest", prefix + why)
        self.why = why


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    """403 with the reason."""
    details = {"name": name, "group": group, "kind": plural}
    return ApiError(403, "Forbidden", f'{qualified(plural, group)} "{name}" is forbidden: {why}', details)


def success(code: int = 200, details: Json | None = None) -> Json:
    """The `Status` object of a request that leaves no object to return."""
    stated = {key: value for key, value in (details or {}).items() if value}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": stated} if stated else {}),
        **({"code": code} if code != 200 else {}),
    }

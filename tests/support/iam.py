"""IAM's decision on one request, from policy documents as a template has them.

Only what this project's policies use, and nothing silently: an operator or element that is not known here raises.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Statement = Mapping[str, Any]
KNOWN = {"Sid", "Effect", "Action", "NotAction", "Resource", "Principal", "Condition"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """Somebody asks for one action on one resource. `context` are condition keys, several values as a list."""

    action: str
    resource: str = "*"
    service: str = ""
    """Service principal that asks; empty for an identity whose own policies are judged."""
    context: Mapping[str, str | list[str]] = field(default_factory=dict)


def decide(statements: Iterable[Statement], request: Request) -> str:
    """`allowed`, `denied` (by a Deny) or `not allowed` (by nothing)."""
    matching = [statement for statement in statements if _matches(statement, request)]
    if any(statement["Effect"] == "Deny" for statement in matching):
        return "denied"
    return "allowed" if any(statement["Effect"] == "Allow" for statement in matching) else "not allowed"


def allows(statements: Iterable[Statement], request: Request) -> bool:
    """Whether the request is allowed and nothing denies it."""
    return decide(statements, request) == "allowed"


def statements_of(*documents: Mapping[str, Any]) -> list[Statement]:
    """The statements of policy documents."""
    return [statement for document in documents for statement in many(document["Statement"])]


def many(value: Any) -> list[Any]:
    """A list of what a policy may write as a list or as one."""
    return list(value) if isinstance(value, list) else [value]


def _matches(statement: Statement, request: Request) -> bool:
    unknown = set(statement) - KNOWN
    if unknown:
        raise NotImplementedError(f"element {sorted(unknown)}")
    if "Action" in statement:
        acts = any(like(pattern.lower(), request.action.lower()) for pattern in many(statement["Action"]))
    else:
        acts = not any(like(pattern.lower(), request.action.lower()) for pattern in many(statement["NotAction"]))
    return (
        acts
        and any(like(pattern, request.resource) for pattern in many(statement.get("Resource", "*")))
        and _principal(statement.get("Principal"), request)
        and all(_condition(operator, keys, request) for operator, keys in statement.get("Condition", {}).items())
    )


def _principal(principal: Any, request: Request) -> bool:
    if principal is None:
        return not request.service  # an identity's own policy
    if principal == "*":
        return True
    if not isinstance(principal, Mapping):
        raise NotImplementedError(f"principal {principal}")
    return request.service in [name for name in many(principal.get("Service", [])) if name]


def _condition(operator: str, keys: Mapping[str, Any], request: Request) -> bool:
    context = {key.lower(): value for key, value in request.context.items()}
    return all(_test(operator, many(wanted), context.get(key.lower())) for key, wanted in keys.items())


def _test(operator: str, wanted: Sequence[Any], given: str | list[str] | None) -> bool:
    name, if_exists = operator.removesuffix("IfExists"), operator.endswith("IfExists")
    if name == "Null":
        return (given is None) == (str(wanted[0]).lower() == "true")
    quantifier, _, base = name.rpartition(":")
    negative = "Not" in base
    if given is None:
        # a missing key: positive operators fail, negative ones and IfExists hold
        return if_exists or negative or quantifier == "ForAllValues"
    values = many(given)
    hits = [any(_compare(base, str(pattern), value) for pattern in wanted) for value in values]
    if negative:
        hits = [not hit for hit in hits]
    if quantifier == "ForAnyValue":
        return any(hits)
    if quantifier not in ("", "ForAllValues"):
        raise NotImplementedError(operator)
    return all(hits)


def _compare(base: str, pattern: str, value: str) -> bool:
    match base.replace("Not", ""):
        case "StringEquals":
            return pattern == value
        case "StringLike":
            return like(pattern, value)
        case "ArnEquals" | "ArnLike":
            # each of the six parts by itself
            parts, given = pattern.split(":", 5), value.split(":", 5)
            return len(parts) == len(given) and all(like(p, v) for p, v in zip(parts, given, strict=True))
        case "Bool":
            return pattern.lower() == value.lower()
        case _:
            raise NotImplementedError(base)


def like(pattern: str, value: str) -> bool:
    """IAM's wildcards: `*` any run, `?` one character."""
    expression = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, value, re.DOTALL) is not None

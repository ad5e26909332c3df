"""The options of a request: read from its query or body, and refused where the API server refuses them.

Source: k8s.io/apimachinery/pkg/apis/meta/v1/validation, pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, applies
from hyperpod_ray_sandbox.kubernetes.status import bad_request, invalid
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_GROUP = "meta.k8s.io"
_PROPAGATION = ("Foreground", "Background", "Orphan", "nil")
_MANAGER_BYTES = 128


def check_write(request: Request, verb: str) -> None:
    """Refuse words that no create, update or patch knows; raises 422."""
    kind = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}.get(verb)
    if kind is None:
        return
    causes, query = Causes(), request.query
    if verb == "patch":
        if applies(request):
            if not query.get("fieldManager"):
                causes.required("fieldManager", "is required for apply patch")
        elif query.get("force"):
            causes.forbidden("force", "may not be specified for non-apply patch")
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > _MANAGER_BYTES:
        causes.long("fieldManager", _MANAGER_BYTES)
    elif not manager.isprintable():
        causes.invalid("fieldManager", manager, "should not contain non-printable characters")
    _dry_run(causes, request.query_lists.get("dryRun"))
    causes.one_of("fieldValidation", query.get("fieldValidation"), ("Ignore", "Strict", "Warn", ""))
    if causes:
        raise invalid(kind, _GROUP, "", causes)


def _dry_run(causes: Causes, words: Any) -> None:
    if words and any(word != "All" for word in words):
        causes.unsupported("dryRun", list(words), ("All",))


def delete_options(request: Request, options: Options, body: Json | None = None) -> None:
    """Read the options of a delete: of its body where it has one, else of its query. Raises 400 or 422."""
    if body is None:
        body = _body(request)
    if body is None:
        body = {field: request.query[field] for field in _TEXTS if field in request.query}
        body |= {"dryRun": request.query_lists["dryRun"]} if request.query_lists.get("dryRun") else {}
    causes = Causes()
    policy, orphans = body.get("propagationPolicy"), body.get("orphanDependents")
    if policy is not None and orphans is not None:
        causes.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
    if policy is not None and policy not in _PROPAGATION[:3]:
        causes.unsupported("propagationPolicy", policy, _PROPAGATION)
    _dry_run(causes, body.get("dryRun"))
    if causes:
        raise invalid("DeleteOptions", _GROUP, "", causes)
    if policy:
        options.propagation = str(policy)
    elif orphans is not None and orphans is not False and str(orphans).lower() not in ("0", "false"):
        options.propagation = "Orphan"
    if body.get("gracePeriodSeconds") is not None:
        options.grace_seconds = _seconds(body["gracePeriodSeconds"])
    options.preconditions = body.get("preconditions") or {}
    if not request.body:  # the query has them without the name of the field around them
        options.preconditions = {
            field: request.query[field] for field in ("uid", "resourceVersion") if field in request.query
        }
    options.dry_run = bool(body.get("dryRun"))


_BODY_TYPES = {
    "dryRun": list,
    "preconditions": dict,
    "propagationPolicy": str,
    "gracePeriodSeconds": int,
    "orphanDependents": bool,
}
_TEXTS = ("propagationPolicy", "orphanDependents", "gracePeriodSeconds")


def _body(request: Request) -> Json | None:
    if not request.body:
        return None
    body = request.object()
    if not isinstance(body, dict) or body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    for field, expected in _BODY_TYPES.items():
        if body.get(field) is not None and type(body[field]) is not expected:
            raise bad_request(f"json: cannot unmarshal into Go struct field DeleteOptions.{field}: {body[field]!r}")
    for field in ("uid", "resourceVersion"):
        if not isinstance((body.get("preconditions") or {}).get(field, ""), str | None):
            raise bad_request(f"json: cannot unmarshal into Go struct field Preconditions.preconditions.{field}")
    return body


def _seconds(value: Any) -> int:
    try:
        if isinstance(value, bool | float):
            raise ValueError
        seconds = int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None
    return max(seconds, 1) if seconds < 0 else seconds


def number(request: Request, name: str) -> int:
    """A query parameter that is a whole number of 64 bits; 0 without it. Raises 400."""
    text = request.query.get(name, "0")
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if not -(1 << 63) <= int(text) < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def check_list(request: Request) -> None:
    """Refuse options of a list or a watch that contradict each other; raises 400 or 422."""
    causes, query = Causes(), request.query
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    number(request, "limit")
    number(request, "timeoutSeconds")
    initial, watch = query.get("sendInitialEvents"), request.flag("watch")
    if initial is not None:
        if not watch:
            causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        elif match != "NotOlderThan":
            causes.forbidden(
                "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
    elif watch and query.get("continue"):
        causes.forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    elif match:
        if watch:
            causes.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        elif not version:
            causes.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        elif query.get("continue"):
            causes.forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        elif match not in ("Exact", "NotOlderThan"):
            causes.unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        elif match == "Exact" and version == "0":
            causes.forbidden(
                "resourceVersionMatch", 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
            )
    if causes:
        raise invalid("ListOptions", _GROUP, "", causes)

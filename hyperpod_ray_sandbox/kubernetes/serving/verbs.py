"""The verbs on one target, but for watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.admission import eviction
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.authorization import reviews
from hyperpod_ray_sandbox.kubernetes.authorization.users import ADMINISTRATOR
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.selectors import field_selector, label_selector
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request, success
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]

_NO_CONTAINERS = ("exec", "attach", "proxy", "log", "ephemeralcontainers")


def act(  # noqa: PLR0911, PLR0912
    api: Api, request: Request, options: Options, target: Target, verb: str
) -> tuple[int, Any]:
    """Do what a request asks; return the HTTP status and the answer."""
    resource, namespace, name = target.resource, target.namespace, target.name
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
            "this recording API forwards ports over WebSocket only: use kubectl 1.31 or newer, or hyperpod-ray connect",
        )
    if verb not in resource.verbs and not target.subresource:
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    if resource.namespaced and not namespace and verb not in ("list",):
        raise bad_request("an empty namespace may not be set during creation")
    if target.subresource == "scale":
        return 200, _scale(api, request, options, target, verb)
    if target.subresource == "eviction":
        eviction.check(api, api.get(resource, namespace, name))
        _delete_options(request, options)
        api.delete(resource, namespace, name, options)
        return 201, success()
    if target.subresource == "token":
        return 201, api.tokens.issue(api.get(resource, namespace, name), request.object())
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
        return 200, _list(api, request, target)
    if verb == "update":
        return 200, api.update(resource, namespace, name, request.object(), options, subresource=target.subresource)
    if verb == "patch":
        content_type = request.headers.get("content-type", "").split(";")[0].strip()
        stored, created = api.patch(
            resource, namespace, name, request.body, content_type, options, subresource=target.subresource
        )
        return (201 if created else 200), stored
    _delete_options(request, options)
    if verb == "delete":
        removed, gone = api.delete(resource, namespace, name, options)
        if gone and resource.kind != "Pod":
            return 200, success(
                details={
                    "name": name,
                    "group": resource.group,
                    "kind": resource.plural,
                    "uid": removed["metadata"]["uid"],
                }
            )
        return 200, api.present(resource, api.store.get(api.key(resource, namespace, name)) or removed)
    if verb == "deletecollection":
        listing = _list(api, request, target)
        for obj in listing["items"]:
            api.delete(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], options)
        return 200, listing
    raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _delete_options(request: Request, options: Options) -> None:
    body = request.object() if request.body else {}
    parameters = {**request.query, **(body if isinstance(body, dict) else {})}
    if parameters.get("propagationPolicy"):
        options.propagation = str(parameters["propagationPolicy"])
    elif parameters.get("orphanDependents") in (True, "true"):
        options.propagation = "Orphan"
    if parameters.get("gracePeriodSeconds") not in (None, ""):
        options.grace_seconds = int(parameters["gracePeriodSeconds"])
    options.preconditions = parameters.get("preconditions") or {}
    options.dry_run = options.dry_run or "All" in (parameters.get("dryRun") or [])


def selection(request: Request) -> Callable[[Json], bool]:
    """Whether an object is among those that the request's selectors take."""
    labels = label_selector(request.query["labelSelector"]) if request.query.get("labelSelector") else None
    fields = field_selector(request.query["fieldSelector"]) if request.query.get("fieldSelector") else None

    def keep(obj: Json) -> bool:
        return (labels is None or labels(obj["metadata"].get("labels") or {})) and (fields is None or fields(obj))

    return keep


def _list(api: Api, request: Request, target: Target) -> Json:
    # `limit` is not obeyed: a server may return everything at once
    keep = selection(request)
    if target.name:
        objects = [
            o for o in api.select(target.resource, target.namespace, keep) if o["metadata"]["name"] == target.name
        ]
    else:
        objects = api.select(target.resource, target.namespace, keep)
    meta = {"resourceVersion": str(api.store.version)}
    resource = target.resource
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta, "items": objects}


def _scale(api: Api, request: Request, options: Options, target: Target, verb: str) -> Json:
    resource, namespace, name = target.resource, target.namespace, target.name
    obj = api.get(resource, namespace, name)
    if verb in ("update", "patch"):
        body = request.object() if verb == "update" else json.loads(request.body)
        replicas = (body.get("spec") or {}).get("replicas")
        if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
            raise bad_request(f"spec.replicas must be a number that is not negative, got {replicas!r}")
        changed = copy(obj)
        changed["spec"]["replicas"] = replicas
        obj = api.update(resource, namespace, name, changed, options)
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

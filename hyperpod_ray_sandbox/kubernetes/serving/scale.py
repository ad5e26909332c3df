"""The `scale` of a workload: read, replaced or patched as an object of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

from hyperpod_ray_sandbox.kubernetes import admission, applied, schema
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target
from hyperpod_ray_sandbox.kubernetes.status import Cause, bad_request, invalid, stale
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.validation.causes import NOT_NEGATIVE
from hyperpod_ray_sandbox.kubernetes.writes.apply import APPLY, configuration, patched_object
from hyperpod_ray_sandbox.kubernetes.writes.checks import named

Json = dict[str, Any]

_SCALE = Resource("autoscaling", "v1", "Scale", "scale", namespaced=True)


def act(api: Api, request: Request, options: Options, target: Target, verb: str) -> Json:
    """Answer a request for the scale of a workload; a write changes the workload."""
    resource, namespace, name = target.key
    obj = api.get(resource, namespace, name)
    if verb not in ("update", "patch"):
        return _of(obj)
    applies = verb == "patch" and request.content_type == APPLY
    if verb == "update":
        sent = request.object()
    elif applies:
        sent = configuration(_SCALE, request.body, strict=options.validation == "Strict")
    else:
        sent = patched_object(_of(obj), request.body, request.content_type, schema.SHAPES.of(_SCALE))
    replicas = _replicas(sent, obj, resource, options)
    if applies:
        shape, part = schema.SHAPES.of(resource), {"spec": {"replicas": replicas}}
        changed = applied.apply(
            obj, part, shape, manager=options.manager or "", force=options.force, subresource="scale"
        )
    else:
        changed = copy(obj)
        changed["spec"]["replicas"] = replicas
    # policies and webhooks see a Scale of `…/scale`, not the workload
    admission.validate(api, resource, _of(changed), _of(obj), options, "scale")
    inside = dataclasses.replace(options, user=None)
    return _of(api.update(resource, namespace, name, changed, inside, recorded=applies))


def _replicas(sent: Any, obj: Json, resource: Resource, options: Options) -> int:
    """How many replicas a Scale asks for; raises 400, 409 or 422."""
    if not isinstance(sent, dict):
        raise bad_request("the body must be one object")
    name = obj["metadata"]["name"]
    sent = {"apiVersion": _SCALE.api_version, "kind": _SCALE.kind, **sent}
    if (sent["apiVersion"], sent["kind"]) != (_SCALE.api_version, _SCALE.kind):
        raise bad_request(f"wrong object passed to Scale update: {sent['apiVersion']}, Kind={sent['kind']}")
    scale, _ = schema.check(_SCALE, sent, strict=options.validation == "Strict", name=name)
    meta = named(scale, name)["metadata"]
    if meta.get("resourceVersion") and meta["resourceVersion"] != obj["metadata"]["resourceVersion"]:
        raise stale(resource.plural, resource.group, name)
    replicas = int(scale["spec"].get("replicas") or 0)
    if replicas < 0:
        cause = Cause("FieldValueInvalid", f"Invalid value: {replicas}: {NOT_NEGATIVE}", "spec.replicas")
        raise invalid("Scale", "autoscaling", name, [cause])
    return replicas


def _of(obj: Json) -> Json:
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    meta = {k: obj["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    return {
        "kind": _SCALE.kind,
        "apiVersion": _SCALE.api_version,
        "metadata": meta,
        "spec": {"replicas": obj["spec"]["replicas"]} if obj["spec"].get("replicas") else {},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{k}={v}" for k, v in labels.items()),
        },
    }

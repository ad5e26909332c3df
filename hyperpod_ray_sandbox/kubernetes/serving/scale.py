"""The `scale` of a workload: read, replaced or patched as an object of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

from hyperpod_ray_sandbox.kubernetes import admission, applied, schema
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.serving.request import Request, Target
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, bad_request, invalid, qualified, stale
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
        steps = _steps(resource, "specReplicasPath")
        if resource.crd and _at(obj, steps) is None:
            why = f'the spec replicas field ".{".".join(steps)}" does not exist'
            raise ApiError(500, "InternalError", f"Internal error occurred: {why}")
        return _of(resource, obj)
    applies = verb == "patch" and request.content_type == APPLY
    if verb == "update":
        sent = request.object()
    elif applies:
        sent = configuration(_SCALE, request.body, strict=options.validation == "Strict")
    else:
        sent = patched_object(_of(resource, obj), request.body, request.content_type, schema.SHAPES.of(_SCALE))
    replicas = _replicas(sent, obj, resource, options)
    if applies:
        shape, part = schema.SHAPES.of(resource), _placed({}, _steps(resource, "specReplicasPath"), replicas)
        changed = applied.apply(
            obj, part, shape, manager=options.manager or "", force=options.force, subresource="scale"
        )
    else:
        changed = _placed(copy(obj), _steps(resource, "specReplicasPath"), replicas)
    # policies and webhooks see a Scale of `…/scale`, not the workload
    admission.validate(api, resource, _of(resource, changed), _of(resource, obj), options, "scale")
    inside = dataclasses.replace(options, user=None)
    if not replicas and not applies and options.manager:
        # none is absent from a Scale, so that nobody owns it afterwards
        path = tuple(f"f:{step}" for step in _steps(resource, "specReplicasPath"))
        owners = {manager: paths - {path} for manager, paths in applied.read_managers(obj).items()}
        applied.write_managers(changed, owners, obj)
        applies = True
    return _of(resource, api.update(resource, namespace, name, changed, inside, recorded=applies))


_BUILT_IN = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _steps(resource: Resource, path: str) -> list[str]:
    """The fields on the way to what a scale shows; none where the kind has no such path."""
    paths = resource.scale if resource.crd else _BUILT_IN
    return [step for step in str(paths.get(path) or "").split(".") if step]


def _at(obj: Json, steps: list[str]) -> Any:
    """What an object has at the end of a path, None where it ends before."""
    value: Any = obj if steps else None
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _placed(obj: Json, steps: list[str], value: int) -> Json:
    """The object with a value at the end of a path."""
    inner = obj
    for step in steps[:-1]:
        inner = inner.setdefault(step, {})
    inner[steps[-1]] = value
    return obj


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
    if meta.get("uid") and meta["uid"] != obj["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {obj['metadata']['uid']}"
        target = qualified(f"{resource.plural}/scale", resource.group)
        raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {target} "{name}": {why}')
    replicas = int(scale["spec"].get("replicas") or 0)
    if replicas < 0:
        cause = Cause("FieldValueInvalid", f"Invalid value: {replicas}: {NOT_NEGATIVE}", "spec.replicas")
        raise invalid("Scale", "autoscaling", name, [cause])
    return replicas


def _of(resource: Resource, obj: Json) -> Json:
    if resource.crd:
        selector = str(_at(obj, _steps(resource, "labelSelectorPath")) or "")
    else:
        labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
        selector = ",".join(f"{k}={v}" for k, v in labels.items())
    replicas = _at(obj, _steps(resource, "specReplicasPath"))
    meta = {k: obj["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    return {
        "kind": _SCALE.kind,
        "apiVersion": _SCALE.api_version,
        "metadata": meta,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": _at(obj, _steps(resource, "statusReplicasPath")) or 0, "selector": selector},
    }

"""What the controllers share: conditions, owners, events, readiness, pod templates."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]


def suffix(length: int = 5) -> str:
    """Random letters as Kubernetes uses for generated names."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(length))


def template_hash(template: Json) -> str:
    """A short, stable hash of a pod template."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def owner(obj: Json) -> Json:
    """An owner reference to the controller of an object."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(obj: Json, by: Json) -> bool:
    """Whether `by` is the controller of an object."""
    return any(
        r.get("uid") == by["metadata"]["uid"] and r.get("controller")
        for r in obj["metadata"].get("ownerReferences") or []
    )


def condition(status: Json, condition_type: str, value: str, reason: str = "", message: str = "") -> None:
    """Set a condition; its transition time changes only with its value."""
    conditions = status.setdefault("conditions", [])
    record = next((c for c in conditions if c["type"] == condition_type), None)
    if record is None:
        record = {"type": condition_type}
        conditions.append(record)
    if record.get("status") != value:
        record.update(status=value, lastTransitionTime=now())
    record["reason"], record["message"] = reason, message


def has(obj: Json, condition_type: str, value: str = "True") -> bool:
    """Whether an object has a condition of that value."""
    return any(
        c["type"] == condition_type and c["status"] == value for c in (obj.get("status") or {}).get("conditions") or []
    )


def node_ready(node: Json) -> bool:
    """Whether a node's Ready condition is True."""
    return has(node, "Ready")


def pod_ready(pod: Json) -> bool:
    """Whether a pod runs and is ready."""
    return (
        (pod.get("status") or {}).get("phase") == "Running"
        and has(pod, "Ready")
        and not pod["metadata"].get("deletionTimestamp")
    )


def alive(pod: Json) -> bool:
    """Whether a pod has not ended."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def set_status(api: Api, obj: Json, fill: Callable[[Json], None]) -> None:
    """Change an object's status where that changes anything."""

    def change(current: Json) -> None:
        fill(current.setdefault("status", {}))

    api.modify(obj, change, status=True)


def event(api: Api, about: Json, event_type: str, reason: str, message: str, source: str) -> None:  # noqa: PLR0917
    """Record an Event (Normal or Warning) about an object; the same one again counts up."""
    namespace = about["metadata"].get("namespace") or "default"
    name = (
        about["metadata"]["name"]
        + "."
        + hashlib.sha256(f"{about['metadata']['uid']}{reason}{message}".encode()).hexdigest()[:16]
    )
    resource = api.kind("v1", "Event")
    existing = api.store.get(api.key(resource, namespace, name))
    try:
        if existing is not None:

            def again(current: Json) -> None:
                current["count"] = int(current.get("count") or 1) + 1
                current["lastTimestamp"] = now()

            api.modify(existing, again)
            return
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": about["metadata"]["name"],
            "uid": about["metadata"]["uid"],
        }
        if about["metadata"].get("namespace"):
            reference["namespace"] = namespace
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "reason": reason,
            "message": message,
            "type": event_type,
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": source},
            "reportingComponent": source,
            "reportingInstance": "",
        }
        api.create(resource, namespace, body)
    except ApiError:
        return  # a namespace that is going away takes no events


def make_pod(
    api: Api,
    by: Json,
    template: Json,
    *,
    name: str = "",
    prefix: str = "",
    labels: dict[str, str] | None = None,
    change: Callable[[Json], None] | None = None,
) -> Json | None:
    """A pod from a template, owned by `by`; None when the API refuses it (the owner gets an Event)."""
    template = copy(template)
    meta = template.get("metadata") or {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name or prefix + suffix(),
            "namespace": by["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner(by)],
        },
        "spec": template.get("spec") or {},
    }
    if change:
        change(pod)
    try:
        return api.create(api.kind("v1", "Pod"), by["metadata"]["namespace"], pod)
    except ApiError as error:
        event(api, by, "Warning", "FailedCreate", f"Error creating: {error.message}", "controller")
        return None


def remove(api: Api, obj: Json, grace_seconds: int | None = None) -> None:
    """Delete an object if it is still there."""
    resource = api.kind(obj["apiVersion"], obj["kind"])
    try:
        api.delete(
            resource,
            obj["metadata"].get("namespace", ""),
            obj["metadata"]["name"],
            Options(grace_seconds=grace_seconds),
        )
    except ApiError:
        return


def pods_of(api: Api, by: Json) -> list[Json]:
    """Pods controlled by an object, by name."""
    return [p for p in api.all("v1", "Pod", by["metadata"]["namespace"]) if owned(p, by)]

"""Delete, and what follows from it: finalizers, grace periods, garbage collection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes import admission
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, forbidden, not_found, qualified
from hyperpod_ray_sandbox.kubernetes.store import Key, copy
from hyperpod_ray_sandbox.kubernetes.times import now

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def delete(  # noqa: PLR0912
    api: Objects, resource: Resource, namespace: str, name: str, options: Options | None = None
) -> tuple[Json, bool]:
    """Delete an object; returns its last state and whether it is gone: finalizers or a grace period may hold it."""
    options = options or Options()
    key = api.key(resource, namespace, name)
    stored = api.store.get(key)
    if stored is None:
        raise not_found(resource.plural, resource.group, name)
    check_preconditions(resource, stored, options)
    if (
        resource.kind == "Namespace"
        and not resource.group
        and name in ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC)
    ):
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")
    admission.validate(api, resource, None, stored, options)
    if options.dry_run:
        return stored, True
    obj = copy(stored)
    meta = obj["metadata"]
    finalizers = list(meta.get("finalizers") or [])
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        if options.propagation == policy and finalizer not in finalizers:
            finalizers.append(finalizer)
    if (
        resource.kind == "CustomResourceDefinition"
        and not resource.crd
        and "customresourcecleanup.apiextensions.k8s.io" not in finalizers
    ):
        finalizers.append("customresourcecleanup.apiextensions.k8s.io")
    grace = 0
    if resource.kind == "Pod" and not resource.group and obj["spec"].get("nodeName"):
        wanted_grace = obj["spec"].get("terminationGracePeriodSeconds", 30)
        grace = wanted_grace if options.grace_seconds is None else options.grace_seconds
        if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            grace = 0
    held = bool(finalizers) or grace > 0 or (resource.kind == "Namespace" and not resource.group)
    if not held:
        api.finish(key)
        if resource.kind == "Pod" and not resource.group:  # a pod is shown as it ended
            meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = now(), 0
        return obj, True
    if finalizers:
        meta["finalizers"] = finalizers
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = (datetime.now(UTC) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["deletionGracePeriodSeconds"] = grace
    if resource.kind == "Namespace" and not resource.group:
        obj.setdefault("status", {})["phase"] = "Terminating"
    if obj == stored:
        return stored, False
    return api.store.put(key, obj), False


_PRECONDITIONS = (
    ("uid", "UID", "The object might have been deleted and then recreated"),
    ("resourceVersion", "ResourceVersion", "The object might have been modified"),
)


def check_preconditions(resource: Resource, stored: Json, options: Options) -> None:
    """Refuse a delete of another object than the one that was meant; raises 409."""
    for field_name, word, hint in _PRECONDITIONS:
        expected, actual = options.preconditions.get(field_name), stored["metadata"][field_name]
        if expected is not None and expected != actual:
            name = stored["metadata"]["name"]
            why = f"the {word} in the precondition ({expected}) does not match the {word} in record ({actual}). {hint}"
            raise ApiError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {qualified(resource.kind, resource.group)} "{name}": {why}',
                {"name": name, "group": resource.group, "kind": resource.kind},
            )


def finish(api: Objects, key: Key) -> None:
    """Take an object out for good, then what it owned."""
    gone = api.store.remove(key)
    if gone is None:
        return
    if key[0] == "apiextensions.k8s.io/customresourcedefinitions":
        api.registry.remove(key[2])
    _collect(api, gone)


def dependents(api: Objects, owner: Json) -> list[tuple[Key, Json]]:
    """Objects that name this one as an owner."""
    uid = owner["metadata"]["uid"]
    return [
        (key, obj)
        for key, obj in api.store.everything()
        if any(ref.get("uid") == uid for ref in obj["metadata"].get("ownerReferences") or [])
    ]


def _collect(api: Objects, gone: Json) -> None:
    resources = api.registry.stored()
    alive = None
    for key, obj in api.dependents(gone):
        if alive is None:
            alive = {o["metadata"]["uid"] for _, o in api.store.everything()}
        if any(ref["uid"] in alive for ref in obj["metadata"]["ownerReferences"]):
            continue
        resource = resources.get(key[0])
        if resource is not None and api.store.get(key) is not None:
            api.delete(resource, key[1], key[2])

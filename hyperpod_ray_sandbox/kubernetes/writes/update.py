"""Update, and the change that a controller makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes import admission, applied, schema, validation
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource, counts_generations, version_needed
from hyperpod_ray_sandbox.kubernetes.status import Cause, invalid, not_found, stale
from hyperpod_ray_sandbox.kubernetes.store import Key, copy
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes, shown
from hyperpod_ray_sandbox.kubernetes.writes import addresses
from hyperpod_ray_sandbox.kubernetes.writes.checks import (
    SERVER_FIELDS,
    accept,
    check_policies,
    crd_status,
    hooked,
    judge,
    mistaken_uid,
    named,
    read_version,
)
from hyperpod_ray_sandbox.kubernetes.writes.create import after_write

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def update(  # noqa: PLR0912, PLR0915, PLR0917
    api: Objects,
    resource: Resource,
    namespace: str,
    name: str,
    obj: Any,
    options: Options | None = None,
    *,
    subresource: str = "",
    recorded: bool = False,
) -> Json:
    """Replace an object (or only its status); `recorded` says that managedFields were worked out already."""
    options = options or Options()
    key = api.key(resource, namespace, name)
    obj = accept(resource, namespace, obj)
    meta = obj["metadata"]
    named(obj, name)
    live = api.store.get(key)
    if live is None:
        raise not_found(resource.plural, resource.group, name)
    _preconditions(resource, name, meta, live, required=options.user is not None and not recorded)
    if subresource == "resize":
        obj = _resized(live, obj)
        meta = obj["metadata"]
    if subresource == "ephemeralcontainers":
        added = (obj.get("spec") or {}).get("ephemeralContainers") or []
        obj = copy(live)
        obj["spec"]["ephemeralContainers"] = added
        meta = obj["metadata"]
    if subresource == "status":
        submitted = obj
        obj = copy(live)
        obj["apiVersion"] = resource.api_version
        obj["status"] = submitted.get("status") or {}
        if "managedFields" in meta:
            obj["metadata"]["managedFields"] = meta["managedFields"]
        meta = obj["metadata"]
    elif "status" in resource.subresources or resource.kind == "CustomResourceDefinition":
        obj.pop("status", None)
        if "status" in live:
            obj["status"] = copy(live["status"])
    if resource.kind == "Namespace" and not resource.group and subresource != "finalize":
        obj["spec"] = copy(live["spec"])  # only `finalize` changes it
    _check_ending(resource, meta, live)
    for fixed in SERVER_FIELDS:
        meta.pop(fixed, None)
        if fixed in live["metadata"]:
            meta[fixed] = live["metadata"][fixed]
    _check_finalizers(resource, name, meta, live)
    meta["resourceVersion"] = live["metadata"]["resourceVersion"]
    obj = judge(api, resource, obj, options, live)
    addresses.assign(api, resource, obj)
    if not subresource:
        admission.prepare_change(resource, obj)
    obj = hooked(api, resource, obj, live, options, subresource)
    validation.check_new(resource, obj)
    addresses.check(api, resource, obj)
    if subresource != "status":
        if subresource == "resize":
            validation.check_resize(resource, obj, live)
        elif subresource == "ephemeralcontainers":
            validation.check_debuggers(resource, obj, live)
        else:
            validation.check_change(
                resource, obj, live, expandable=lambda name: _expandable(api, name), internal=options.user is None
            )
        check_policies(api, resource, obj, live, options, subresource)
    else:
        if options.user is not None:
            validation.check_status(resource, obj, live)
        admission.validate(api, resource, obj, live, options, subresource)
    if _content(obj) != _content(live) and counts_generations(resource):
        obj["metadata"]["generation"] = int(live["metadata"].get("generation") or 1) + 1
    if resource.kind == "CustomResourceDefinition" and not resource.crd:
        obj["status"] = crd_status(obj, live)
    if options.manager and not recorded:
        applied.record_update(
            obj, api.present(resource, live), schema.SHAPES.of(resource), options.manager, subresource
        )
    if not recorded and not options.manager and "managedFields" in live["metadata"]:
        obj["metadata"].setdefault("managedFields", live["metadata"]["managedFields"])
    if options.dry_run or _same(obj, live):
        return obj if options.dry_run else api.present(resource, live)
    stored = api.store.put(key, obj)
    after_write(api, resource, stored)
    if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
        _finish_if_free(api, resource, key, stored)
    return api.present(resource, stored)


def _preconditions(resource: Resource, name: str, meta: Json, live: Json, *, required: bool) -> None:
    """Refuse a write that is based on another object or version; raises 409, or 422 where it names none."""
    version = read_version(meta)
    if not version and required and version_needed(resource):
        why = "Invalid value: 0: must be specified for an update"
        cause = Cause("FieldValueInvalid", why, "metadata.resourceVersion")
        raise invalid(resource.kind, resource.group, name, [cause])
    if version and version != int(live["metadata"]["resourceVersion"]):
        raise stale(resource.plural, resource.group, name)
    if meta.get("uid") and meta["uid"] != live["metadata"]["uid"]:
        metadata = live["metadata"]
        raise mistaken_uid(resource, metadata.get("namespace", ""), name, sent=meta["uid"], live=metadata["uid"])


def _check_finalizers(resource: Resource, name: str, meta: Json, live: Json) -> None:
    """Refuse new finalizers of an object that is being deleted; raises 422."""
    if meta.get("deletionTimestamp"):
        added = set(meta.get("finalizers") or []) - set(live["metadata"].get("finalizers") or [])
        if added:
            why = "no new finalizers can be added if the object is being deleted"
            causes = Causes()
            causes.forbidden("metadata.finalizers", f"{why}, found new finalizers {sorted(added)}")
            raise invalid(resource.kind, resource.group, name, causes)


def _check_ending(resource: Resource, meta: Json, live: Json) -> None:
    """Refuse an update that says that an object is being deleted; raises 422."""
    if live["metadata"].get("deletionTimestamp"):
        return
    causes = [
        Cause("FieldValueInvalid", f"Invalid value: {shown(meta[field])}: field is immutable", f"metadata.{field}")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if meta.get(field) is not None
    ]
    if causes:
        raise invalid(resource.kind, resource.group, live["metadata"]["name"], causes)


def _resized(live: Json, submitted: Json) -> Json:
    """A pod with the resources of what was sent, and nothing else of it."""
    obj: Json = copy(live)
    for field in ("containers", "initContainers"):
        sizes = {c.get("name"): c.get("resources") for c in (submitted.get("spec") or {}).get(field) or []}
        for container in obj["spec"].get(field) or []:
            if sizes.get(container["name"]) is not None:
                container["resources"] = sizes[container["name"]]
    return obj


def _expandable(api: Objects, class_name: str) -> bool:
    storage_class = api.store.get(("storage.k8s.io/storageclasses", "", class_name))
    return bool(storage_class and storage_class.get("allowVolumeExpansion"))


def _finish_if_free(api: Objects, resource: Resource, key: Key, stored: Json) -> None:
    if resource.kind == "Namespace" and not resource.group and (stored.get("spec") or {}).get("finalizers"):
        return
    if resource.kind == "Pod" and not resource.group and (stored.get("spec") or {}).get("nodeName"):
        return  # the kubelet model ends it
    api.finish(key)


def modify(api: Objects, obj: Json, change: Callable[[Json], None], *, status: bool = False) -> Json | None:
    """Change an object as a controller does: read it again, change a copy, write it where it differs.

    None when it is gone.
    """
    resource = api.kind(obj["apiVersion"], obj["kind"])
    namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
    current = api.store.get(api.key(resource, namespace, name))
    if current is None or current["metadata"]["uid"] != obj["metadata"]["uid"]:
        return None
    presented = api.present(resource, current)
    changed = copy(presented)
    change(changed)
    if changed == presented:  # most looks of most controllers: no write, and nothing to judge
        return presented
    return api.update(resource, namespace, name, changed, subresource="status" if status else "")


def _content(obj: Json) -> Json:
    return {k: v for k, v in obj.items() if k not in ("metadata", "status", "apiVersion", "kind")}


def _same(new: Json, old: Json) -> bool:
    """Equal but for the times in managedFields."""

    def plain(obj: Json) -> Json:
        meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
        fields = [
            (e.get("manager"), e.get("operation"), e.get("fieldsV1"))
            for e in obj["metadata"].get("managedFields") or []
        ]
        return {**obj, "metadata": {**meta, "managedFields": fields}}

    return plain(new) == plain(old)

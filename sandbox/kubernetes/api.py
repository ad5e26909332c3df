"""The verbs: create, get, list, update, patch, delete, with the API server's checks around the store."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from sandbox.kubernetes import admission, applied, defaults, patch, schema, validation
from sandbox.kubernetes.authorization import defaults as roles
from sandbox.kubernetes.authorization.rbac import Rbac
from sandbox.kubernetes.authorization.users import Identity
from sandbox.kubernetes.resources import Registry, Resource, builtin_resources
from sandbox.kubernetes.status import (
    ApiError,
    Cause,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    stale,
)
from sandbox.kubernetes.store import Change, Key, Store, copy
from service_rules import names

Json = dict[str, Any]

# kept by the server whatever a client sends
_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_SYSTEM_NAMESPACES = ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC, names.KUBE_NODE_LEASE)


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Options:
    """What a request asks besides its object."""

    dry_run: bool = False
    manager: str | None = None
    validation: str = "Warn"
    force: bool = False
    propagation: str = "Background"
    grace_seconds: int | None = None
    preconditions: Json = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    # None for the control plane's own components
    user: Identity | None = None
    # paths of fields that the client gave twice
    doubled: list[str] = field(default_factory=list)


class Api:
    """All verbs on all resources, over one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.registry = Registry(builtin_resources())
        self.rbac = Rbac(store)
        for crd in store.objects("apiextensions.k8s.io/customresourcedefinitions"):
            self.registry.install(crd)
        self._furnish()

    def reset(self) -> None:
        """Forget every object, as when a control plane is deleted; clients see each of them deleted."""
        for key, _ in list(self.store.everything()):
            self.store.remove(key)
            if key[0] == "apiextensions.k8s.io/customresourcedefinitions":
                self.registry.remove(key[2])
        self._furnish()

    def _furnish(self) -> None:
        """What every new cluster has."""
        store = self.store
        for name in _SYSTEM_NAMESPACES:
            if store.get(("/namespaces", "", name)) is None:
                self.create(
                    self.kind("v1", "Namespace"),
                    "",
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                )
        for obj in roles.objects():
            resource = self.kind(obj["apiVersion"], obj["kind"])
            if store.get(self.key(resource, "", obj["metadata"]["name"])) is None:
                self.create(resource, "", obj)
        if store.get(("/services", "default", "kubernetes")) is None:
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "kubernetes", "namespace": "default"},
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 443}]},
            }
            self.create(self.kind("v1", "Service"), "default", service)

    # ---- small helpers ---------------------------------------------------------------------------------------------

    def kind(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind that must be served."""
        found = self.registry.by_kind(api_version, kind)
        if found is None:
            raise ApiError(404, "NotFound", f'no matches for kind "{kind}" in version "{api_version}"')
        return found

    @staticmethod
    def key(resource: Resource, namespace: str, name: str) -> Key:
        """Where an object is stored."""
        return (resource.store, namespace if resource.namespaced else "", name)

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """The object, as the asked version; raises 404."""
        found = self.store.get(self.key(resource, namespace, name))
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return self.present(resource, found)

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether an object is there."""
        return self.store.get(self.key(resource, namespace, name)) is not None

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Json | None:
        """The object of a kind, or None; for controllers."""
        resource = self.registry.by_kind(api_version, kind)
        return self.store.get(self.key(resource, namespace, name)) if resource else None

    def all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """All objects of a kind; for controllers."""
        resource = self.registry.by_kind(api_version, kind)
        return self.store.objects(resource.store, namespace) if resource else []

    @staticmethod
    def present(resource: Resource, obj: Json) -> Json:
        """A stored object in the version asked for: conversion strategy None, so that only unknown fields go."""
        if obj.get("apiVersion") == resource.api_version:
            return obj
        if resource.kind == "Event":
            return _event(obj, resource)
        shown, _ = schema.check_unknown(resource, {**obj, "apiVersion": resource.api_version}, strict=False)
        return shown

    def select(self, resource: Resource, namespace: str, keep: Callable[[Json], bool] | None = None) -> list[Json]:
        """Objects of a resource that `keep` takes."""
        found = self.store.objects(resource.store, namespace if resource.namespaced else "")
        return [self.present(resource, o) for o in found if keep is None or keep(o)]

    # ---- create ----------------------------------------------------------------------------------------------------

    def create(
        self, resource: Resource, namespace: str, obj: Json, options: Options | None = None, *, trusted: bool = False
    ) -> Json:
        """Create an object; `trusted` (controllers) keeps its status."""
        options = options or Options()
        obj = self._accept(resource, namespace, obj)
        meta = obj["metadata"]
        if not meta.get("name"):
            if not meta.get("generateName"):
                raise invalid(
                    resource.kind,
                    resource.group,
                    "",
                    [Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")],
                )
            meta["name"] = meta["generateName"] + "".join(
                secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5)
            )
        name = meta["name"]
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            self._namespace_open(resource, namespace, name)
        key = self.key(resource, namespace, name)
        if self.store.get(key) is not None:
            raise already_exists(resource.plural, resource.group, name)
        for fixed in (*_SERVER_FIELDS, "resourceVersion"):
            meta.pop(fixed, None)
        managed = meta.pop("managedFields", None) if options.manager != "" else None
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = now()
        meta["generation"] = 1
        if "status" in resource.subresources and not trusted and resource.kind != "Node":
            obj.pop("status", None)
        obj = self._judge(resource, obj, options)
        if not resource.crd:
            admission.prepare(self, resource, obj)
        validation.check_new(resource, obj)
        self._check_policies(resource, obj, None, options)
        if managed:
            obj["metadata"]["managedFields"] = managed
        elif options.manager:
            applied.record_update(obj, None, schema.SHAPES.of(resource), options.manager)
        self._on_create(resource, obj)
        if options.dry_run:
            return obj
        stored = self.store.put(key, obj)
        self._after_write(resource, stored)
        return self.present(resource, stored)

    def _accept(self, resource: Resource, namespace: str, given: Any) -> Json:
        if not isinstance(given, dict):
            raise bad_request("the body must be one object")
        obj: Json = copy(given)
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if (obj["apiVersion"], obj["kind"]) != (resource.api_version, resource.kind):
            raise bad_request(
                f"the object provided is {obj['apiVersion']} {obj['kind']}, expected {resource.api_version} {resource.kind}"  # noqa: E501
            )
        meta = obj.get("metadata")
        if meta is None:
            meta = obj["metadata"] = {}
        if not isinstance(meta, dict):
            raise bad_request("metadata must be an object")
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
        elif meta.pop("namespace", None) and namespace:
            raise bad_request("namespace is not allowed on this type")
        return obj

    def _namespace_open(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.get(("/namespaces", "", namespace))
        if found is None:
            raise not_found("namespaces", "", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource.plural, resource.group, name, why)

    def _judge(self, resource: Resource, obj: Json, options: Options, old: Json | None = None) -> Json:
        if resource.kind == "Secret" and not resource.group and obj.get("stringData"):
            data = obj.setdefault("data", {}) or {}
            for key, value in (obj.pop("stringData") or {}).items():
                data[key] = base64.b64encode(str(value).encode()).decode()
            obj["data"] = data
        for version in (self._crd(resource).get("spec", {}).get("versions") or []) if resource.crd else []:
            if version["name"] == resource.version and version.get("deprecated"):
                options.warnings.append(
                    version.get("deprecationWarning") or f"{resource.api_version} {resource.kind} is deprecated"
                )
        obj, warnings = schema.check(
            resource,
            obj,
            strict=options.validation == "Strict",
            name=str(obj["metadata"].get("name", "")),
            old=old,
            doubled=options.doubled,
        )
        if options.validation == "Warn":
            options.warnings += warnings
        if not resource.crd:
            defaults.fill(obj, old)
        return obj

    def _check_policies(self, resource: Resource, obj: Json, old: Json | None, options: Options) -> None:
        """What well-formed objects are refused for: rights that their author lacks, and the cluster's policies."""
        if options.user is not None and resource.group == roles.GROUP and not resource.crd:
            self.rbac.check_grant(options.user, resource.plural, obj, obj["metadata"].get("namespace", ""))
        warnings: list[str] = []
        admission.review(self, resource, obj, old, warnings)
        options.warnings += warnings
        if resource.kind == "CustomResourceDefinition" and not resource.crd and options.user is not None:
            for text in validation.custom.unreadable(obj["spec"].get("versions")):
                options.warnings.append(f"this rehearsal server cannot evaluate a validation rule: {text}")

    def _crd(self, resource: Resource) -> Json:
        return self.store.get(("apiextensions.k8s.io/customresourcedefinitions", "", resource.crd)) or {}

    def _on_create(self, resource: Resource, obj: Json) -> None:
        meta = obj["metadata"]
        if resource.crd:
            return
        if resource.kind == "PersistentVolumeClaim":
            if "storageClassName" not in obj["spec"]:
                default = self._default_class()
                if default:
                    obj["spec"]["storageClassName"] = default
            meta["finalizers"] = [*(meta.get("finalizers") or []), "kubernetes.io/pvc-protection"]
        elif resource.kind == "PersistentVolume":
            meta["finalizers"] = [*(meta.get("finalizers") or []), "kubernetes.io/pv-protection"]
        elif resource.kind == "CustomResourceDefinition":
            obj["status"] = _crd_status(obj)

    def _default_class(self) -> str | None:
        for found in self.store.objects("storage.k8s.io/storageclasses"):
            if (found["metadata"].get("annotations") or {}).get(
                "storageclass.kubernetes.io/is-default-class"
            ) == "true":
                return str(found["metadata"]["name"])
        return None

    def _after_write(self, resource: Resource, stored: Json) -> None:
        if resource.crd:
            return
        if resource.kind == "CustomResourceDefinition":
            self.registry.install(stored)
        elif resource.kind == "Namespace" and not stored["metadata"].get("deletionTimestamp"):
            name = stored["metadata"]["name"]
            if self.store.get(("/serviceaccounts", name, "default")) is None:
                account = {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": "default", "namespace": name},
                }
                self.create(self.kind("v1", "ServiceAccount"), name, account)

    # ---- update ----------------------------------------------------------------------------------------------------

    def update(  # noqa: PLR0912, PLR0915
        self,
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
        key = self.key(resource, namespace, name)
        old = self.store.get(key)
        if old is None:
            raise not_found(resource.plural, resource.group, name)
        obj = self._accept(resource, namespace, obj)
        meta = obj["metadata"]
        if meta.setdefault("name", name) != name:
            raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
        if meta.get("resourceVersion") and meta["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise stale(resource.plural, resource.group, name)
        if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
            raise ApiError(
                409,
                "Conflict",
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
                f"{old['metadata']['uid']}",
            )
        if subresource == "status":
            given = obj
            obj = copy(old)
            obj["apiVersion"] = resource.api_version
            obj["status"] = given.get("status") or {}
            if "managedFields" in meta:
                obj["metadata"]["managedFields"] = meta["managedFields"]
            meta = obj["metadata"]
        elif "status" in resource.subresources or resource.kind == "CustomResourceDefinition":
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = copy(old["status"])
        for fixed in _SERVER_FIELDS:
            meta.pop(fixed, None)
            if fixed in old["metadata"]:
                meta[fixed] = old["metadata"][fixed]
        if meta.get("deletionTimestamp"):
            added = set(meta.get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
            if added:
                raise forbidden(
                    resource.plural,
                    resource.group,
                    name,
                    "no new finalizers can be added if the object is being deleted",
                )
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        obj = self._judge(resource, obj, options, old)
        validation.check_new(resource, obj)
        if subresource != "status":
            validation.check_change(resource, obj, old, expandable=self._expandable, internal=options.user is None)
            self._check_policies(resource, obj, old, options)
        if _content(obj) != _content(old):
            obj["metadata"]["generation"] = int(old["metadata"].get("generation") or 1) + 1
        if resource.kind == "CustomResourceDefinition" and not resource.crd:
            obj["status"] = _crd_status(obj, old)
        if options.manager and not recorded:
            applied.record_update(
                obj, self.present(resource, old), schema.SHAPES.of(resource), options.manager, subresource
            )
        if not recorded and not options.manager and "managedFields" in old["metadata"]:
            obj["metadata"].setdefault("managedFields", old["metadata"]["managedFields"])
        if options.dry_run or _same(obj, old):
            return obj if options.dry_run else self.present(resource, old)
        stored = self.store.put(key, obj)
        self._after_write(resource, stored)
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            self._finish_if_free(resource, key, stored)
        return self.present(resource, stored)

    def _expandable(self, class_name: str) -> bool:
        found = self.store.get(("storage.k8s.io/storageclasses", "", class_name))
        return bool(found and found.get("allowVolumeExpansion"))

    def _finish_if_free(self, resource: Resource, key: Key, stored: Json) -> None:
        if resource.kind == "Namespace" and not resource.group and (stored.get("spec") or {}).get("finalizers"):
            return
        if resource.kind == "Pod" and not resource.group and (stored.get("spec") or {}).get("nodeName"):
            return  # the kubelet model ends it
        self.finish(key)

    def modify(self, obj: Json, change: Callable[[Json], None], *, status: bool = False) -> Json | None:
        """Change an object as a controller does: read it again, change a copy, write it where it differs.

        None when it is gone.
        """
        resource = self.kind(obj["apiVersion"], obj["kind"])
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        current = self.store.get(self.key(resource, namespace, name))
        if current is None or current["metadata"]["uid"] != obj["metadata"]["uid"]:
            return None
        seen = self.present(resource, current)
        changed = copy(seen)
        change(changed)
        if changed == seen:  # most looks of most controllers: no write, and nothing to judge
            return seen
        return self.update(resource, namespace, name, changed, subresource="status" if status else "")

    # ---- patch -----------------------------------------------------------------------------------------------------

    def patch(  # noqa: PLR0917
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        content_type: str,
        options: Options,
        *,
        subresource: str = "",
    ) -> tuple[Json, bool]:
        """Apply a patch; returns the object and whether it was created (server-side apply of a new one)."""
        old = self.store.get(self.key(resource, namespace, name))
        if content_type == "application/apply-patch+yaml":
            return self._apply(resource, namespace, name, body, options, subresource)
        if old is None:
            raise not_found(resource.plural, resource.group, name)
        try:
            change = json.loads(body)
        except ValueError as error:
            raise bad_request(f"error decoding patch: {error}") from None
        current = copy(self.present(resource, old))
        if content_type == "application/json-patch+json":
            patched = patch.json_patch(current, change)
        elif content_type == "application/merge-patch+json":
            patched = patch.merge_patch(current, change)
        elif content_type == "application/strategic-merge-patch+json":
            if resource.crd:
                raise _unsupported(content_type)
            patched = patch.strategic_merge(current, change, schema.SHAPES.of(resource))
        else:
            raise _unsupported(content_type)
        return self.update(resource, namespace, name, patched, options, subresource=subresource), False

    def _apply(  # noqa: PLR0917
        self, resource: Resource, namespace: str, name: str, body: bytes, options: Options, subresource: str
    ) -> tuple[Json, bool]:
        if not options.manager:
            raise bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            )
        try:
            config = yaml.safe_load(body) if body[:1] != b"{" else json.loads(body)
        except (yaml.YAMLError, ValueError) as error:
            raise bad_request(f"error decoding YAML: {error}") from None
        config = self._accept(resource, namespace, config)
        if config["metadata"].setdefault("name", name) != name:
            raise bad_request("the name of the object does not match the name on the URL")
        if config["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        shape = schema.SHAPES.of(resource)
        # unknown fields are judged on what was sent, before it is merged
        known, _ = schema.check_unknown(resource, config, strict=options.validation == "Strict")
        schema.check_nulls(resource, known, name)
        stored = self.store.get(self.key(resource, namespace, name))
        live = self.present(resource, stored) if stored is not None else None
        merged = applied.apply(
            live, known, shape, manager=options.manager, force=options.force, subresource=subresource
        )
        if live is None:
            created = self.create(resource, namespace, merged, _with(options, manager=""), trusted=False)
            return created, True
        if "resourceVersion" in config["metadata"]:
            merged["metadata"]["resourceVersion"] = config["metadata"]["resourceVersion"]
        return self.update(resource, namespace, name, merged, options, subresource=subresource, recorded=True), False

    # ---- delete ----------------------------------------------------------------------------------------------------

    def delete(  # noqa: PLR0912
        self, resource: Resource, namespace: str, name: str, options: Options | None = None
    ) -> tuple[Json, bool]:
        """Delete an object; returns its last state and whether it is gone: finalizers or a grace period may hold it."""
        options = options or Options()
        key = self.key(resource, namespace, name)
        old = self.store.get(key)
        if old is None:
            raise not_found(resource.plural, resource.group, name)
        for field_name in ("uid", "resourceVersion"):
            wanted = options.preconditions.get(field_name)
            if wanted and wanted != old["metadata"][field_name]:
                raise ApiError(
                    409,
                    "Conflict",
                    f"Precondition failed: {field_name} in precondition: {wanted}, in object meta: "
                    f"{old['metadata'][field_name]}",
                )
        if (
            resource.kind == "Namespace"
            and not resource.group
            and name in ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC)
        ):
            raise forbidden("namespaces", "", name, "this namespace may not be deleted")
        if options.dry_run:
            return old, True
        obj = copy(old)
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
            self.finish(key)
            return old, True
        if finalizers:
            meta["finalizers"] = finalizers
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = (datetime.now(UTC) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
            meta["deletionGracePeriodSeconds"] = grace
        if resource.kind == "Namespace" and not resource.group:
            obj.setdefault("status", {})["phase"] = "Terminating"
        if obj == old:
            return old, False
        return self.store.put(key, obj), False

    def finish(self, key: Key) -> None:
        """Take an object out for good, then what it owned."""
        gone = self.store.remove(key)
        if gone is None:
            return
        if key[0] == "apiextensions.k8s.io/customresourcedefinitions":
            self.registry.remove(key[2])
        self._collect(gone)

    def dependents(self, owner: Json) -> list[tuple[Key, Json]]:
        """Objects that name this one as an owner."""
        uid = owner["metadata"]["uid"]
        return [
            (key, obj)
            for key, obj in self.store.everything()
            if any(ref.get("uid") == uid for ref in obj["metadata"].get("ownerReferences") or [])
        ]

    def _collect(self, gone: Json) -> None:
        resources = self.registry.stored()
        alive = None
        for key, obj in self.dependents(gone):
            if alive is None:
                alive = {o["metadata"]["uid"] for _, o in self.store.everything()}
            if any(ref["uid"] in alive for ref in obj["metadata"]["ownerReferences"]):
                continue
            resource = resources.get(key[0])
            if resource is not None and self.store.get(key) is not None:
                self.delete(resource, key[1], key[2])

    def watch_from(self, version: str) -> list[Change]:
        """Changes since a resourceVersion; raises 410 when they are not known any more."""
        if not version.isdigit():
            raise bad_request(f"invalid resource version {version!r}")
        number = int(version)
        if number < self.store.oldest:
            raise ApiError(410, "Expired", f"too old resource version: {number} ({self.store.oldest})")
        return self.store.since(number)


def _with(options: Options, **changes: Any) -> Options:
    values = {name: getattr(options, name) for name in Options.__dataclass_fields__}
    return Options(**{**values, **changes})


def _unsupported(content_type: str) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format ({content_type}) - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )


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


def _crd_status(crd: Json, old: Json | None = None) -> Json:
    spec = crd["spec"]
    before = (old or {}).get("status") or {}
    stored = list(before.get("storedVersions") or [])
    stored += [v["name"] for v in spec.get("versions", []) if v.get("storage") and v["name"] not in stored]
    conditions = before.get("conditions") or [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {"acceptedNames": spec["names"], "conditions": conditions, "storedVersions": stored}


def _event(obj: Json, resource: Resource) -> Json:
    """An Event of one API as the other shows it."""
    new = {**obj, "apiVersion": resource.api_version}
    pairs = (
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("count", "deprecatedCount"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("source", "deprecatedSource"),
    )
    for core, other in pairs:
        a, b = (core, other) if resource.group else (other, core)
        if a in new:
            new[b] = new.pop(a)
    return new

"""The verbs: create, get, list, update, patch, delete, with the API server's checks around the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes import schema
from hyperpod_ray_sandbox.kubernetes.authorization import defaults as roles
from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Rbac
from hyperpod_ray_sandbox.kubernetes.authorization.tokens import Tokens
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Registry, Resource, builtin_resources
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request, not_found
from hyperpod_ray_sandbox.kubernetes.store import Change, Key, Store
from hyperpod_ray_sandbox.kubernetes.writes import apply, create, delete, update

Json = dict[str, Any]

_SYSTEM_NAMESPACES = ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC, names.KUBE_NODE_LEASE)


class Api:
    """All verbs on all resources, over one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.registry = Registry(builtin_resources())
        self.rbac = Rbac(store)
        self.tokens = Tokens(store)
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
        resource = self.registry.by_kind(api_version, kind)
        if resource is None:
            raise ApiError(404, "NotFound", f'no matches for kind "{kind}" in version "{api_version}"')
        return resource

    @staticmethod
    def key(resource: Resource, namespace: str, name: str) -> Key:
        """Where an object is stored."""
        return (resource.store, namespace if resource.namespaced else "", name)

    def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """The object, as the asked version; raises 404."""
        stored = self.store.get(self.key(resource, namespace, name))
        if stored is None:
            raise not_found(resource.plural, resource.group, name)
        return self.present(resource, stored)

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
        pruned, _ = schema.check_unknown(resource, {**obj, "apiVersion": resource.api_version}, strict=False)
        return pruned

    def select(self, resource: Resource, namespace: str, keep: Callable[[Json], bool] | None = None) -> list[Json]:
        """Objects of a resource that `keep` takes."""
        objects = self.store.objects(resource.store, namespace if resource.namespaced else "")
        return [self.present(resource, o) for o in objects if keep is None or keep(o)]

    # ---- writes ----------------------------------------------------------------------------------------------------

    def create(
        self, resource: Resource, namespace: str, obj: Json, options: Options | None = None, *, trusted: bool = False
    ) -> Json:
        """Create an object; `trusted` (controllers) keeps its status."""
        return create.create(self, resource, namespace, obj, options, trusted=trusted)

    def update(
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
        return update.update(self, resource, namespace, name, obj, options, subresource=subresource, recorded=recorded)

    def modify(self, obj: Json, change: Callable[[Json], None], *, status: bool = False) -> Json | None:
        """Change an object as a controller does: read it again, change a copy, write it where it differs.

        None when it is gone.
        """
        return update.modify(self, obj, change, status=status)

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
        return apply.patch_object(self, resource, namespace, name, body, content_type, options, subresource=subresource)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Options | None = None
    ) -> tuple[Json, bool]:
        """Delete an object; returns its last state and whether it is gone: finalizers or a grace period may hold it."""
        return delete.delete(self, resource, namespace, name, options)

    def finish(self, key: Key) -> None:
        """Take an object out for good, then what it owned."""
        delete.finish(self, key)

    def dependents(self, owner: Json) -> list[tuple[Key, Json]]:
        """Objects that name this one as an owner."""
        return delete.dependents(self, owner)

    def watch_from(self, version: str) -> list[Change]:
        """Changes since a resourceVersion; raises 410 when they are not known any more."""
        if not version.isdigit():
            raise bad_request(f"invalid resource version {version!r}")
        number = int(version)
        if number < self.store.oldest:
            raise ApiError(410, "Expired", f"too old resource version: {number} ({self.store.oldest})")
        return self.store.since(number)


def _event(obj: Json, resource: Resource) -> Json:
    """An Event of one API as the other shows it."""
    converted = {**obj, "apiVersion": resource.api_version}
    pairs = (
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("count", "deprecatedCount"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("source", "deprecatedSource"),
    )
    for core, newer in pairs:
        a, b = (core, newer) if resource.group else (newer, core)
        if a in converted:
            converted[b] = converted.pop(a)
    return converted

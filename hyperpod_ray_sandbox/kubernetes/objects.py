"""Objects as the API server reads them, and the writes that its parts call on each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes import schema
from hyperpod_ray_sandbox.kubernetes.authorization.rbac import Rbac
from hyperpod_ray_sandbox.kubernetes.authorization.tokens import Tokens
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Registry, Resource, builtin_resources
from hyperpod_ray_sandbox.kubernetes.status import ApiError, not_found
from hyperpod_ray_sandbox.kubernetes.store import Change, Key, Store

Json = dict[str, Any]


class Objects(ABC):
    """All objects over one store; `Api` adds the writes."""

    def __init__(self, store: Store, certificates: str = "") -> None:
        self.store = store
        self.certificates = certificates
        """What pods trust this server by."""
        self.registry = Registry(builtin_resources())
        self.rbac = Rbac(store)
        self.tokens = Tokens(store)
        for crd in store.objects("apiextensions.k8s.io/customresourcedefinitions"):
            self.registry.install(crd)

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

    def defined(self, name: str) -> bool:
        """Whether a CustomResourceDefinition of this name exists."""
        return self.store.get(("apiextensions.k8s.io/customresourcedefinitions", "", name)) is not None

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
        if resource.conversion == "Webhook":
            why = f"{resource.plural}.{resource.group} are converted by a webhook"
            raise ApiError(
                501, "NotImplemented", f"{why}, which the sandbox does not call: ask for {obj['apiVersion']}"
            )
        shown, _ = schema.check_unknown(resource, {**obj, "apiVersion": resource.api_version})
        return shown

    def select(self, resource: Resource, namespace: str, keep: Callable[[Json], bool] | None = None) -> list[Json]:
        """Objects of a resource that `keep` takes."""
        chosen = self.store.objects(resource.store, namespace if resource.namespaced else "")
        return [self.present(resource, o) for o in chosen if keep is None or keep(o)]

    def watch_from(self, version: str) -> list[Change]:
        """Changes since a resourceVersion; raises 410 when they are not known any more."""
        number = int(version)
        if number < self.store.oldest:
            raise ApiError(410, "Expired", f"too old resource version: {number} ({self.store.oldest})")
        return self.store.since(number)

    @abstractmethod
    def create(
        self, resource: Resource, namespace: str, obj: Json, options: Options | None = None, *, trusted: bool = False
    ) -> Json:
        """Create an object; `trusted` (controllers) keeps its status."""

    @abstractmethod
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

    @abstractmethod
    def delete(
        self, resource: Resource, namespace: str, name: str, options: Options | None = None
    ) -> tuple[Json, bool]:
        """Delete an object; returns its last state and whether it is gone: finalizers or a grace period may hold it."""

    @abstractmethod
    def finish(self, key: Key) -> None:
        """Take an object out for good, then what it owned."""

    @abstractmethod
    def dependents(self, owner: Json) -> list[tuple[Key, Json]]:
        """Objects that name this one as an owner."""


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

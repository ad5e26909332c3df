"""The verbs: create, get, list, update, patch, delete, with the API server's checks around the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.authorization import defaults as roles
from hyperpod_ray_sandbox.kubernetes.objects import Objects
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.store import Key, Store
from hyperpod_ray_sandbox.kubernetes.writes import apply, create, delete, update

Json = dict[str, Any]

_SYSTEM_NAMESPACES = ("default", names.KUBE_SYSTEM, names.KUBE_PUBLIC, names.KUBE_NODE_LEASE)


class Api(Objects):
    """All verbs on all resources, over one store."""

    def __init__(self, store: Store, certificates: str = "") -> None:
        super().__init__(store, certificates)
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

"""Objects that end slowly: namespaces, foreground and orphan deletion, definitions with instances, volumes in use.

A model of kube-controller-manager's namespace, garbage-collector and protection controllers.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import alive, remove
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import Key
from hyperpod_ray_sandbox.kubernetes.writes.create import furnish

Json = dict[str, Any]

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Lifecycle:
    """Finishes what a delete has only marked."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._collected = -1

    def reconcile(self) -> None:
        """One pass."""
        for namespace in self.api.store.objects("/namespaces"):
            if not namespace["metadata"].get("deletionTimestamp"):
                furnish(self.api, namespace["metadata"]["name"])
        if self._collected != self.api.store.version:
            self._collect()
            self._collected = self.api.store.version
        for key, obj in list(self.api.store.everything()):
            meta = obj["metadata"]
            if not meta.get("deletionTimestamp"):
                continue
            finalizers = meta.get("finalizers") or []
            if key[0] == "/namespaces":
                self._namespace(key, obj)
            elif "foregroundDeletion" in finalizers:
                self._foreground(key, obj)
            elif "orphan" in finalizers:
                self._orphan(obj)
            elif _CLEANUP in finalizers:
                self._definition(obj)
            elif "kubernetes.io/pvc-protection" in finalizers and not self._claim_used(obj):
                self._lift(obj, "kubernetes.io/pvc-protection")
            elif "kubernetes.io/pv-protection" in finalizers and (obj.get("status") or {}).get("phase") != "Bound":
                self._lift(obj, "kubernetes.io/pv-protection")

    def _lift(self, obj: Json, finalizer: str) -> None:
        """Take a finalizer off."""

        def change(current: Json) -> None:
            current["metadata"]["finalizers"] = [
                f for f in current["metadata"].get("finalizers") or [] if f != finalizer
            ]

        self.api.modify(obj, change)

    def _namespace(self, key: Key, obj: Json) -> None:
        name = obj["metadata"]["name"]
        remaining = 0
        for bucket, resource in self.api.registry.stored().items():
            if not resource.namespaced:
                continue
            for inside in self.api.store.objects(bucket, name):
                remaining += 1
                if not inside["metadata"].get("deletionTimestamp"):
                    remove(self.api, {**inside, "apiVersion": resource.api_version})
        if remaining == 0 and not obj["metadata"].get("finalizers"):
            self.api.finish(key)

    def _foreground(self, key: Key, obj: Json) -> None:
        blocking = 0
        resources = self.api.registry.stored()
        for at, dependent in self.api.dependents(obj):
            if any(
                r.get("uid") == obj["metadata"]["uid"] and r.get("blockOwnerDeletion")
                for r in dependent["metadata"]["ownerReferences"]
            ):
                blocking += 1
            resource = resources.get(at[0])
            if resource and not dependent["metadata"].get("deletionTimestamp"):
                remove(self.api, {**dependent, "apiVersion": resource.api_version})
        if not blocking:
            self._lift(obj, "foregroundDeletion")

    def _orphan(self, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        for _, dependent in self.api.dependents(obj):

            def release(current: Json) -> None:
                references = [r for r in current["metadata"].get("ownerReferences") or [] if r.get("uid") != uid]
                current["metadata"]["ownerReferences"] = references
                if not references:
                    del current["metadata"]["ownerReferences"]

            self.api.modify(dependent, release)
        self._lift(obj, "orphan")

    def _collect(self) -> None:
        """Delete what names only owners that are not there, or that are in another namespace."""
        homes = {o["metadata"]["uid"]: key for key, o in self.api.store.everything()}
        for key, obj in list(self.api.store.everything()):
            references = obj["metadata"].get("ownerReferences") or []
            if not references or obj["metadata"].get("deletionTimestamp"):
                continue
            owners = [self._owner_state(reference, key, homes) for reference in references]
            if "unknown" in owners or "absent" not in owners:
                continue
            if "solid" not in owners:
                remove(self.api, obj)
                continue
            kept = [r for r, state in zip(references, owners, strict=True) if state == "solid"]

            def release(current: Json, kept: list[Json] = kept) -> None:
                current["metadata"]["ownerReferences"] = kept

            self.api.modify(obj, release)

    def _owner_state(self, reference: Json, key: Key, homes: dict[str, Key]) -> str:
        """`solid` for an owner that is there, `absent` for one that is not, `unknown` for a kind nobody serves."""
        resource = self.api.registry.by_kind(str(reference.get("apiVersion")), str(reference.get("kind")))
        if resource is None or (resource.namespaced and not key[1]):
            return "unknown"
        expected = (resource.store, key[1] if resource.namespaced else "", reference.get("name"))
        return "solid" if homes.get(str(reference.get("uid"))) == expected else "absent"

    def _definition(self, crd: Json) -> None:
        bucket = f"{crd['spec']['group']}/{crd['spec']['names']['plural']}"
        resource = self.api.registry.stored().get(bucket)
        instances = self.api.store.objects(bucket)
        for instance in instances:
            if resource and not instance["metadata"].get("deletionTimestamp"):
                try:
                    self.api.delete(resource, instance["metadata"].get("namespace", ""), instance["metadata"]["name"])
                except ApiError:
                    continue
        if not self.api.store.objects(bucket):
            self._lift(crd, _CLEANUP)

    def _claim_used(self, claim: Json) -> bool:
        name = claim["metadata"]["name"]
        for pod in self.api.all("v1", "Pod", claim["metadata"]["namespace"]):
            volumes = pod["spec"].get("volumes") or []
            used = any((v.get("persistentVolumeClaim") or {}).get("claimName") == name for v in volumes)
            if used and alive(pod) and pod["spec"].get("nodeName"):
                return True
        return False

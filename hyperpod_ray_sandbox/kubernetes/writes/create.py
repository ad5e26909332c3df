"""Create."""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes import admission, applied, schema, validation
from hyperpod_ray_sandbox.kubernetes.admission.references import ROOT_CERTIFICATES
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource, counts_generations
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, already_exists, invalid
from hyperpod_ray_sandbox.kubernetes.times import now
from hyperpod_ray_sandbox.kubernetes.writes import addresses
from hyperpod_ray_sandbox.kubernetes.writes.checks import (
    SERVER_FIELDS,
    accept,
    check_policies,
    crd_status,
    hooked,
    judge,
    namespace_open,
)

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_PREFIX = 58
"""Characters of `generateName` that a name keeps."""


def _generated(resource: Resource, meta: Json) -> str:
    """A name that begins with `generateName`."""
    if not meta.get("generateName"):
        required = Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        raise invalid(resource.kind, resource.group, "", [required])
    letters = (secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
    return str(meta["generateName"])[:_PREFIX] + "".join(letters)


def create(
    api: Objects,
    resource: Resource,
    namespace: str,
    obj: Json,
    options: Options | None = None,
    *,
    trusted: bool = False,
) -> Json:
    """Create an object; `trusted` (controllers) keeps its status."""
    options = options or Options()
    obj = accept(resource, namespace, obj)
    meta = obj["metadata"]
    if resource.namespaced:
        namespace_open(api, resource, namespace, str(meta.get("name") or ""))
    name = meta["name"] = meta.get("name") or _generated(resource, meta)
    key, version = api.key(resource, namespace, name), str(meta.get("resourceVersion") or "0")
    generation = 1 if counts_generations(resource) else meta.get("generation")
    for fixed in (*SERVER_FIELDS, "resourceVersion"):
        meta.pop(fixed, None)
    managed = meta.pop("managedFields", None) if options.manager != "" else None
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now()
    if generation:
        meta["generation"] = generation
    if "status" in resource.subresources and not trusted and resource.kind != "Node":
        obj.pop("status", None)
    obj = judge(api, resource, obj, options)
    addresses.assign(api, resource, obj)
    if not resource.crd:
        admission.prepare(api, resource, obj)
    obj = hooked(api, resource, obj, None, options)
    validation.check_new(resource, obj)
    validation.check_created(resource, obj)
    addresses.check(api, resource, obj)
    check_policies(api, resource, obj, None, options)
    if version.isdecimal() and int(version) and not options.dry_run:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    if api.store.get(key) is not None:
        raise already_exists(resource.plural, resource.group, name)
    if managed:
        obj["metadata"]["managedFields"] = managed
    elif options.manager:
        applied.record_update(obj, None, schema.SHAPES.of(resource), options.manager)
    _on_create(api, resource, obj)
    if options.dry_run:
        return obj
    stored = api.store.put(key, obj)
    after_write(api, resource, stored)
    return api.present(resource, stored)


def _on_create(api: Objects, resource: Resource, obj: Json) -> None:
    meta = obj["metadata"]
    if resource.crd:
        return
    if resource.kind == "PersistentVolumeClaim":
        if "storageClassName" not in obj["spec"]:
            default = _default_class(api)
            if default:
                obj["spec"]["storageClassName"] = default
        meta["finalizers"] = [*(meta.get("finalizers") or []), "kubernetes.io/pvc-protection"]
    elif resource.kind == "PersistentVolume":
        meta["finalizers"] = [*(meta.get("finalizers") or []), "kubernetes.io/pv-protection"]
    elif resource.kind == "CustomResourceDefinition":
        obj["status"] = crd_status(obj)


def _default_class(api: Objects) -> str | None:
    for storage_class in api.store.objects("storage.k8s.io/storageclasses"):
        if (storage_class["metadata"].get("annotations") or {}).get(
            "storageclass.kubernetes.io/is-default-class"
        ) == "true":
            return str(storage_class["metadata"]["name"])
    return None


def after_write(api: Objects, resource: Resource, stored: Json) -> None:
    """Do what follows from a stored object: a definition is served, a namespace gets its service account."""
    if resource.crd:
        return
    if resource.kind == "CustomResourceDefinition":
        api.registry.install(stored)
    elif resource.kind == "Namespace" and not stored["metadata"].get("deletionTimestamp"):
        furnish(api, stored["metadata"]["name"])


def furnish(api: Objects, namespace: str) -> None:
    """Give a namespace what each has: a service account, and the server's certificates."""
    if api.store.get(("/serviceaccounts", namespace, "default")) is None:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        api.create(api.kind("v1", "ServiceAccount"), namespace, account)
    publish_certificates(api, namespace)


def publish_certificates(api: Objects, namespace: str) -> None:
    """Give a namespace the certificates that its pods trust this server by."""
    if api.store.get(("/configmaps", namespace, ROOT_CERTIFICATES)) is None:
        bundle = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": ROOT_CERTIFICATES,
                "namespace": namespace,
                "annotations": {"kubernetes.io/description": _DESCRIPTION},
            },
            "data": {"ca.crt": api.certificates},
        }
        api.create(api.kind("v1", "ConfigMap"), namespace, bundle)

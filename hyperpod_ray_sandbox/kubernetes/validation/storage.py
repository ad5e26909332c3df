"""Claims, volumes and storage classes.

Source: ValidatePersistentVolume(Claim) of pkg/apis/core/validation, and pkg/apis/storage/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.validation import claims, csi, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.pods import node_selector
from hyperpod_ray_sandbox.kubernetes.validation.volumes import SOURCES

Json = dict[str, Any]

# what a PersistentVolume's spec has beside its source
PV_FIELDS = {
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
}
_PV_NEEDS = {"csi": ("driver", "volumeHandle"), "local": ("path",)}
_AS_IN_PODS = {
    "awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "flexVolume", "gcePersistentDisk", "glusterfs", "hostPath",
    "iscsi", "nfs", "portworxVolume", "rbd", "vsphereVolume",
}  # fmt: skip


def claim(obj: Json) -> Causes:
    """Judge a PersistentVolumeClaim."""
    causes = Causes()
    claims.spec(causes, "spec", obj["spec"])
    return causes


def _source(causes: Causes, spec: Json) -> None:
    """Judge where a PersistentVolume is."""
    sources = [k for k, v in spec.items() if k not in PV_FIELDS and v is not None]
    if not sources:
        causes.required("spec", "must specify a volume type")
    for source in sources[1:]:
        causes.forbidden(f"spec.{source}", "may not specify more than 1 volume type")
    for source in sources[:1]:
        for field in _PV_NEEDS.get(source, ()):
            if not spec[source].get(field):
                causes.required(f"spec.{source}.{field}")
        if source == "csi" and spec["csi"].get("driver"):
            csi.driver_name(causes, "spec.csi.driver", spec["csi"]["driver"])
        if source in _AS_IN_PODS:
            SOURCES[source](causes, f"spec.{source}", spec[source])
    if ".." in str((spec.get("local") or {}).get("path", "")).split("/"):
        causes.invalid("spec.local.path", spec["local"]["path"], "must not contain '..'")


def volume(obj: Json) -> Causes:
    """Judge a PersistentVolume."""
    causes, spec = Causes(), obj["spec"]
    claims.access(causes, "spec", spec)
    size = (spec.get("capacity") or {}).get("storage")
    if set(spec.get("capacity") or {}) - {"storage"}:
        causes.unsupported("spec.capacity", spec["capacity"], ("storage",))
    if size is None:
        causes.required("spec.capacity[storage]")
    else:
        causes.quantity("spec.capacity[storage]", size, positive=True)
    _source(causes, spec)
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes.one_of("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
    if (spec.get("hostPath") or {}).get("path") == "/" and policy == "Recycle":
        causes.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    if spec.get("volumeAttributesClassName") is not None and spec.get("csi") is None:
        causes.required("spec.csi", "has to be specified when using volumeAttributesClassName")
    required = (spec.get("nodeAffinity") or {}).get("required")
    if spec.get("nodeAffinity") is not None and required is None:
        causes.required("spec.nodeAffinity.required", "must specify required node constraints")
    elif required is not None:
        node_selector(causes, "spec.nodeAffinity.required", required)
    elif spec.get("local") is not None:
        causes.required("spec.nodeAffinity", "Local volume requires node affinity")
    return causes


_MOST_PARAMETERS, _PARAMETER_BYTES = 512, 256 * 1024


def storage_class(obj: Json) -> Causes:
    """Judge a StorageClass."""
    causes = Causes()
    if not obj.get("provisioner"):
        causes.required("provisioner")
    else:
        names.key(causes, "provisioner", obj["provisioner"].lower())
    parameters = obj.get("parameters") or {}
    if len(parameters) > _MOST_PARAMETERS:
        causes.long("parameters", _MOST_PARAMETERS)
    elif "" in parameters:
        causes.invalid("parameters", "", "field can not be empty.")
    elif sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETER_BYTES:
        causes.long("parameters", _PARAMETER_BYTES)
    causes.one_of("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
    mode = obj.get("volumeBindingMode")
    causes.choice("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    terms = obj.get("allowedTopologies") or []
    for index, term in enumerate(terms):
        _topology(causes, f"allowedTopologies[{index}]", term)
        if term in terms[:index]:
            causes.duplicate(f"allowedTopologies[{index}].matchLabelExpressions", "")
    return causes


def _topology(causes: Causes, path: str, term: Json) -> None:
    """Judge where the volumes of a class may be."""
    rules = term.get("matchLabelExpressions") or []
    if not rules:
        causes.duplicate(f"{path}.matchLabelExpressions", "")
    for index, rule in enumerate(rules):
        at, key, values = f"{path}.matchLabelExpressions[{index}]", rule.get("key") or "", rule.get("values") or []
        names.key(causes, f"{at}.key", key)
        if key in [other.get("key") for other in rules[:index]]:
            causes.duplicate(f"{at}.key", key)
        if not values:
            causes.required(f"{at}.values")
        for place, value in enumerate(values):
            if value in values[:place]:
                causes.duplicate(f"{at}.values[{place}]", value)


def claim_change(new: Json, old: Json, expandable: Callable[[str], bool]) -> Causes:
    """Judge a change of a PersistentVolumeClaim; `expandable` says whether a StorageClass allows growth."""
    causes = Causes()
    before, after = {**old["spec"]}, {**new["spec"]}
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)  # binding sets it once
    size = [((s.get("resources") or {}).get("requests") or {}).get("storage", "0") for s in (before, after)]
    for spec in (before, after):
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    fixed = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if before != after or (number(size[1]) > number(size[0]) and not bound):
        causes.forbidden("spec", fixed)
    elif number(size[1]) < number(size[0]):
        causes.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    elif number(size[1]) > number(size[0]) and not expandable(str(old["spec"].get("storageClassName", ""))):
        causes.forbidden(
            "spec.resources.requests",
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize",
        )
    return causes

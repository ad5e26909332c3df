"""What cannot change once it is set.

Source: the Validate…Update functions of pkg/apis/*/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.storage import PV_FIELDS, claim_change

Json = dict[str, Any]

IMMUTABLE = "field is immutable"
# kind -> fields that must stay as they are
_FIXED: dict[str, tuple[str, ...]] = {
    "StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "Deployment": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "ReplicaSet": ("spec.selector",),
    "StatefulSet": ("spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"),
    "Job": ("spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "CustomResourceDefinition": ("spec.group", "spec.names.kind", "spec.names.plural", "spec.scope"),
    "PriorityClass": ("value", "preemptionPolicy"),
    "CSIDriver": ("spec.attachRequired",),
    "IngressClass": ("spec.controller",),
    "ResourceQuota": ("spec.scopes", "spec.scopeSelector"),
}
_POD_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def change(new: Json, old: Json, *, expandable: Callable[[str], bool], internal: bool) -> Causes:
    """Judge a change of a built-in object; `internal` for the scheduler, who binds pods to nodes."""
    causes, kind = Causes(), new["kind"]
    for path in _FIXED.get(kind, ()):
        if _at(new, path) != _at(old, path):
            causes.invalid(path, _at(new, path), IMMUTABLE)
    if kind == "Pod":
        _pod(causes, new, old, internal=internal)
    elif kind == "PersistentVolumeClaim":
        causes += claim_change(new, old, expandable)
    elif kind == "PersistentVolume":
        sources = [{k: v for k, v in o["spec"].items() if k not in PV_FIELDS} for o in (old, new)]
        if sources[0] != sources[1]:
            causes.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    elif kind in ("ConfigMap", "Secret") and old.get("immutable"):
        if any(new.get(f) != old.get(f) for f in ("data", "binaryData", "immutable")):
            causes.forbidden("data", "field is immutable when `immutable` is set")
    elif kind == "Service":
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and before != after and new["spec"].get("type") != "ExternalName":
            causes.invalid("spec.clusterIPs[0]", after, IMMUTABLE)
    elif kind == "Secret" and new.get("type") != old.get("type"):
        causes.invalid("type", new.get("type"), IMMUTABLE)
    return causes


def _pod(causes: Causes, new: Json, old: Json, *, internal: bool) -> None:
    before, after = copy(old["spec"]), copy(new["spec"])
    kept = before.get("tolerations") or []
    if any(t not in (after.get("tolerations") or []) for t in kept):
        causes.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    deadlines = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if deadlines[0] is not None and (deadlines[1] is None or deadlines[1] > deadlines[0]):
        causes.invalid("spec.activeDeadlineSeconds", deadlines[1], "must be less than or equal to previous value")
    for spec in (before, after):
        for field in ("tolerations", "activeDeadlineSeconds", "schedulingGates"):
            spec.pop(field, None)
        if internal:
            spec.pop("nodeName", None)
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or []:
                container.pop("image", None)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        after["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before != after:
        causes.forbidden("spec", _POD_RULE)

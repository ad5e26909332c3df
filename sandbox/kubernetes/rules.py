"""The part of kube-apiserver's hand-written validation that bites at deploy and review time.

Names, pod templates, selectors, references inside a pod, requests against limits, and the fields that cannot change.
Source: k8s.io/kubernetes/pkg/apis/*/validation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from sandbox.kubernetes.quantity import number
from sandbox.kubernetes.resources import Resource
from sandbox.kubernetes.selectors import matches
from sandbox.kubernetes.status import Cause, invalid

Json = dict[str, Any]

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_QUALIFIED = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_PATH_SEGMENT = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")

IMMUTABLE = "field is immutable"


def _metadata(resource: Resource, meta: Json) -> list[Cause]:
    causes = []
    name = meta.get("name", "")
    if resource.kind in ("Namespace", "Service"):
        good = bool(_LABEL.match(name)) and len(name) <= 63
    elif resource.kind in _PATH_SEGMENT:
        good = name not in ("", ".", "..") and "/" not in name and "%" not in name
    else:
        good = bool(_SUBDOMAIN.match(name)) and len(name) <= 253
    if not good:
        causes.append(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist '
                "of lower case alphanumeric characters, '-' or '.', and must start and end with an "
                "alphanumeric character",
                "metadata.name",
            )
        )
    causes += _labels(meta.get("labels") or {}, "metadata.labels")
    for key in meta.get("annotations") or {}:
        causes += _key(key.lower(), "metadata.annotations")
    size = sum(len(k.encode()) + len(str(v).encode()) for k, v in (meta.get("annotations") or {}).items())
    if size > 262_144:
        causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 262144 bytes", "metadata.annotations"))
    return causes


def _key(key: str, path: str) -> list[Cause]:
    prefix, _, name = key.rpartition("/")
    if (
        (prefix and not (_SUBDOMAIN.match(prefix) and len(prefix) <= 253))
        or not _QUALIFIED.match(name)
        or len(name) > 63
    ):
        return [
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{key}": name part must consist of alphanumeric characters, '
                "'-', '_' or '.', and must start and end with an alphanumeric character",
                path,
            )
        ]
    return []


def _labels(labels: dict[str, str], path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += _key(key, path)
        if not _VALUE.match(value) or len(value) > 63:
            causes.append(
                Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "{value}": a valid label must be an empty string or '
                    "consist of alphanumeric characters, '-', '_' or '.', at most 63 of them",
                    path,
                )
            )
    return causes


def pod_spec(spec: Json, path: str) -> list[Cause]:
    """Causes for what is wrong inside a pod specification."""
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(Cause("FieldValueRequired", "Required value", f"{path}.containers"))
    volumes = {v.get("name") for v in spec.get("volumes") or []}
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            here, name = f"{path}.{field}[{index}]", container.get("name", "")
            if name in seen:
                causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{here}.name"))
            seen.add(name)
            if not _LABEL.match(name) or len(name) > 63:
                causes.append(
                    Cause(
                        "FieldValueInvalid",
                        f'Invalid value: "{name}": a lowercase RFC 1123 label must consist '
                        "of lower case alphanumeric characters or '-'",
                        f"{here}.name",
                    )
                )
            if not container.get("image"):
                causes.append(Cause("FieldValueRequired", "Required value", f"{here}.image"))
            for at, mount in enumerate(container.get("volumeMounts") or []):
                if mount.get("name") not in volumes:
                    causes.append(
                        Cause(
                            "FieldValueNotFound", f'Not found: "{mount.get("name")}"', f"{here}.volumeMounts[{at}].name"
                        )
                    )
            causes += _resources(container.get("resources") or {}, f"{here}.resources")
    return causes


def _resources(resources: Json, path: str) -> list[Cause]:
    causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, quantity in requests.items():
        if name in limits and number(quantity) > number(limits[name]):
            causes.append(
                Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "{quantity}": must be less than or equal to {name} limit of {limits[name]}',
                    f"{path}.requests",
                )
            )
        # extended resources (GPUs, EFA) cannot be overcommitted
        if "/" in name and not name.startswith("kubernetes.io/") and limits.get(name) is None:
            causes.append(
                Cause(
                    "FieldValueRequired",
                    "Required value: Limit must be set for non overcommitable resources",
                    f"{path}.limits",
                )
            )
        elif "/" in name and name in limits and number(quantity) != number(limits[name]):
            causes.append(
                Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "{quantity}": must be equal to {name} limit of {limits[name]}',
                    f"{path}.requests",
                )
            )
    return causes


def _workload(obj: Json) -> list[Cause]:
    spec = obj["spec"]
    template = spec.get("template") or {}
    causes = pod_spec(template.get("spec") or {}, "spec.template.spec")
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes += _labels(labels, "spec.template.metadata.labels")
    if obj["kind"] == "Job":
        restart = (template.get("spec") or {}).get("restartPolicy")
        if restart not in ("OnFailure", "Never"):
            causes.append(
                Cause(
                    "FieldValueNotSupported",
                    f'Unsupported value: "{restart}": supported values: "OnFailure", "Never"',
                    "spec.template.spec.restartPolicy",
                )
            )
        return causes
    selector = spec.get("selector") or {}
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(Cause("FieldValueRequired", "Required value", "spec.selector"))
    elif not matches(selector, labels):
        causes.append(
            Cause(
                "FieldValueInvalid",
                f"Invalid value: {json.dumps(labels)}: `selector` does not match template `labels`",
                "spec.template.metadata.labels",
            )
        )
    return causes


def _crd(obj: Json) -> list[Cause]:
    spec, causes = obj["spec"], []
    names = spec.get("names") or {}
    if obj["metadata"]["name"] != f"{names.get('plural')}.{spec.get('group')}":
        causes.append(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{obj["metadata"]["name"]}": must be spec.names.plural+"."+spec.group',
                "metadata.name",
            )
        )
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        causes.append(
            Cause(
                "FieldValueNotSupported",
                f'Unsupported value: "{spec.get("scope")}": supported values: "Cluster", "Namespaced"',
                "spec.scope",
            )
        )
    versions = spec.get("versions") or []
    if sum(bool(v.get("storage")) for v in versions) != 1:
        causes.append(
            Cause(
                "FieldValueInvalid",
                "Invalid value: must have exactly one version marked as storage version",
                "spec.versions",
            )
        )
    for index, version in enumerate(versions):
        if not ((version.get("schema") or {}).get("openAPIV3Schema")):
            causes.append(
                Cause(
                    "FieldValueRequired",
                    "Required value: schemas are required",
                    f"spec.versions[{index}].schema.openAPIV3Schema",
                )
            )
    return causes


def _claim(obj: Json) -> list[Cause]:
    spec, causes = obj["spec"], []
    if not spec.get("accessModes"):
        causes.append(
            Cause("FieldValueRequired", "Required value: at least 1 access mode is required", "spec.accessModes")
        )
    if obj["kind"] == "PersistentVolumeClaim" and not ((spec.get("resources") or {}).get("requests") or {}).get(
        "storage"
    ):
        causes.append(Cause("FieldValueRequired", "Required value", "spec.resources[storage]"))
    if obj["kind"] == "PersistentVolume" and not (spec.get("capacity") or {}).get("storage"):
        causes.append(Cause("FieldValueRequired", "Required value", "spec.capacity[storage]"))
    return causes


def _roleref(obj: Json) -> list[Cause]:
    name = (obj.get("roleRef") or {}).get("name")
    return [] if name else [Cause("FieldValueRequired", "Required value", "roleRef.name")]


_BY_KIND: dict[str, Callable[[Json], list[Cause]]] = {
    "Pod": lambda obj: pod_spec(obj["spec"], "spec"),
    "Deployment": _workload,
    "DaemonSet": _workload,
    "StatefulSet": _workload,
    "ReplicaSet": _workload,
    "Job": _workload,
    "CustomResourceDefinition": _crd,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _claim,
    "RoleBinding": _roleref,
    "ClusterRoleBinding": _roleref,
}


# ---- what cannot change --------------------------------------------------------------------------------------------

# kind -> fields that must stay as they are once set
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
    "Service": (),
}
# the volume's source: any of these keys in a PV's spec
_PV_FREE = {
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


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _claim_change(new: Json, old: Json, expandable: Callable[[str], bool]) -> list[Cause]:
    before, after = {**old["spec"]}, {**new["spec"]}
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        after.pop("volumeName", None)  # binding sets it once
    size = [((s.get("resources") or {}).get("requests") or {}).get("storage", "0") for s in (before, after)]
    for spec in (before, after):
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    if before != after:
        return [
            Cause(
                "FieldValueForbidden",
                "Forbidden: spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims",
                "spec",
            )
        ]
    if number(size[1]) < number(size[0]):
        return [
            Cause(
                "FieldValueForbidden",
                "Forbidden: field can not be less than status.capacity",
                "spec.resources.requests.storage",
            )
        ]
    if number(size[1]) > number(size[0]):
        if (old.get("status") or {}).get("phase") != "Bound":
            return [
                Cause(
                    "FieldValueForbidden",
                    "Forbidden: spec is immutable after creation except resources.requests "
                    "and volumeAttributesClassName for bound claims",
                    "spec",
                )
            ]
        if not expandable(str(old["spec"].get("storageClassName", ""))):
            return [
                Cause(
                    "FieldValueForbidden",
                    "Forbidden: only dynamically provisioned pvc can be resized and the "
                    "storageclass that provisions the pvc must support resize",
                    "spec.resources.requests",
                )
            ]
    return []


def check_new(resource: Resource, obj: Json) -> None:
    """Refuse an object that kube-apiserver's own validation would refuse; raises ApiError 422."""
    causes = _metadata(resource, obj["metadata"])
    if resource.crd == "" and resource.kind in _BY_KIND:
        causes += _BY_KIND[resource.kind](obj)
    if causes:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)


def check_change(resource: Resource, new: Json, old: Json, expandable: Callable[[str], bool]) -> None:
    """Refuse a change of a field that cannot change; `expandable` says whether a StorageClass allows growth."""
    if resource.crd:
        return
    kind, causes = resource.kind, []
    for path in _FIXED.get(kind, ()):
        if _at(new, path) != _at(old, path):
            shown = json.dumps(_at(new, path))
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown[:200]}: {IMMUTABLE}", path))
    if kind == "PersistentVolumeClaim":
        causes += _claim_change(new, old, expandable)
    elif kind == "PersistentVolume":
        sources = [{k: v for k, v in o["spec"].items() if k not in _PV_FREE} for o in (old, new)]
        if sources[0] != sources[1]:
            causes.append(
                Cause(
                    "FieldValueForbidden",
                    "Forbidden: spec.persistentvolumesource is immutable after creation",
                    "spec.persistentvolumesource",
                )
            )
    elif kind in ("ConfigMap", "Secret") and old.get("immutable"):
        if any(new.get(f) != old.get(f) for f in ("data", "binaryData", "immutable")):
            causes.append(Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", "data"))
    elif kind == "Service":
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and before != after and new["spec"].get("type") != "ExternalName":
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "{after}": {IMMUTABLE}', "spec.clusterIPs[0]"))
    elif kind == "Secret" and new.get("type") != old.get("type"):
        causes.append(Cause("FieldValueInvalid", f'Invalid value: "{new.get("type")}": {IMMUTABLE}', "type"))
    if causes:
        raise invalid(kind, resource.group, new["metadata"]["name"], causes)

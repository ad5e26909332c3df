"""What `kubectl get` prints: the server-side Table of a list or an object.

Columns for the kinds people look at here; a custom kind's own printer columns; name and age for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.resources import Resource

Json = dict[str, Any]
Cell = Callable[[Json], Any]


def age(stamp: str | None) -> str:
    """`95s`, `12m`, `3h`, `2d` since a timestamp."""
    if not stamp:
        return "<unknown>"
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(stamp.replace("Z", "+00:00"))).total_seconds())
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    for size, unit, limit in ((60, "m", 120), (3600, "h", 48), (86400, "d", 10**9)):
        if seconds // size < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def _get(path: str, default: Any = "") -> Cell:
    def read(obj: Json) -> Any:
        value: Any = obj
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return read


def _pod_ready(obj: Json) -> str:
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    total = len(obj["spec"].get("containers", []))
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{total}"


def _gates(obj: Json) -> str:
    gates = [gate["conditionType"] for gate in obj["spec"].get("readinessGates") or []]
    true = {c["type"] for c in (obj.get("status") or {}).get("conditions") or [] if c["status"] == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else "<none>"


def _pod_status(obj: Json) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status") or {}
    phase = str(status.get("phase", "Unknown"))
    return "Completed" if phase == "Succeeded" else str(status.get("reason") or phase)


def _node_status(obj: Json) -> str:
    ready = next(
        (c["status"] for c in (obj.get("status") or {}).get("conditions") or [] if c["type"] == "Ready"), "Unknown"
    )
    text = "Ready" if ready == "True" else "NotReady"
    return text + (",SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else "")


def _modes(obj: Json) -> str:
    short = {"ReadWriteMany": "RWX", "ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(m, m) for m in obj["spec"].get("accessModes") or [])


def _ratio(ready: str, desired: str) -> Cell:
    return lambda obj: f"{_get(ready, 0)(obj)}/{_get(desired, 0)(obj)}"


def _ports(obj: Json) -> str:
    return ",".join(f"{p['port']}/{p.get('protocol', 'TCP')}" for p in obj["spec"].get("ports") or []) or "<none>"


def _images(obj: Json) -> str:
    return ",".join(c.get("image", "") for c in obj["spec"].get("template", {}).get("spec", {}).get("containers", []))


def _job_status(obj: Json) -> str:
    true = {c["type"] for c in (obj.get("status") or {}).get("conditions") or [] if c["status"] == "True"}
    return next((word for word in ("Complete", "Failed", "Suspended") if word in true), "Running")


def _claim_of(obj: Json) -> str:
    ref = obj["spec"].get("claimRef") or {}
    return f"{ref.get('namespace')}/{ref.get('name')}" if ref else ""


# kind -> (title, cell, priority): priority 1 shows with -o wide only
_COLUMNS: dict[str, list[tuple[str, Cell, int]]] = {
    "Pod": [
        ("Ready", _pod_ready, 0),
        ("Status", _pod_status, 0),
        (
            "Restarts",
            lambda o: str(
                sum(s.get("restartCount", 0) for s in (o.get("status") or {}).get("containerStatuses") or [])
            ),
            0,
        ),
        ("Age", lambda o: age(o["metadata"].get("creationTimestamp")), 0),
        ("IP", _get("status.podIP", "<none>"), 1),
        ("Node", _get("spec.nodeName", "<none>"), 1),
        ("Nominated Node", _get("status.nominatedNodeName", "<none>"), 1),
        ("Readiness Gates", _gates, 1),
    ],
    "Node": [
        ("Status", _node_status, 0),
        ("Roles", lambda o: "<none>", 0),
        ("Version", _get("status.nodeInfo.kubeletVersion"), 0),
        ("Instance-Type", lambda o: (o["metadata"].get("labels") or {}).get(names.INSTANCE_TYPE_LABEL, ""), 1),
    ],
    "Namespace": [("Status", _get("status.phase"), 0)],
    "Service": [
        ("Type", _get("spec.type"), 0),
        ("Cluster-IP", _get("spec.clusterIP", "<none>"), 0),
        ("Port(s)", _ports, 0),
    ],
    "Deployment": [
        ("Ready", _ratio("status.readyReplicas", "spec.replicas"), 0),
        ("Up-to-date", _get("status.updatedReplicas", 0), 0),
        ("Available", _get("status.availableReplicas", 0), 0),
        ("Images", _images, 1),
    ],
    "ReplicaSet": [
        ("Desired", _get("spec.replicas", 0), 0),
        ("Current", _get("status.replicas", 0), 0),
        ("Ready", _get("status.readyReplicas", 0), 0),
    ],
    "StatefulSet": [("Ready", _ratio("status.readyReplicas", "spec.replicas"), 0), ("Images", _images, 1)],
    "DaemonSet": [
        ("Desired", _get("status.desiredNumberScheduled", 0), 0),
        ("Current", _get("status.currentNumberScheduled", 0), 0),
        ("Ready", _get("status.numberReady", 0), 0),
        ("Available", _get("status.numberAvailable", 0), 0),
        ("Images", _images, 1),
    ],
    "Job": [
        ("Status", _job_status, 0),
        ("Completions", _ratio("status.succeeded", "spec.completions"), 0),
        ("Images", _images, 1),
    ],
    "PersistentVolumeClaim": [
        ("Status", _get("status.phase"), 0),
        ("Volume", _get("spec.volumeName"), 0),
        ("Capacity", _get("status.capacity.storage"), 0),
        ("Access Modes", _modes, 0),
        ("StorageClass", _get("spec.storageClassName"), 0),
    ],
    "PersistentVolume": [
        ("Capacity", _get("spec.capacity.storage"), 0),
        ("Access Modes", _modes, 0),
        ("Reclaim Policy", _get("spec.persistentVolumeReclaimPolicy"), 0),
        ("Status", _get("status.phase"), 0),
        ("Claim", _claim_of, 0),
        ("StorageClass", _get("spec.storageClassName"), 0),
    ],
    "StorageClass": [
        ("Provisioner", _get("provisioner"), 0),
        ("ReclaimPolicy", _get("reclaimPolicy"), 0),
        ("VolumeBindingMode", _get("volumeBindingMode"), 0),
    ],
    "ConfigMap": [("Data", lambda o: len(o.get("data") or {}) + len(o.get("binaryData") or {}), 0)],
    "Secret": [("Type", _get("type"), 0), ("Data", lambda o: len(o.get("data") or {}), 0)],
    "Event": [
        ("Type", _get("type"), 0),
        ("Reason", _get("reason"), 0),
        (
            "Object",
            lambda o: (
                f"{(o.get('involvedObject') or {}).get('kind', '').lower()}/{(o.get('involvedObject') or {}).get('name', '')}"  # noqa: E501
            ),
            0,
        ),
        ("Message", _get("message"), 0),
    ],
    "CustomResourceDefinition": [("Created At", _get("metadata.creationTimestamp"), 0)],
}


def jsonpath(obj: Json, path: str) -> Any:
    """The value of a printer column's JSON path.

    It knows dotted fields, `[n]` and `['quoted.key']`, and takes the first match of a filter.
    """
    value: Any = obj
    for name, quoted, index, key, expected in re.findall(
        r"\.([\w-]+)|\['((?:[^'\\]|\\.)+)'\]|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*[\"'](.*?)[\"']\)\]", path
    ):
        if isinstance(value, dict):
            value = value.get(name or quoted)
        elif isinstance(value, list) and index:
            value = value[int(index)] if int(index) < len(value) else None
        elif isinstance(value, list) and key:
            value = next((v for v in value if v.get(key) == expected), None)
        else:
            return None
    return value


def _custom(column: Json) -> Cell:
    def read(obj: Json) -> Any:
        value = jsonpath(obj, column["jsonPath"])
        return age(value) if column.get("type") == "date" and value else value

    return read


def columns(resource: Resource) -> list[tuple[Json, Cell]]:
    """Column definitions and how to fill them."""
    pairs: list[tuple[Json, Cell]] = []

    def add(title: str, column_type: str, cell: Cell, priority: int, form: str = "") -> None:
        definition = {"name": title, "type": column_type, "format": form, "description": title, "priority": priority}
        pairs.append((definition, cell))

    add("Name", "string", _get("metadata.name"), 0, "name")
    for title, cell, priority in _COLUMNS.get(resource.kind, []) if not resource.crd else []:
        add(title, "string", cell, priority)
    for column in resource.printer_columns:
        add(column["name"], column["type"], _custom(column), int(column.get("priority") or 0))
    aged = any(definition["name"] == "Age" for definition, _ in pairs) or any(
        column["jsonPath"] == ".metadata.creationTimestamp" for column in resource.printer_columns
    )
    if not aged:
        add("Age", "string", lambda o: age(o["metadata"].get("creationTimestamp")), 0)
    return pairs


def table(resource: Resource, objects: list[Json], meta: Json, *, include: str, headers: bool = True) -> Json:
    """The Table of objects; `include` is `Metadata`, `Object` or `None` as the client asked."""
    shape = columns(resource)
    rows = []
    for obj in objects:
        row: Json = {"cells": [cell(obj) for _, cell in shape]}
        if include in ("None", "Object"):
            row["object"] = obj if include == "Object" else None
        else:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        rows.append(row)
    definitions = [definition for definition, _ in shape] if headers else None
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definitions,
        "rows": rows,
    }

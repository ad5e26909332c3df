"""CSI drivers, their nodes, and attachments of volumes.

Source: pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_NAME, _NODE_ID = 63, 192
_PERIOD_SECONDS, _TOKEN_SECONDS, _MOST_TOKEN_SECONDS = 10, 600, 1 << 32


def driver(obj: Json) -> Causes:
    """Judge a CSIDriver."""
    causes, spec = Causes(), obj["spec"]
    driver_name(causes, "metadata.name", obj["metadata"].get("name") or "")
    causes.one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy") or " ", ("File", "None", "ReadWriteOnceWithFSType"))
    for mode in spec.get("volumeLifecycleModes") or []:
        causes.one_of("spec.volumeLifecycleModes", mode or " ", ("Ephemeral", "Persistent"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _PERIOD_SECONDS:
        why = f"must be greater than or equal to {_PERIOD_SECONDS} seconds"
        causes.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)
    audiences: list[str] = []
    for index, request in enumerate(spec.get("tokenRequests") or []):
        at, seconds = f"spec.tokenRequests[{index}]", request.get("expirationSeconds")
        if (request.get("audience") or "") in audiences:
            causes.duplicate(f"{at}.audience", request.get("audience"))
        audiences.append(request.get("audience") or "")
        if seconds is not None and not _TOKEN_SECONDS <= seconds <= _MOST_TOKEN_SECONDS:
            causes.invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if spec.get("serviceAccountTokenInSecrets") is not None and not audiences:
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        causes.invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], why)
    return causes


def driver_name(causes: Causes, path: str, name: str) -> None:
    """Judge the name of a driver."""
    if not name:
        causes.required(path)
    elif len(name) > _NAME:
        causes.long(path, _NAME)
    else:
        names.subdomain(causes, path, name.lower())


def node(obj: Json) -> Causes:
    """Judge a CSINode."""
    causes = Causes()
    drivers: list[str] = []
    for index, declared in enumerate((obj.get("spec") or {}).get("drivers") or []):
        at, name, node_id = f"spec.drivers[{index}]", declared.get("name") or "", declared.get("nodeID") or ""
        driver_name(causes, f"{at}.name", name)
        if name in drivers:
            causes.duplicate(f"{at}.name", name)
        drivers.append(name)
        if not node_id:
            causes.required(f"{at}.nodeID")
        elif len(node_id) > _NODE_ID:
            causes.invalid(f"{at}.nodeID", node_id, f"must be {_NODE_ID} characters or less")
        causes.natural(f"{at}.allocatable.count", (declared.get("allocatable") or {}).get("count"))
        keys = declared.get("topologyKeys") or []
        for position, key in enumerate(keys):
            if key in keys[:position]:
                causes.duplicate(at, key)
            names.key(causes, at, key)
    return causes


def attachment(obj: Json) -> Causes:
    """Judge a VolumeAttachment."""
    causes, spec = Causes(), obj.get("spec") or {}
    source = spec.get("source") or {}
    driver_name(causes, "spec.attacher", spec.get("attacher") or "")
    names.subdomain(causes, "spec.nodeName", spec.get("nodeName") or "")
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        causes.required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and name is not None:
        causes.forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and inline.get("csi") is None:
        causes.required("spec.source.inlineVolumeSpec.csi")
    elif name is not None:
        names.subdomain(causes, "spec.source.persistentVolumeName", name)
    return causes

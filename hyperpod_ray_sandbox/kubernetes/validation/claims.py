"""What a claim of storage is judged by: a PersistentVolumeClaim, and the template of one in a pod.

Source: ValidatePersistentVolumeClaimSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODES = ("Block", "Filesystem")


def access(causes: Causes, path: str, spec: Json) -> None:
    """Judge how a volume may be mounted."""
    modes = spec.get("accessModes") or []
    if not modes:
        causes.required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        causes.one_of(f"{path}.accessModes", mode or " ", ACCESS)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        causes.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    causes.choice(f"{path}.volumeMode", spec.get("volumeMode"), _MODES)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            names.subdomain(causes, f"{path}.{field}", spec[field])


def spec(causes: Causes, path: str, spec: Json) -> None:
    """Judge the spec of a PersistentVolumeClaim, or of the template of one."""
    access(causes, path, spec)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        causes.required(f"{path}.resources[storage]")
    else:
        causes.quantity(f"{path}.resources[storage]", size, positive=True)
    names.selector(causes, f"{path}.selector", spec.get("selector"))
    for field in ("dataSource", "dataSourceRef"):
        source: Any = spec.get(field)
        for part in ("name", "kind") if source is not None else ():
            if not source.get(part):
                causes.required(f"{path}.{field}.{part}")
        group = (source or {}).get("apiGroup") or ""
        if source is not None and not group and source.get("kind") not in (None, "", "PersistentVolumeClaim"):
            why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            causes.invalid(f"{path}.{field}", source["kind"], why)
        elif group:
            names.subdomain(causes, f"{path}.{field}.apiGroup", group)
    _sources(causes, path, spec.get("dataSource"), spec.get("dataSourceRef"))


def _sources(causes: Causes, path: str, source: Json | None, reference: Json | None) -> None:
    """Judge that both fields name the same source."""
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        causes.invalid(path, f"{path}.dataSource", "may not be specified when dataSourceRef.namespace is specified")
    elif any((source.get(part) or "") != (reference.get(part) or "") for part in ("apiGroup", "kind", "name")):
        causes.invalid(path, f"{path}.dataSource", "must match dataSourceRef")

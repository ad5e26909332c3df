"""What a controller would act on and no model here does: refused with 501 and its name, never stored and forgotten.

KubeRay: a RayService, whose applications nothing here serves. Kueue v0.19.2: fields of its queues that change who is
admitted, and jobs that it queues beside RayJobs and RayClusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.resources import Resource

Json = dict[str, Any]

_QUEUED_BY_KUEUE = {("batch", "Job"), ("apps", "Deployment"), ("apps", "StatefulSet"), ("", "Pod")}
"""Kinds whose label Kueue reads too. An object with an owner is counted as its owner."""
_DEFAULTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "ClusterQueue": {
        # v1beta1's, which Kueue's conversion makes v1beta2's cohortName
        "spec.cohort": (None, ""),
        "spec.admissionChecksStrategy": (None, {}),
        "spec.admissionChecks": (None, []),
        "spec.admissionScope": (None,),
        "spec.concurrentAdmissionPolicy": (None,),
        "spec.stopPolicy": (None, "None"),
        "spec.flavorFungibility.whenCanBorrow": (None, "MayStopSearch", "Borrow"),
        "spec.flavorFungibility.whenCanPreempt": (None, "TryNextFlavor"),
        "spec.flavorFungibility.preference": (None,),
        "spec.preemption.borrowWithinCohort.policy": (None, "Never"),
    },
    "Cohort": {"spec.parentName": (None, ""), "spec.parent": (None, ""), "spec.resourceGroups": (None, [])},
    "LocalQueue": {"spec.stopPolicy": (None, "None")},
    "ResourceFlavor": {"spec.topologyName": (None,), "spec.nodeTaints": (None, [])},
}
"""Of each kind of Kueue's: fields that no model reads, with the values that ask for nothing."""


def refusal(resource: Resource, obj: Json | None, *, defined: Callable[[str], bool]) -> str:
    """What of a new or changed object nothing here acts on; empty for all others.

    Args:
        resource: Its kind.
        obj: The object; None for a deletion.
        defined: Whether a CustomResourceDefinition of this name exists.
    """
    if obj is None:
        return ""
    if (resource.group, resource.kind) == (names.RAY_API_GROUP, "RayService"):
        return "a RayService: nothing here serves its applications"
    if resource.group == digests.GROUP:
        return _field(resource.kind, obj)
    if (resource.group, resource.kind) in _QUEUED_BY_KUEUE and not resource.crd:
        metadata = obj["metadata"]
        queued = names.QUEUE_LABEL in (metadata.get("labels") or {}) and not metadata.get("ownerReferences")
        if queued and defined(f"workloads.{digests.GROUP}"):
            return f"label {names.QUEUE_LABEL} of a {resource.kind}: Kueue's model queues RayJobs and RayClusters"
    return ""


def _field(resource_kind: str, obj: Json) -> str:
    for path, harmless in _DEFAULTS.get(resource_kind, {}).items():
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        if value not in harmless:
            return f"{path} of a {resource_kind} of Kueue: {value}"
    return ""

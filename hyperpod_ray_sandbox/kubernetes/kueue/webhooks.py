"""What Kueue's validating webhooks refuse of queues and cohorts, beside the rules that its definitions have.

Source: kubernetes-sigs/kueue v0.19.2, pkg/webhooks/clusterqueue_webhook.go, cohort_webhook.go and common.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.validation.causes import NOT_NEGATIVE, Causes

Json = dict[str, Any]

MOST_IN_ALL, MOST_OF_A_GROUP = 256, 512
SMALLEST_WEIGHT = Fraction(1, 10**9)


def denial(resource: Resource, obj: Json | None) -> str:
    """Why an object is refused, as the API server says it; empty for what is accepted and for other kinds."""
    if resource.group != digests.GROUP or resource.kind not in ("ClusterQueue", "Cohort") or obj is None:
        return ""
    spec, causes = obj.get("spec") or {}, Causes()
    queue = resource.kind == "ClusterQueue"
    parent = "cohort" if queue else "parent"
    _groups(causes, spec.get("resourceGroups") or [], parent="" if spec.get(f"{parent}Name") else parent, queue=queue)
    _weight(causes, (spec.get("fairSharing") or {}).get("weight"))
    if queue:
        _totals(causes, spec.get("resourceGroups") or [])
    texts = [cause.line() for cause in causes]
    if not texts:
        return ""
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f'admission webhook "v{resource.kind.lower()}.kb.io" denied the request: {said}'


def _groups(causes: Causes, groups: list[Json], *, parent: str, queue: bool) -> None:
    """Each resource and each flavor once, and a flavor's resources in the order of the group's."""
    resources: set[str] = set()
    flavors: set[str] = set()
    for index, group in enumerate(groups):
        path = f"spec.resourceGroups[{index}]"
        for position, name in enumerate(group["coveredResources"]):
            if name in resources:
                causes.duplicate(f"{path}.coveredResources[{position}]", name)
            resources.add(name)
        for position, flavor in enumerate(group["flavors"]):
            place = f"{path}.flavors[{position}]"
            for row, (covered, quota) in enumerate(zip(group["coveredResources"], flavor["resources"], strict=False)):
                _quota(causes, f"{place}.resources[{row}]", quota, covered=covered, parent=parent, queue=queue)
            if flavor["name"] in flavors:
                causes.duplicate(f"{place}.name", flavor["name"])
            flavors.add(flavor["name"])


def _quota(causes: Causes, path: str, quota: Json, *, covered: str, parent: str, queue: bool) -> None:
    if quota["name"] != covered:
        causes.invalid(f"{path}.name", quota["name"], "must match the name in coveredResources")
    for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        value = quota.get(field)
        if value is None:
            continue
        if field != "nominalQuota" and parent:
            causes.invalid(f"{path}.{field}", str(value), f"must be nil when {parent} is empty")
        if number(value) < 0:
            causes.invalid(f"{path}.{field}", str(value), NOT_NEGATIVE)
    lends = quota.get("lendingLimit")
    if queue and lends is not None and number(lends) > number(quota["nominalQuota"]):
        causes.invalid(f"{path}.lendingLimit", str(lends), "must be less than or equal to the nominalQuota")


def _weight(causes: Causes, weight: Any) -> None:
    if weight is None:
        return
    if number(weight) < 0:
        causes.invalid("spec.fairSharing", str(weight), NOT_NEGATIVE)
    if 0 < number(weight) <= SMALLEST_WEIGHT:
        causes.invalid("spec.fairSharing", str(weight), "When not 0, weight must be > 10e-9")


def _totals(causes: Causes, groups: list[Json]) -> None:
    for words, field in (("flavors", "flavors"), ("covered resources", "coveredResources")):
        count = sum(len(group[field]) for group in groups)
        if count > MOST_IN_ALL:
            detail = f"total number of {words} across all resourceGroups must be ≤ {MOST_IN_ALL}, got {count}"
            causes.invalid("spec.resourceGroups", count, detail)
    for index, group in enumerate(groups):
        count = sum(len(flavor["resources"]) for flavor in group["flavors"])
        if count > MOST_OF_A_GROUP:
            detail = f"number of flavor-resource combinations in a resourceGroup must be ≤ {MOST_OF_A_GROUP}, got"
            causes.invalid(f"spec.resourceGroups[{index}]", count, f"{detail} {count}")

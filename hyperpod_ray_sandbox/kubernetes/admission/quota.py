"""ResourceQuota: what a namespace uses, and what it may not use more of.

Source: plugin/pkg/admission/resourcequota and pkg/quota/v1 of Kubernetes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.amounts import total, written
from hyperpod_ray_sandbox.kubernetes.resources import Resource

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

_COUNTED = (
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
)
_COMPUTE = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def usage(resource: Resource, obj: Json) -> dict[str, Fraction]:
    """What one object uses, by the names that quotas use."""
    plural, unit = resource.plural, Fraction(1)
    full = f"count/{plural}.{resource.group}" if resource.group else f"count/{plural}"
    amounts: dict[str, Fraction] = {full: unit}
    if resource.group or resource.crd:
        return amounts
    if plural == "pods" and _ended(obj):
        return amounts
    if plural in _COUNTED:
        amounts[plural] = unit
    spec = obj.get("spec") or {}
    if plural == "pods":
        for name, amount in total(spec, "requests").items():
            amounts[f"requests.{name}"] = amount
            if name in ("cpu", "memory", "ephemeral-storage"):
                amounts[name] = amount
        for name, amount in total(spec, "limits").items():
            amounts[f"limits.{name}"] = amount
    elif plural == "persistentvolumeclaims":
        size = number(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
        amounts["requests.storage"] = size
        if spec.get("storageClassName"):
            prefix = f"{spec['storageClassName']}.storageclass.storage.k8s.io"
            amounts[f"{prefix}/requests.storage"] = size
            amounts[f"{prefix}/persistentvolumeclaims"] = unit
    elif plural == "services":
        ports = Fraction(len(spec.get("ports") or []))
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            amounts["services.nodeports"] = ports
        if spec.get("type") == "LoadBalancer":
            amounts["services.loadbalancers"] = unit
    return amounts


def _in_scope(quota: Json, resource: Resource, obj: Json) -> bool:
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": s, "operator": "Exists"} for s in spec.get("scopes") or []]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not scopes:
        return True
    if resource.plural != "pods" or resource.group:
        return False
    pod = obj["spec"]
    best_effort = not total(pod, "requests") and not total(pod, "limits")
    bounded = pod.get("activeDeadlineSeconds") is not None
    facts = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": bounded,
        "NotTerminating": not bounded,
        "PriorityClass": bool(pod.get("priorityClassName")),
        "CrossNamespacePodAffinity": False,
    }
    for scope in scopes:
        holds, values = facts.get(scope["scopeName"], False), scope.get("values") or []
        if scope["scopeName"] == "PriorityClass" and scope.get("operator") in ("In", "NotIn"):
            holds = (pod.get("priorityClassName") in values) == (scope["operator"] == "In")
        elif scope.get("operator") == "DoesNotExist":
            holds = not holds
        if not holds:
            return False
    return True


def used(api: Objects, quota: Json) -> dict[str, Fraction]:
    """What a quota's namespace uses of what it limits."""
    namespace = quota["metadata"]["namespace"]
    hard = (quota.get("spec") or {}).get("hard") or {}
    totals = dict.fromkeys(hard, Fraction(0))
    for resource in api.registry.stored().values():
        if not resource.namespaced:
            continue
        for obj in api.store.objects(resource.store, namespace):
            if _in_scope(quota, resource, obj):
                for name, amount in usage(resource, obj).items():
                    if name in totals:
                        totals[name] += amount
    return totals


_GROWING = ("persistentvolumeclaims", "pods", "services")
"""What uses more after a change: only these are judged at one."""


def refusal(api: Objects, resource: Resource, obj: Json, previous: Json | None = None) -> str:
    """Why the quotas of a namespace do not let an object in, or what it grows by; empty where they do."""
    if not resource.namespaced or (previous is not None and (resource.group or resource.plural not in _GROWING)):
        return ""
    before = usage(resource, previous) if previous is not None else {}
    for quota in api.store.objects("/resourcequotas", obj["metadata"].get("namespace", "")):
        name = quota["metadata"]["name"]
        hard = (quota.get("spec") or {}).get("hard") or {}
        if not _in_scope(quota, resource, obj):
            continue
        if previous is None and (lacking := _unstated(resource, obj, hard)):
            return f"failed quota: {name}: must specify {lacking}"
        grown = {n: a - before.get(n, 0) for n, a in usage(resource, obj).items() if n in hard}
        requested = {n: a for n, a in grown.items() if a > 0}
        if not requested:
            continue
        in_use = used(api, quota)
        over = sorted(n for n, a in requested.items() if in_use[n] + a > number(hard[n]))
        if over:
            parts = [
                ",".join(f"{n}={written(n, values[n])}" for n in over)
                for values in (requested, in_use, {n: number(hard[n]) for n in over})
            ]
            return f"exceeded quota: {name}, requested: {parts[0]}, used: {parts[1]}, limited: {parts[2]}"
    return ""


def _unstated(resource: Resource, obj: Json, hard: Json) -> str:
    """Compute resources that a quota limits and a container does not state."""
    if resource.plural != "pods" or resource.group:
        return ""
    problems = []
    for name in sorted(set(_COMPUTE) & set(hard)):
        field, _, plain = name.rpartition(".")
        without = sorted(
            c["name"]
            for c in obj["spec"].get("containers") or []
            if plain not in ((c.get("resources") or {}).get(field or "requests") or {})
        )
        if without:
            problems.append(f"{name} for: {','.join(without)}")
    return "; ".join(problems)

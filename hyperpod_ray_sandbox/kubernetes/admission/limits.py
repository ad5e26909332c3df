"""LimitRange: defaults for containers, and their bounds.

Source: plugin/pkg/admission/limitranger of Kubernetes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.amounts import total

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def _items(api: Objects, namespace: str) -> list[Json]:
    ranges = api.store.objects("/limitranges", namespace)
    return [limit for r in ranges for limit in (r.get("spec") or {}).get("limits") or []]


def fill(api: Objects, pod: Json) -> None:
    """Give containers the requests and limits that they do not state, and say so in an annotation."""
    said: list[str] = []
    for limit in _items(api, pod["metadata"].get("namespace", "")):
        if limit.get("type") != "Container":
            continue
        limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
        spec = pod["spec"]
        for field, word in (("containers", "container"), ("initContainers", "init container")):
            for container in spec.get(field) or []:
                resources = container.setdefault("resources", {})
                for part, amounts in (("request", requests), ("limit", limits)):
                    stated = resources.get(f"{part}s") or {}
                    if filled := sorted(set(amounts) - set(stated)):
                        resources[f"{part}s"] = {**amounts, **stated}
                        said.append(f"{', '.join(filled)} {part} for {word} {container['name']}")
    if said:
        annotations = pod["metadata"].setdefault("annotations", {}) or {}
        annotations["kubernetes.io/limit-ranger"] = f"LimitRanger plugin set: {'; '.join(said)}"
        pod["metadata"]["annotations"] = annotations


def refusal(api: Objects, obj: Json) -> str:
    """Why the limit ranges of a namespace do not let an object in, or nothing."""
    faults: list[str] = []
    for limit in _items(api, obj["metadata"].get("namespace", "")):
        limit_type = limit.get("type")
        if obj["kind"] == "Pod" and limit_type == "Container":
            spec = obj["spec"]
            for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
                amounts = container.get("resources") or {}
                faults += _bounds(limit, "Container", amounts.get("requests") or {}, amounts.get("limits") or {})
        elif obj["kind"] == "Pod" and limit_type == "Pod":
            faults += _bounds(limit, "Pod", total(obj["spec"], "requests"), total(obj["spec"], "limits"))
        elif obj["kind"] == limit_type == "PersistentVolumeClaim":
            amounts = (obj["spec"].get("resources") or {}).get("requests") or {}
            faults += _bounds(limit, limit_type, amounts, amounts)
    if not faults:
        return ""
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"


def _value(amounts: Json, name: str) -> Fraction | None:
    amount = amounts.get(name)
    return None if amount is None else amount if isinstance(amount, Fraction) else number(amount)


def _bounds(limit_range: Json, limit_type: str, requests: Json, limits: Json) -> list[str]:
    faults = []
    for name, minimum in (limit_range.get("min") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        text = f"minimum {name} usage per {limit_type} is {minimum}"
        if request is None:
            faults.append(f"{text}.  No request is specified")
        elif request < number(minimum):
            faults.append(f"{text}, but request is {requests[name]}")
        elif limit is not None and limit < number(minimum):
            faults.append(f"{text}, but limit is {limits[name]}")
    for name, maximum in (limit_range.get("max") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        text = f"maximum {name} usage per {limit_type} is {maximum}"
        if limit is None:
            faults.append(f"{text}.  No limit is specified")
        elif limit > number(maximum):
            faults.append(f"{text}, but limit is {limits[name]}")
        elif request is not None and request > number(maximum):
            faults.append(f"{text}, but request is {requests[name]}")
    for name, ratio in (limit_range.get("maxLimitRequestRatio") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        if request and limit and limit / request > number(ratio):
            text = f"{name} max limit to request ratio per {limit_type} is {ratio}"
            faults.append(f"{text}, but provided ratio is {float(limit / request):f}")
    return faults

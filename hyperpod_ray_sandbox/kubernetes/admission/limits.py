"""LimitRange: defaults for containers, and their bounds.

Source: plugin/pkg/admission/limitranger of Kubernetes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.admission.amounts import total

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def _items(api: Objects, namespace: str) -> list[Json]:
    ranges = api.store.objects("/limitranges", namespace)
    return [item for r in ranges for item in (r.get("spec") or {}).get("limits") or []]


def fill(api: Objects, pod: Json) -> None:
    """Give containers the requests and limits that they do not state."""
    for item in _items(api, pod["metadata"].get("namespace", "")):
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        spec = pod["spec"]
        for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
            given = container.setdefault("resources", {})
            for name, amount in limits.items():
                given.setdefault("limits", {}).setdefault(name, amount)
            for name, amount in requests.items():
                given.setdefault("requests", {}).setdefault(name, amount)


def refusal(api: Objects, obj: Json) -> str:
    """Why the limit ranges of a namespace do not let an object in, or nothing."""
    faults: list[str] = []
    for item in _items(api, obj["metadata"].get("namespace", "")):
        kind = item.get("type")
        if obj["kind"] == "Pod" and kind == "Container":
            spec = obj["spec"]
            for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
                given = container.get("resources") or {}
                faults += _bounds(item, "Container", given.get("requests") or {}, given.get("limits") or {})
        elif obj["kind"] == "Pod" and kind == "Pod":
            faults += _bounds(item, "Pod", total(obj["spec"], "requests"), total(obj["spec"], "limits"))
        elif obj["kind"] == kind == "PersistentVolumeClaim":
            given = (obj["spec"].get("resources") or {}).get("requests") or {}
            faults += _bounds(item, kind, given, given)
    if not faults:
        return ""
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"


def _value(amounts: Json, name: str) -> Fraction | None:
    found = amounts.get(name)
    return None if found is None else found if isinstance(found, Fraction) else number(found)


def _bounds(item: Json, kind: str, requests: Json, limits: Json) -> list[str]:
    faults = []
    for name, least in (item.get("min") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        text = f"minimum {name} usage per {kind} is {least}"
        if request is None:
            faults.append(f"{text}.  No request is specified")
        elif request < number(least):
            faults.append(f"{text}, but request is {requests[name]}")
        elif limit is not None and limit < number(least):
            faults.append(f"{text}, but limit is {limits[name]}")
    for name, most in (item.get("max") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        text = f"maximum {name} usage per {kind} is {most}"
        if limit is None:
            faults.append(f"{text}.  No limit is specified")
        elif limit > number(most):
            faults.append(f"{text}, but limit is {limits[name]}")
        elif request is not None and request > number(most):
            faults.append(f"{text}, but request is {requests[name]}")
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        request, limit = _value(requests, name), _value(limits, name)
        if request and limit and limit / request > number(ratio):
            text = f"{name} max limit to request ratio per {kind} is {ratio}"
            faults.append(f"{text}, but provided ratio is {float(limit / request):f}")
    return faults

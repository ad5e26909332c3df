"""What a pod asks for in total, and how amounts are written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hyperpod_ray_rules.quantity import number

Json = dict[str, Any]

_BINARY = ((2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def written(name: str, amount: Fraction) -> str:
    """A quantity in its canonical form."""
    if amount != int(amount):
        return f"{int(amount * 1000)}m"
    if any(word in name for word in ("memory", "storage", "hugepages")):
        for size, suffix in _BINARY:
            if amount and amount % size == 0:
                return f"{int(amount / size)}{suffix}"
    return str(int(amount))


def total(spec: Json, field: str) -> dict[str, Fraction]:
    """The sum of a pod's `requests` or `limits`: its containers together, or its largest init container."""

    def of(container: Json) -> dict[str, Fraction]:
        return {k: number(v) for k, v in ((container.get("resources") or {}).get(field) or {}).items()}

    totals: dict[str, Fraction] = {}
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or []), *sidecars]:
        for name, amount in of(container).items():
            totals[name] = totals.get(name, Fraction(0)) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in of(container).items():
            totals[name] = max(totals.get(name, Fraction(0)), amount)
    for name, amount in (spec.get("overhead") or {}).items():
        totals[name] = totals.get(name, Fraction(0)) + number(amount)
    return totals


def quality(spec: Json) -> str:
    """A pod's quality of service: Guaranteed where requests are limits, of every container or of the pod."""
    requests, limits = [], []
    guaranteed = True
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    for container in [spec] if spec.get("resources") else containers:
        resources = container.get("resources") or {}
        requested, allowed = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            requests += [requested[name]] if number(requested.get(name, 0)) else []
            limits += [allowed[name]] if number(allowed.get(name, 0)) else []
            limit = number(allowed.get(name, 0))
            guaranteed &= limit > 0 and number(requested.get(name, limit)) == limit
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"

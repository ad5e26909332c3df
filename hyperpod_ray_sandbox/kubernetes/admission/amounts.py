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

    found: dict[str, Fraction] = {}
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or []), *sidecars]:
        for name, amount in of(container).items():
            found[name] = found.get(name, Fraction(0)) + amount
    for container in spec.get("initContainers") or []:
        for name, amount in of(container).items():
            found[name] = max(found.get(name, Fraction(0)), amount)
    for name, amount in (spec.get("overhead") or {}).items():
        found[name] = found.get(name, Fraction(0)) + number(amount)
    return found


def quality(spec: Json) -> str:
    """A pod's quality of service: Guaranteed where every container's requests are its limits."""
    requests, limits = [], []
    guaranteed = True
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        given = container.get("resources") or {}
        asked, most = given.get("requests") or {}, given.get("limits") or {}
        for name in ("cpu", "memory"):
            requests += [asked[name]] if number(asked.get(name, 0)) else []
            limits += [most[name]] if number(most.get(name, 0)) else []
            limit = number(most.get(name, 0))
            guaranteed &= limit > 0 and number(asked.get(name, limit)) == limit
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"

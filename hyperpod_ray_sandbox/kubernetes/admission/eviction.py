"""Evictions, and the disruption budgets that may refuse them.

Source: pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption of Kubernetes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes.selectors import matches
from hyperpod_ray_sandbox.kubernetes.status import ApiError

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def _ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _share(value: Any, count: int) -> int:
    return math.ceil(int(value[:-1]) * count / 100) if isinstance(value, str) else int(value)


def budget(api: Objects, pdb: Json) -> dict[str, int]:
    """The status of a disruption budget: what is there, what must be, and what may go."""
    spec = pdb.get("spec") or {}
    selector = spec.get("selector")
    pods = [
        p
        for p in api.store.objects("/pods", pdb["metadata"]["namespace"])
        if selector is not None
        and matches(selector, p["metadata"].get("labels") or {})
        and (p.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    healthy = sum(_ready(p) and not p["metadata"].get("deletionTimestamp") for p in pods)
    if spec.get("maxUnavailable") is not None:
        desired = max(0, len(pods) - _share(spec["maxUnavailable"], len(pods)))
    else:
        desired = _share(spec.get("minAvailable", 1), len(pods))
    allowed = max(0, healthy - desired) if pods else 0
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": len(pods),
        "disruptionsAllowed": allowed,
    }


def check(api: Objects, pod: Json) -> None:
    """Refuse an eviction that a disruption budget forbids; raises 429."""
    status, meta = pod.get("status") or {}, pod["metadata"]
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or meta.get("deletionTimestamp"):
        return
    pdbs = [
        p
        for p in api.store.objects("policy/poddisruptionbudgets", meta["namespace"])
        if (p.get("spec") or {}).get("selector") is not None
        and matches(p["spec"]["selector"], meta.get("labels") or {})
    ]
    if len(pdbs) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    for pdb in pdbs:
        pdb_status = budget(api, pdb)
        if not _ready(pod):
            if pdb["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
                return
            if pdb_status["currentHealthy"] >= pdb_status["desiredHealthy"] > 0:
                return
        if pdb_status["disruptionsAllowed"] < 1:
            name = pdb["metadata"]["name"]
            why = f"The disruption budget {name} needs {pdb_status['desiredHealthy']} healthy pods and has {pdb_status['currentHealthy']} currently"  # noqa: E501
            raise ApiError(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                {"causes": [{"reason": "DisruptionBudget", "message": why}], "retryAfterSeconds": 10},
            )

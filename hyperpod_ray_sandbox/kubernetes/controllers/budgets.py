"""The status of quotas and disruption budgets, as kube-controller-manager writes it.

Admission does not read it: it counts for itself, so that it is never behind. A disruption budget counts the pods that
its selector finds; the real controller asks their controllers how many there should be.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.kubernetes.admission import eviction, quota
from hyperpod_ray_sandbox.kubernetes.amounts import written
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import condition, set_status

Json = dict[str, Any]


class Budgets:
    """Keeps the status of ResourceQuotas and PodDisruptionBudgets."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self) -> None:
        """One pass."""
        for limit in self.api.all("v1", "ResourceQuota"):
            hard = (limit.get("spec") or {}).get("hard") or {}
            used = {name: written(name, amount) for name, amount in quota.used(self.api, limit).items()}
            self._write(limit, {"hard": hard, "used": used})
        for pdb in self.api.all("policy/v1", "PodDisruptionBudget"):
            budget: Json = dict(eviction.budget(self.api, pdb))
            budget["observedGeneration"] = pdb["metadata"].get("generation", 1)
            self._write(pdb, budget, allowed=bool(budget["disruptionsAllowed"]))

    def _write(self, obj: Json, fields: Json, *, allowed: bool | None = None) -> None:
        current = obj.get("status") or {}
        if all(current.get(name) == value for name, value in fields.items()):
            return

        def fill(status: Json) -> None:
            status.update(fields)
            if allowed is not None:
                reason = "SufficientPods" if allowed else "InsufficientPods"
                condition(status, "DisruptionAllowed", str(allowed), reason)

        set_status(self.api, obj, fill)

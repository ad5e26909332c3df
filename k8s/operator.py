"""Objects that the KubeRay operator refuses are never rendered."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.plan import Plan
from hyperpod_ray_rules import kuberay


def feature_gates(plan: Plan) -> dict[str, bool]:
    """Feature gates of the operator's Helm release; the chart's list is replaced as a whole."""
    return {
        **kuberay.DEFAULT_GATES,
        "RayCronJob": True,
        kuberay.EMBEDDED_STORE_GATE: plan.head_volume_gib is not None,
    }


class RefusedError(ProjectError, ValueError):
    """An object that the KubeRay operator does not accept; the command exits with code 2."""


def accepted(manifest: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The same manifest, or RefusedError with the operator's own words.

    Args:
        manifest: a RayCluster, RayJob or RayCronJob.
        plan: the environment, whose operator it is for.

    Raises:
        RefusedError: the operator refuses it.
    """
    verdicts = kuberay.judge(manifest, gates=feature_gates(plan))
    if verdicts:
        name = f"{manifest['kind']} '{manifest['metadata']['name']}'"
        reasons = "; ".join(f"{verdict.message} ({verdict.reason})" for verdict in verdicts)
        raise RefusedError(
            f"{name}: {reasons}", expected="what the KubeRay operator accepts", fix="correct what it names"
        )
    return manifest

"""What the KubeRay operator refuses, as far as an environment's file alone decides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.findings import Finding, error, rule
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.yaml_source import Path
from hyperpod_ray_rules import kuberay

OTHERS = {"cluster_name", "group_replicas", "authentication"}
"""Rules of the operator that other checks state in the file's own words."""
VARIABLES = {
    "autoscaler_variable": ("RAY_enable_autoscaler_v2",),
    "redis_address_by_options": ("RAY_REDIS_ADDRESS",),
    "redis_settings_by_options": ("REDIS_PASSWORD", "RAY_REDIS_ADDRESS"),
    "redis_username_by_options": ("REDIS_USERNAME",),
    "fault_tolerance_backend": ("RAY_gcs_storage", "RAY_gcs_storage_path"),
}
"""Environment variables that the operator's rules read."""


@rule("ray")
def operator_accepts_the_cluster(plan: Plan) -> Iterator[Finding]:
    """The operator checks a RayCluster only when it is deployed, and then says so in an event.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go
    """
    gates = {**kuberay.DEFAULT_GATES, kuberay.EMBEDDED_STORE_GATE: plan.head_volume_gib is not None}
    for verdict in kuberay.judge(outline(plan), gates=gates):
        if verdict.rule not in OTHERS:
            yield error(
                *_place(plan, verdict.rule),
                what=f"the KubeRay operator refuses it: {verdict.message}",
                expected="a RayCluster that the operator accepts",
                fix="correct the setting that the message names",
            )


def outline(plan: Plan) -> dict[str, Any]:
    """The RayCluster that the file's `ray` section determines: what the operator's rules read of it."""
    ray = plan.settings.ray
    spec: dict[str, Any] = {
        "rayVersion": ray.version,
        "headGroupSpec": _group("ray-head", {**ray.env, **ray.head.env}),
        "workerGroupSpecs": [
            {
                "groupName": worker.name,
                "minReplicas": worker.replicas if worker.min_replicas is None else worker.min_replicas,
                "maxReplicas": worker.replicas if worker.max_replicas is None else worker.max_replicas,
                **_group("ray-worker", {**ray.env, **worker.env}),
            }
            for worker in ray.workers
        ],
        "authOptions": {"mode": "token" if ray.auth == "token" else "disabled"},
    }
    if ray.autoscaling:
        spec |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
    if plan.head_volume_gib is not None:
        spec["gcsFaultToleranceOptions"] = {"backend": "rocksdb", "storage": {"size": f"{plan.head_volume_gib}Gi"}}
    elif ray.gcs_fault_tolerance:
        spec["gcsFaultToleranceOptions"] = {
            "redisAddress": ray.gcs_fault_tolerance.redis_address or f"{names.REDIS}:{names.REDIS_PORT}"
        }
    return {
        "kind": "RayCluster",
        "metadata": {"name": ray.cluster_name, "namespace": ray.namespace},
        "spec": spec,
    }


def _group(name: str, env: dict[str, str]) -> dict[str, Any]:
    container = {"name": name, "env": [{"name": key, "value": value} for key, value in env.items()]}
    return {"template": {"spec": {"containers": [container]}}}


def _place(plan: Plan, rule_name: str) -> Path:
    """The setting that a rule is about: an environment variable that it reads, else the section."""
    ray = plan.settings.ray
    for path, variables in ((("ray", "head", "env"), ray.head.env), (("ray", "env"), ray.env)):
        for name in VARIABLES.get(rule_name, ()):
            if name in variables:
                return (*path, name)
    return ("ray",)

"""A RayJob for those who submit by manifest instead of by the Jobs API."""

from __future__ import annotations

from typing import Any

from core.plan import Plan
from k8s.bindings import Bindings
from k8s.manifest import PART_OF
from k8s.names import CLIENT_LABEL
from k8s.pods import group_tolerations, node_affinity, node_selector, resources, restricted_container, restricted_pod
from k8s.ray_cluster import DRIVER_GROUP, cluster_spec
from k8s.ray_settings import recovery

FAILED_CLUSTER_SECONDS = 3600
"""How long a failed job's cluster stays for a person to look at."""


def ray_job(
    plan: Plan,
    bindings: Bindings,
    *,
    name: str,
    entrypoint: str,
    on_existing_cluster: bool = False,
    retries: int = 3,
    suspend: bool = False,
) -> dict[str, Any]:
    """A `ray.io/v1` RayJob that runs `entrypoint`.

    Args:
        name: of the RayJob, a DNS label of at most 47 characters.
        entrypoint: shell command, for example `python /fsx/code/finetune/main.py`. With the same storage path and run
            name each retry resumes from the last checkpoint.
        on_existing_cluster: submit to the environment's RayCluster. Left out: a cluster of its own, which goes when the
            job is done.
        retries: `backoffLimit`: whole new clusters (or submissions) after a failure of the driver. Failures of
            workers and nodes do not count here: Ray Train handles them (`FailureConfig(max_failures=-1)`).
        suspend: made suspended, for Kueue and HyperPod task governance to admit.
    """
    settings = plan.settings.ray
    head = settings.head.instance_group
    spec: dict[str, Any] = {
        "entrypoint": entrypoint,
        "backoffLimit": retries,
        "submissionMode": "K8sJobMode",
        "runtimeEnvYAML": _runtime_env(recovery(plan).job_env()),
        "submitterPodTemplate": {
            "metadata": {"labels": {**PART_OF, **CLIENT_LABEL}},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "securityContext": restricted_pod(),
                "nodeSelector": node_selector(head),
                "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
                "tolerations": group_tolerations(plan, head),
                "containers": [
                    {
                        "name": "ray-job-submitter",
                        "image": bindings.image_uri,
                        "resources": resources(cpu="500m", memory="1Gi"),
                        "securityContext": restricted_container(),
                    }
                ],
            },
        },
    }
    if settings.gcs_fault_tolerance:
        # the driver off the head's pod, so that a new head finds it alive
        spec["entrypointResources"] = f'{{"{DRIVER_GROUP}": 1}}'
    if suspend:
        spec["suspend"] = True
    if on_existing_cluster:
        spec["clusterSelector"] = {"ray.io/cluster": settings.cluster_name}
    else:
        spec["rayClusterSpec"] = cluster_spec(plan, bindings)
        spec["deletionStrategy"] = {
            "deletionRules": [
                {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}},
                # GPUs free at once, head and logs an hour later
                {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 0}},
                {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": FAILED_CLUSTER_SECONDS}},
            ]
        }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": dict(PART_OF)},
        "spec": spec,
    }


def _runtime_env(env: dict[str, str]) -> str:
    lines = [f'  {key}: "{value}"' for key, value in sorted(env.items())]
    return "\n".join(["env_vars:", *lines, ""])

"""Redis for GCS fault tolerance: what the head knows outlives the head."""

from __future__ import annotations

import cdk8s

from hyperpod_ray.core.names import CLAIM, RAY_GID, RAY_UID, REDIS, REDIS_PORT
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.pods import (
    group_tolerations,
    node_affinity,
    node_loss_tolerations,
    node_selector,
    resources,
    restricted_container,
    restricted_pod,
)

COMMAND = (
    "redis-server", "--port", str(REDIS_PORT), "--dir", "/data", "--appendonly", "yes", "--appendfsync", "everysec",
    "--save", "", "--protected-mode", "no",
)  # fmt: skip
"""Protected mode is off because the network policy is what says who may connect: Ray's pods and nobody else."""


def redis(plan: Plan, image: str) -> Manifest:
    """A Deployment of one Redis on the driver's instance group, with its Service.

    Its log is on the shared file system, so the state also outlives Redis's own node. A Deployment and not a
    StatefulSet: CPU nodes are not replaced automatically, and a StatefulSet would wait for the lost one.
    """
    settings = plan.settings.ray
    assert settings.gcs_fault_tolerance is not None  # noqa: S101 (the caller asks only then)
    group = settings.gcs_fault_tolerance.driver_instance_group
    labels = {"app": REDIS}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(uid=RAY_UID, gid=RAY_GID),
        "nodeSelector": node_selector(group),
        "affinity": {"nodeAffinity": node_affinity(deep_checks=False)},
        "tolerations": [*node_loss_tolerations(settings.node_loss_seconds), *group_tolerations(plan, group)],
        "containers": [
            {
                "name": "redis",
                "image": image,
                "command": list(COMMAND),
                "ports": [{"name": "redis", "containerPort": REDIS_PORT}],
                "readinessProbe": {"tcpSocket": {"port": REDIS_PORT}, "periodSeconds": 5},
                "resources": resources(cpu="250m", memory="1Gi"),
                "securityContext": restricted_container(read_only=True),
                "volumeMounts": [{"name": CLAIM, "mountPath": "/data", "subPath": ".system/redis"}],
            }
        ],
        "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
    }

    def define(chart: cdk8s.Chart) -> None:
        metadata = cdk8s.ApiObjectMetadata(name=REDIS, namespace=settings.namespace, labels={**PART_OF, **labels})
        deployment = cdk8s.ApiObject(chart, "Deployment", api_version="apps/v1", kind="Deployment", metadata=metadata)
        deployment.add_json_patch(
            cdk8s.JsonPatch.add(
                "/spec",
                {
                    "replicas": 1,
                    # two writers on one log would spoil it
                    "strategy": {"type": "Recreate"},
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": {**PART_OF, **labels}}, "spec": pod},
                },
            )
        )
        service = cdk8s.ApiObject(chart, "Service", api_version="v1", kind="Service", metadata=metadata)
        service.add_json_patch(
            cdk8s.JsonPatch.add(
                "/spec",
                {
                    "type": "ClusterIP",
                    "selector": labels,
                    "ports": [{"name": "redis", "port": REDIS_PORT, "targetPort": "redis"}],
                },
            )
        )

    return build("Redis", define)

"""The training image on nodes that are still under deep health checks."""

from __future__ import annotations

from typing import Any

import cdk8s

from hyperpod_ray.core.names import HEALTH_LABEL, IMAGE_PULL, INSTANCE_GROUP_LABEL
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.pods import group_tolerations, resources, restricted_container, restricted_pod

APP = {"app": IMAGE_PULL}


def image_pull(plan: Plan, bindings: Bindings) -> Manifest:
    """A DaemonSet that pulls the training image on nodes under deep health checks, and keeps it there.

    An image of 15 to 20 GB takes minutes: on a new or a replaced node they pass while the node is checked anyway. The
    container sleeps; it asks for what is set aside for daemon sets, and keeps the kubelet from removing the image.
    """
    names = [group.name for group in plan.checked_worker_groups]
    tolerations: list[dict[str, Any]] = [
        # the taint of nodes under deep health checks: the pull is to happen in just that time
        {"key": HEALTH_LABEL, "operator": "Equal", "value": "Unschedulable", "effect": "NoSchedule"}
    ]
    for name in names:
        tolerations += [toleration for toleration in group_tolerations(plan, name) if toleration not in tolerations]
    group_label = {"key": INSTANCE_GROUP_LABEL, "operator": "In", "values": names}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # sleep ignores SIGTERM as process 1: the kubelet would wait its 30 seconds for nothing
        "terminationGracePeriodSeconds": 1,
        "securityContext": restricted_pod(),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [group_label]}]
                }
            }
        },
        "tolerations": tolerations,
        "containers": [
            {
                "name": "sleep",
                "image": bindings.image_uri,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "infinity"],
                "resources": resources(cpu="10m", memory="32Mi"),
                "securityContext": restricted_container(read_only=True),
            }
        ],
    }
    spec = {
        "selector": {"matchLabels": APP},
        # a changed image is pulled on all nodes at once: nothing depends on these pods
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": {**PART_OF, **APP}}, "spec": pod},
    }

    def define(chart: cdk8s.Chart) -> None:
        daemon_set = cdk8s.ApiObject(
            chart,
            "DaemonSet",
            api_version="apps/v1",
            kind="DaemonSet",
            metadata=cdk8s.ApiObjectMetadata(name=IMAGE_PULL, namespace=plan.settings.ray.namespace, labels=PART_OF),
        )
        daemon_set.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))

    return build("ImagePull", define)

"""What HyperPod's managed Karpenter needs to add nodes: a HyperpodNodeClass and a NodePool for each group it scales.

HyperPod installs Karpenter and its definitions (`hyperpod.managed_autoscaling`), and neither of the two objects.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html
"""

from __future__ import annotations

from typing import Any

import cdk8s

from hyperpod_ray.core.model import InstanceGroup
from hyperpod_ray.core.names import (
    GPU_RESOURCE,
    HEALTH_LABEL,
    INSTANCE_GROUP_LABEL,
    INSTANCE_TYPE_LABEL,
    NEURON_RESOURCE,
)
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build

GROUP, KIND = "karpenter.sagemaker.amazonaws.com", "HyperpodNodeClass"
EMPTY_MINUTES = 10
"""How long a node stays without pods: a worker that is replaced comes back to a warm node."""


def node_pools(plan: Plan) -> Manifest:
    """A HyperpodNodeClass and a NodePool for each instance group that Karpenter scales from 0; cluster-scoped."""

    def define(chart: cdk8s.Chart) -> None:
        for group in plan.scaled_groups:
            name = group.name.lower()
            _object(chart, f"{GROUP}/v1", KIND, name, {"instanceGroups": [group.name]})
            _object(chart, "karpenter.sh/v1", "NodePool", name, _pool(plan, group, name))

    return build("NodePools", define)


def _pool(plan: Plan, group: InstanceGroup, name: str) -> dict[str, Any]:
    taints = [{"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in group.taints]
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": GROUP, "kind": KIND, "name": name},
        # a node that trains is not replaced for its age
        "expireAfter": "Never",
        "requirements": [{"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": [group.type]}],
    }
    if taints:
        spec["taints"] = taints
    # Ray's pods ask for these labels; HyperPod sets them on the node, and Karpenter must know them before there is one
    labels = {INSTANCE_GROUP_LABEL: group.name, HEALTH_LABEL: "Schedulable", **group.labels}
    return {
        **({"limits": _limits(plan, group)} if plan.most_nodes(group) else {}),
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": f"{EMPTY_MINUTES}m"},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def _limits(plan: Plan, group: InstanceGroup) -> dict[str, str]:
    """What the pool may grow to: the nodes of the largest Ray cluster. A pod that asks for more waits.

    A group without workers of the environment's RayCluster is for RayJobs of other shapes and has no limit.
    """
    spec, nodes = plan.type_spec(group.type), plan.most_nodes(group)
    if spec.accelerators:
        resource = NEURON_RESOURCE if spec.accelerator == "neuron" else GPU_RESOURCE
        return {resource: str(nodes * spec.accelerators)}
    return {"cpu": str(nodes * spec.vcpus)}


def _object(chart: cdk8s.Chart, api_version: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    metadata = cdk8s.ApiObjectMetadata(name=name, labels=PART_OF)
    api_object = cdk8s.ApiObject(chart, f"{kind}-{name}", api_version=api_version, kind=kind, metadata=metadata)
    api_object.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))

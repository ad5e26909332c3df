from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan
from hyperpod_ray.core.model import InstanceGroup
from hyperpod_ray.k8s.node_pools import node_pools
from tests.core.environment_files import judged
from tests.k8s.definitions_helpers import scaled
from tests.k8s.test_k8s_valid import strict


def test_a_group_of_no_standing_worker_has_no_limit(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    """RayJobs use it with sizes of their own. A limit of 0 would let Karpenter make no node.

    https://karpenter.sh/docs/concepts/nodepools/#speclimits
    """
    groups = [
        {"name": "head", "type": "ml.m5.2xlarge", "count": 3},
        {"name": "workers", "type": "ml.p5.48xlarge", "count": 8},
        {"name": "jobs", "type": "ml.g5.8xlarge", "count": 0},
    ]
    plan = plan_with("prod", hyperpod={"instance_groups": groups, "managed_autoscaling": True})
    (pool,) = [
        obj for manifest in k8s.platform_manifests(plan, bindings) for obj in manifest.objects
        if obj["kind"] == "NodePool"
    ]  # fmt: skip
    assert "limits" not in pool["spec"]


def test_karpenter_scales_groups_of_count_zero(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    groups = [
        {"name": "head", "type": "ml.m5.2xlarge", "count": 3},
        {"name": "Burst", "type": "ml.p5.48xlarge", "count": 0, "labels": {"team": "research"},
         "taints": [{"key": "dedicated", "value": "ray", "effect": "NoSchedule"}]},
    ]  # fmt: skip
    workers = [{"name": "gpu", "instance_group": "Burst", "replicas": 1, "max_replicas": 4}]
    hyperpod = {"instance_groups": groups, "managed_autoscaling": True}
    plan = plan_with("prod", hyperpod=hyperpod, ray={"workers": workers, "autoscaling": True})
    objects = {item["kind"]: item for manifest in k8s.platform_manifests(plan, bindings) for item in manifest.objects}
    node_class, pool = objects["HyperpodNodeClass"], objects["NodePool"]
    assert node_class["apiVersion"] == "karpenter.sagemaker.amazonaws.com/v1"
    assert node_class["spec"] == {"instanceGroups": ["Burst"]}
    assert pool["apiVersion"] == "karpenter.sh/v1"
    template = pool["spec"]["template"]
    assert template["spec"]["nodeClassRef"] == {
        "group": "karpenter.sagemaker.amazonaws.com",
        "kind": "HyperpodNodeClass",
        "name": node_class["metadata"]["name"],
    }
    assert template["spec"]["expireAfter"] == "Never"
    # WhenEmpty needs the time after which an empty node goes
    assert pool["spec"]["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "32"}, "4 nodes of 8, as max_replicas says"
    # Karpenter adds a node for a pod that selects a label of the group only where the pool promises that label:
    # https://karpenter.sh/docs/concepts/scheduling/#labels
    assert template["metadata"]["labels"] == {
        "sagemaker.amazonaws.com/instance-group-name": "Burst",
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
        "team": "research",
    }
    # what Ray's pods select and tolerate is what Karpenter promises
    cluster = k8s.ray_manifests(plan, bindings)[-1].objects[0]["spec"]
    pod = cluster["workerGroupSpecs"][0]["template"]["spec"]
    assert pod["nodeSelector"].items() <= template["metadata"]["labels"].items()
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for wanted in term["matchExpressions"]:
        assert template["metadata"]["labels"][wanted["key"]] in wanted["values"]
    (taint,) = template["spec"]["taints"]
    assert {"operator": "Equal", **taint} in pod["tolerations"]
    off = plan_with("prod", hyperpod={"managed_autoscaling": False})
    kinds = {item["kind"] for manifest in k8s.platform_manifests(off, bindings) for item in manifest.objects}
    assert not {"HyperpodNodeClass", "NodePool"} & kinds


@pytest.mark.parametrize(
    "instance_type, devices",
    [("ml.p5.48xlarge", {"nvidia.com/gpu": 8}), ("ml.trn1.32xlarge", {"aws.amazon.com/neuron": 16})],
)
def test_a_pool_is_limited_in_devices_that_its_nodes_offer(
    instance_type: str, devices: dict[str, int], plan_with: Callable[..., Plan]
) -> None:
    """Karpenter counts what nodes report: a limit in devices that none of them has limits nothing.

    https://karpenter.sh/docs/concepts/nodepools/#speclimits. EC2's DescribeInstanceTypes has the numbers.
    """
    groups = [
        {"name": "head", "type": "ml.m5.2xlarge", "count": 3},
        {"name": "burst", "type": instance_type, "count": 0},
    ]
    workers = [{"name": "burst", "instance_group": "burst", "replicas": 1, "max_replicas": 3}]
    hyperpod = {"instance_groups": groups, "managed_autoscaling": True}
    plan = plan_with("prod", hyperpod=hyperpod, ray={"workers": workers, "autoscaling": True})
    (pool,) = (manifest for manifest in node_pools(plan).objects if manifest["kind"] == "NodePool")
    assert pool["spec"]["limits"] == {device: str(3 * number) for device, number in devices.items()}


DEFINITIONS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "definitions.yaml").read_text(encoding="utf-8"))


POOL = DEFINITIONS["NodePool"]


def pools(data: dict[str, Any]) -> list[dict[str, Any]]:
    file, problems = judged(yaml.safe_dump(data, sort_keys=False))
    assert file is not None, problems
    return [item for item in node_pools(file.plan).objects if item["kind"] == "NodePool"]


GROUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "labels and taints": {
        "labels": {"example.com/Tier": "a.b_c-D", "plain": "x"},
        "taints": [
            {"key": "a.example.com/b", "effect": "NoSchedule"},
            {"key": "c", "value": "d", "effect": "NoExecute"},
        ],
    },
    "processors": {"type": "ml.c5.4xlarge"},
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_node_pool_is_one_that_karpenter_takes(name: str) -> None:
    (pool,) = pools(scaled(GROUPS[name]))
    validator = jsonschema.Draft202012Validator(strict(POOL))
    assert [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(pool["spec"])] == []
    labels = pool["spec"]["template"]["metadata"]["labels"]
    assert list(
        validator.iter_errors({**pool["spec"], "template": {"metadata": {"labels": {**labels, "a": "x" * 64}}}})
    )


def test_group_limits_of_labels_leave_room_for_ours() -> None:
    labels = POOL["properties"]["template"]["properties"]["metadata"]["properties"]["labels"]
    most = InstanceGroup.model_json_schema()["properties"]["labels"]["maxProperties"]
    (pool,) = pools(scaled({}))
    assert most + len(pool["spec"]["template"]["metadata"]["labels"]) <= labels["maxProperties"]

"""The head's state on a volume: its class, the claim that the operator makes of it, and who may write there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, names
from hyperpod_ray_rules import kuberay

Json = dict[str, Any]
STORE = {"driver_instance_group": "head", "volume_gib": 8}
GATE = "GCSFaultToleranceEmbeddedStorage"


@pytest.fixture
def plan(plan_with: Callable[..., Plan]) -> Plan:
    return plan_with("prod", ray={"gcs_fault_tolerance": STORE}, tags={"team": "research"})


def objects(manifests: list[Any]) -> list[Json]:
    return [found for manifest in manifests for found in manifest.objects]


def cluster(plan: Plan, bindings: k8s.Bindings) -> Json:
    (found,) = [item for item in objects(k8s.ray_manifests(plan, bindings)) if item["kind"] == "RayCluster"]
    return found


def test_the_class_is_encrypted_gp3_with_the_environments_tag(plan: Plan, bindings: k8s.Bindings) -> None:
    """https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md"""
    (made,) = [item for item in objects(k8s.platform_manifests(plan, bindings)) if item["kind"] == "StorageClass"]
    assert made["provisioner"] == "ebs.csi.aws.com"
    assert made["reclaimPolicy"] == "Delete"
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    parameters = made["parameters"]
    assert (parameters["type"], parameters["encrypted"]) == ("gp3", "true")
    tags = {value for key, value in parameters.items() if key.startswith("tagSpecification_")}
    assert tags >= {"hyperpod-ray:environment=prod", "team=research"}
    assert "kmsKeyId" not in parameters


def test_the_volume_has_the_key_of_the_heads_group(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    plan = plan_with("prod", ray={"gcs_fault_tolerance": STORE})
    group = plan.group("head")
    groups = [group.model_copy(update={"volume_kms_key_arn": key}), *plan.settings.hyperpod.instance_groups[1:]]
    plan.settings.hyperpod.instance_groups[:] = groups
    (made,) = [item for item in objects(k8s.platform_manifests(plan, bindings)) if item["kind"] == "StorageClass"]
    assert made["parameters"]["kmsKeyId"] == key


def test_one_pod_at_a_time_writes_and_the_claim_goes_with_the_cluster(plan: Plan, bindings: k8s.Bindings) -> None:
    """https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-rocksdb-ft.html"""
    made = cluster(plan, bindings)
    (found,) = [item for item in objects(k8s.platform_manifests(plan, bindings)) if item["kind"] == "StorageClass"]
    options = made["spec"]["gcsFaultToleranceOptions"]
    assert options == {
        "backend": "rocksdb",
        "storage": {
            "size": "8Gi",
            "storageClassName": found["metadata"]["name"],
            "accessModes": ["ReadWriteOncePod"],
            "deletionPolicy": "DeleteWithCluster",
        },
    }
    assert [group["groupName"] for group in made["spec"]["workerGroupSpecs"]] == ["gpu", "driver"]
    assert kuberay.judge(made, gates={**kuberay.DEFAULT_GATES, GATE: True}) == []
    assert kuberay.judge(made) != [], "an operator without the gate refuses it"


def test_the_operator_has_the_gate(plan: Plan) -> None:
    gates = {gate["name"]: gate["enabled"] for gate in k8s.kuberay_operator(plan).values["featureGates"]}
    assert gates[GATE]


def test_the_heads_user_may_write_there(plan: Plan, bindings: k8s.Bindings) -> None:
    """A new file system is root's; the driver's fsGroupPolicy is File."""
    spec = cluster(plan, bindings)["spec"]
    head = spec["headGroupSpec"]["template"]["spec"]["securityContext"]
    assert head["fsGroup"] == head["runAsGroup"] == names.RAY_GID
    assert head["fsGroupChangePolicy"] == "OnRootMismatch"
    for group in spec["workerGroupSpecs"]:
        assert "fsGroup" not in group["template"]["spec"]["securityContext"]


def test_nothing_of_redis_is_there(plan: Plan, bindings: k8s.Bindings) -> None:
    everything = objects([*k8s.namespace_manifests(plan), *k8s.ray_manifests(plan, bindings)])
    assert not [item for item in everything if "redis" in item["metadata"]["name"]]

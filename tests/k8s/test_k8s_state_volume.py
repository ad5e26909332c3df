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
    return [document for manifest in manifests for document in manifest.objects]


def cluster(plan: Plan, bindings: k8s.Bindings) -> Json:
    (ray_cluster,) = [
        document for document in objects(k8s.ray_manifests(plan, bindings)) if document["kind"] == "RayCluster"
    ]
    return ray_cluster


def test_the_class_is_encrypted_gp3_with_the_environments_tag(plan: Plan, bindings: k8s.Bindings) -> None:
    """https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md"""
    (storage_class,) = [
        document for document in objects(k8s.platform_manifests(plan, bindings)) if document["kind"] == "StorageClass"
    ]
    assert storage_class["provisioner"] == "ebs.csi.aws.com"
    assert storage_class["reclaimPolicy"] == "Delete"
    assert storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    parameters = storage_class["parameters"]
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
    (storage_class,) = [
        document for document in objects(k8s.platform_manifests(plan, bindings)) if document["kind"] == "StorageClass"
    ]
    assert storage_class["parameters"]["kmsKeyId"] == key


def test_one_pod_at_a_time_writes_and_the_claim_goes_with_the_cluster(plan: Plan, bindings: k8s.Bindings) -> None:
    """https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-rocksdb-ft.html"""
    ray_cluster = cluster(plan, bindings)
    (storage_class,) = [
        document for document in objects(k8s.platform_manifests(plan, bindings)) if document["kind"] == "StorageClass"
    ]
    options = ray_cluster["spec"]["gcsFaultToleranceOptions"]
    assert options == {
        "backend": "rocksdb",
        "storage": {
            "size": "8Gi",
            "storageClassName": storage_class["metadata"]["name"],
            "accessModes": ["ReadWriteOncePod"],
            "deletionPolicy": "DeleteWithCluster",
        },
    }
    assert [group["groupName"] for group in ray_cluster["spec"]["workerGroupSpecs"]] == ["gpu", "driver"]
    assert kuberay.judge(ray_cluster, gates={**kuberay.DEFAULT_GATES, GATE: True}) == []
    assert kuberay.judge(ray_cluster) != [], "an operator without the gate refuses it"


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
    assert not [document for document in everything if "redis" in document["metadata"]["name"]]

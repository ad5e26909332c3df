"""Stacks, file systems and the control plane of an account, in AWS's own shapes; workloads that an environment has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hyperpod_ray.core import Plan, load, names, plan_names
from hyperpod_ray.core.model import Environment
from hyperpod_ray.ops.observe import account, controllers
from hyperpod_ray.ops.observe.snapshot import Stack
from tests.ops.ops_account_helpers import Account, Json, of, stack

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TAG = {"Key": "hyperpod-ray:environment", "Value": "demo"}
"""As the CDK app tags each resource: `core/names.py` must not move away from what is deployed."""


def test_a_stack_of_ones_own_is_the_environments_by_its_tag() -> None:
    other = {**TAG, "Value": "demo2"}
    listed = [stack("mine", "UPDATE_COMPLETE", TAG), stack("theirs", "CREATE_COMPLETE", other), stack("nobodys")]
    target = of(Account(stacks=listed))
    assert TAG["Key"] == names.ENVIRONMENT_TAG
    assert account.tagged_stacks(target) == ["mine"]
    seen = account.stacks(target, also=["asked"])
    own = plan_names.stack_names(target.plan)
    assert [one.name for one in seen] == [*own, "asked", "mine"]
    assert [one.status for one in seen] == [*("" for _ in own), "", "UPDATE_COMPLETE"]


def test_a_listing_that_is_refused_is_said() -> None:
    made = Account(stacks=[stack("mine", "CREATE_COMPLETE", TAG)])
    made.refuses = {"describe_stacks"}
    unseen: list[str] = []
    seen = account.stacks(of(made), unseen=unseen)
    assert "mine" not in [one.name for one in seen]
    (sentence,) = unseen
    assert sentence.startswith("stacks of your own: ")


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (stack("s", "CREATE_COMPLETE"), Stack(name="s", status="CREATE_COMPLETE")),
        (stack("s", "DELETE_COMPLETE"), Stack(name="s")),
        (
            stack("s", "UPDATE_IN_PROGRESS", StackStatusReason="User Initiated", EnableTerminationProtection=True),
            Stack(name="s", status="UPDATE_IN_PROGRESS", reason="User Initiated", protected=True),
        ),
        (stack("other"), Stack(name="s")),
    ],
    ids=["there", "deleted", "with its words", "not there"],
)
def test_a_stack_reads_as_cloudformation_has_it(answer: Json, seen: Stack) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Stack.html"""
    assert account.stack(of(Account(stacks=[answer])), "s") == seen


def file_system(identifier: str, *tags: tuple[str, str], **more: Any) -> Json:
    listed = [{"Key": key, "Value": value} for key, value in tags]
    return {"FileSystemId": identifier, "Lifecycle": "AVAILABLE", "Tags": listed, **more}


def test_file_systems_of_the_environment() -> None:
    """https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html"""
    mine = (names.ENVIRONMENT_TAG, "demo")
    listed = [
        file_system("fs-1", mine, ("aws:cloudformation:stack-name", "demo-Storage"), StorageCapacity=2400,
                    CreationTime=NOW, NetworkInterfaceIds=["eni-1", "eni-2"]),
        file_system("fs-2", mine, (names.CLAIM_TAG, "ray/fsx"), FailureDetails={"Message": "no capacity"}),
        file_system("fs-3", (names.ENVIRONMENT_TAG, "other")),
        file_system("fs-4"),
    ]  # fmt: skip
    first, second = account.file_systems(of(Account(file_systems=listed)))
    assert (first.id, first.lifecycle, first.capacity_gib, first.created) == ("fs-1", "AVAILABLE", 2400, NOW)
    assert (first.stack, first.interfaces, first.made_by_claim) == ("demo-Storage", ("eni-1", "eni-2"), False)
    assert (second.id, second.made_by_claim, second.failure, second.stack) == ("fs-2", True, "no capacity", "")


# --- Cost Explorer ---------------------------------------------------------------------------------------------------


# --- workloads -------------------------------------------------------------------------------------------------------

EXPECTED = {
    # charts of charts.lock.yaml, EKS's add-ons, and the manifests of `k8s/`
    "KubeRay operator": ("kuberay-operator", "Deployment", "kuberay-operator", True),
    "CoreDNS": ("kube-system", "Deployment", "coredns", True),
    "FSx CSI driver's controller": ("kube-system", "Deployment", "fsx-csi-controller", False),
    "FSx CSI driver's node daemon": ("kube-system", "DaemonSet", "fsx-csi-node", True),
    "EBS CSI driver's controller": ("kube-system", "Deployment", "ebs-csi-controller", False),
    "EBS CSI driver's node daemon": ("kube-system", "DaemonSet", "ebs-csi-node", False),
    "HyperPod's health-monitoring agent": ("aws-hyperpod", "DaemonSet", "health-monitoring-agent", False),
    "node guard": ("node-guard", "Deployment", "node-guard", False),
}


@pytest.mark.parametrize(("store", "there"), [({}, False), ({"driver_instance_group": "head", "volume_gib": 8}, True)])
def test_the_ebs_driver_is_expected_where_a_volume_has_the_heads_state(store: Json, there: bool) -> None:
    settings = load("dev").plan.settings.model_dump(exclude_unset=True)
    if store:
        settings["ray"]["gcs_fault_tolerance"] = store
    plan = Plan(name="dev", settings=Environment.model_validate(settings))
    stems = {workload.stem for workload in controllers.expected(plan)}
    assert ({"ebs-csi-controller", "ebs-csi-node"} <= stems) is there
    assert "fsx-csi-node" in stems


def test_the_workloads_are_those_of_charts_and_add_ons() -> None:
    listed = {
        one.name: (one.namespace, one.kind, one.stem, one.recovers)
        for one in controllers.EXPECTED
        if not one.name.endswith("device plugin")
    }
    assert listed == EXPECTED
    plugins = [one for one in controllers.EXPECTED if one.name.endswith("device plugin")]
    assert {(plugin.namespace, plugin.kind, plugin.recovers) for plugin in plugins} == {
        ("kube-system", "DaemonSet", True)
    }
    assert {plugin.name.partition(" ")[0] for plugin in plugins} == {"NVIDIA", "EFA", "Neuron"}

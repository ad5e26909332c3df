"""A cluster's life: its nodes, its groups, and what never changes."""

from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.clusters_helpers import Clusters, code, group
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_a_cluster_is_created_with_its_nodes(clusters: Clusters) -> None:
    with clusters.emulator.control.time_held():
        name = clusters.create(group(), wait=False)
        assert clusters.status(name) == "Creating"
        assert set(clusters.nodes(name).values()) == {"Pending"}
    until(lambda: clusters.status(name) == "InService")
    described = clusters.api.describe_cluster(ClusterName=name)["InstanceGroups"][0]
    assert (described["CurrentCount"], described["TargetCount"], described["Status"]) == (2, 2, "InService")
    assert len(clusters.all_running(name, 2)) == 2


def test_a_group_is_scaled_up_and_down(clusters: Clusters) -> None:
    name = clusters.create(group())
    before = clusters.all_running(name, 2)
    clusters.api.update_cluster(ClusterName=name, InstanceGroups=[group(count=3)])
    assert before < clusters.all_running(name, 3)
    until(lambda: clusters.status(name) == "InService")
    clusters.api.update_cluster(ClusterName=name, InstanceGroups=[group(count=1)])
    assert clusters.all_running(name, 1) < before


def test_a_failed_node_is_replaced_only_with_automatic_recovery(emulator: Emulator, clusters: Clusters) -> None:
    automatic = clusters.create(group(), NodeRecovery="Automatic")
    manual = clusters.create(group(), NodeRecovery="None")
    for name in (automatic, manual):
        node = sorted(clusters.all_running(name, 2))[0]
        with emulator.control.time_held():
            emulator.control.fail_node(node, "Xid 74")
            detail = clusters.api.describe_cluster_node(ClusterName=name, NodeId=node)["NodeDetails"]
        assert detail["InstanceStatus"] == {"Status": "Failure", "Message": "Xid 74"}
        listed = clusters.api.list_cluster_events(ClusterName=name, NodeId=node)["Events"]
        events = [e for e in listed if e["EventLevel"] == "Error"]
        event = clusters.api.describe_cluster_event(ClusterName=name, EventId=events[0]["EventId"])["EventDetails"]
        assert event["EventDetails"]["EventMetadata"]["Instance"]["FailureMessage"] == "Xid 74"
    until(lambda: len(clusters.running(automatic)) == 2 and "Failure" not in clusters.nodes(automatic).values())
    assert "Failure" in clusters.nodes(manual).values()


def test_cpu_nodes_are_not_replaced_automatically(emulator: Emulator, clusters: Clusters) -> None:
    name = clusters.create(group(kind="ml.m5.xlarge"), group("gpu2"), NodeRecovery="Automatic")
    found = clusters.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    cpu = next(n["InstanceId"] for n in found if n["InstanceType"] == "ml.m5.xlarge")
    gpu = next(n["InstanceId"] for n in found if n["InstanceGroupName"] == "gpu2")
    emulator.control.fail_node(cpu)
    emulator.control.fail_node(gpu)
    until(lambda: gpu not in clusters.nodes(name))
    assert clusters.nodes(name)[cpu] == "Failure"


def test_without_continuous_provisioning_missing_capacity_fails_the_cluster(
    emulator: Emulator, clusters: Clusters
) -> None:
    emulator.control.set_fault(operation="hyperpod.gpu", effect="no-capacity", count=-1)
    name = clusters.create(group(), wait=False)
    until(lambda: clusters.status(name) == "Failed")
    assert "ml.g5.8xlarge" in clusters.api.describe_cluster(ClusterName=name)["FailureMessage"]


@pytest.mark.parametrize(
    ("groups", "more", "said"),
    [
        ([group(MinInstanceCount=1)], {}, "Continuous"),
        ([group(CapacityRequirements={"Spot": {}})], {}, "Continuous"),
        ([group(count=1, OnStartDeepHealthChecks=["InstanceConnectivity"])], {}, "at least 2"),
        ([group(kind="ml.m5.xlarge", OnStartDeepHealthChecks=["InstanceStress"])], {}, "not supported"),
        ([group(), group()], {}, "unique"),
        ([group(kind="p5.48xlarge")], {}, "enum value set"),
        ([group("with_underscore")], {}, "regular expression"),
        ([group()], {"AutoScaling": {"Mode": "Enable", "AutoScalerType": "Karpenter"}}, "Continuous"),
        ([group()], {"Orchestrator": {"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:000000000001:cluster/no"}}}, ""),
    ],
)
def test_what_the_service_rejects_is_rejected(
    clusters: Clusters, groups: list[dict[str, Any]], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as error:
        clusters.create(*groups, **more)
    assert code(error) == "ValidationException"
    assert said in str(error.value)


def test_a_group_keeps_for_life_what_is_immutable(clusters: Clusters) -> None:
    name = clusters.create(group(CapacityRequirements={"OnDemand": {}}), NodeProvisioningMode="Continuous")
    changed = group(CapacityRequirements={"Spot": {}})
    with pytest.raises(botocore.exceptions.ClientError, match="CapacityRequirements of instance group gpu cannot"):
        clusters.api.update_cluster(ClusterName=name, InstanceGroups=[changed])


def test_what_aws_does_not_document_of_a_group_is_not_refused(clusters: Clusters) -> None:
    """The API reference lets `UpdateCluster` have another `NetworkInterface`. It names no refusal."""
    name = clusters.create(group(kind="ml.p5.48xlarge", NetworkInterface={"InterfaceType": "efa"}))
    changed = group(kind="ml.p5.48xlarge", NetworkInterface={"InterfaceType": "efa-only"})
    clusters.api.update_cluster(ClusterName=name, InstanceGroups=[changed])
    until(lambda: clusters.status(name) == "InService")
    (described,) = clusters.api.describe_cluster(ClusterName=name)["InstanceGroups"]
    assert described["NetworkInterface"] == {"InterfaceType": "efa-only"}


def test_a_name_is_taken_once_and_an_update_waits_its_turn(clusters: Clusters) -> None:
    with clusters.emulator.control.time_held():
        name = clusters.create(group(), wait=False)
        with pytest.raises(botocore.exceptions.ClientError) as error:
            clusters.api.create_cluster(ClusterName=name, InstanceGroups=[group()])
        assert code(error) == "ResourceInUse"
        with pytest.raises(botocore.exceptions.ClientError) as error:
            clusters.api.update_cluster(ClusterName=name, InstanceGroups=[group(count=3)])
        assert code(error) == "ConflictException"
    until(lambda: clusters.status(name) == "InService")

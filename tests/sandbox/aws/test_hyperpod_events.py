"""A cluster's events: in the order of time, each node's own, and a failure with its message."""

from __future__ import annotations

import pytest

from tests.sandbox.aws.clusters_helpers import Clusters, group
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_nodes_run_deep_health_checks_before_they_are_running(clusters: Clusters) -> None:
    name = clusters.create(group(OnStartDeepHealthChecks=["InstanceStress", "InstanceConnectivity"]), wait=False)
    until(lambda: clusters.status(name) == "InService")
    events = clusters.api.list_cluster_events(ClusterName=name, SortOrder="Ascending")["Events"]
    said = [e["Description"] for e in events]
    in_service = said.index(f"Cluster {name} is InService")
    for node in clusters.all_running(name, 2):
        checked = said.index(f"Instance {node} is DeepHealthCheckInProgress")
        assert checked < said.index(f"Instance {node} is Running") < in_service


def test_continuous_provisioning_is_in_service_before_its_nodes_and_takes_more(
    emulator: Emulator, clusters: Clusters
) -> None:
    emulator.control.set_fault(operation="hyperpod.gpu", effect="no-capacity", count=-1)
    name = clusters.create(group(), NodeProvisioningMode="Continuous")
    assert clusters.nodes(name) == {}
    assert clusters.api.describe_cluster(ClusterName=name)["InstanceGroups"][0]["CurrentCount"] == 0
    failed = until(lambda: [e for e in clusters.api.list_cluster_events(ClusterName=name)["Events"]
                            if e["EventLevel"] == "Error"])  # fmt: skip
    detail = clusters.api.describe_cluster_event(ClusterName=name, EventId=failed[0]["EventId"])["EventDetails"]
    assert "capacity" in detail["EventDetails"]["EventMetadata"]["InstanceGroup"]["FailureMessage"]
    emulator.control.clear_faults()
    running = clusters.all_running(name, 2)

    def shortages() -> int:
        events = clusters.api.list_cluster_events(ClusterName=name, MaxResults=100)["Events"]
        return len([e for e in events if e["Description"] == "Instance group gpu could not be scaled"])

    # each shortage is told once, also after other errors of the group
    assert shortages() == 1
    emulator.control.fail_node(min(running), "NVRM: Xid 74")
    emulator.control.set_fault(operation="hyperpod.gpu", effect="no-capacity", count=-1)
    clusters.api.batch_replace_cluster_nodes(ClusterName=name, NodeIds=[min(running)])
    until(lambda: len(clusters.nodes(name)) == 1)
    until(lambda: shortages() == 2)
    emulator.control.clear_faults()
    clusters.all_running(name, 2)
    assert shortages() == 2
    added = [{"InstanceGroupName": "gpu", "IncrementTargetCountBy": 1}]
    assert len(clusters.api.batch_add_cluster_nodes(ClusterName=name, NodesToAdd=added)["Successful"]) == 1
    nodes = clusters.all_running(name, 3)
    clusters.api.batch_delete_cluster_nodes(ClusterName=name, NodeIds=sorted(nodes)[:1])
    assert clusters.all_running(name, 2) < nodes

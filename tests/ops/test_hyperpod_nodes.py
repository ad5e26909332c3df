from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import Snapshot, Unseen
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes, act_now
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.ops_node_services_helpers import event, of, refusal, summary
from tests.ops.snapshots import ONE, TWO, ago, healthy
from tests.support.answers import CLUSTER_ARN

LISTED = {
    "ClusterNodeSummaries": [summary(ONE, "ip-10-0-0-7.us-west-2.compute.internal"), summary(TWO)],
    "NextToken": "",
}


def test_a_node_is_named_by_its_id_its_kubernetes_name_its_host_or_a_beginning() -> None:
    for name in (ONE.id, names.node_name(ONE.id), "ip-10-0-0-7"):
        target, _ = of(list_cluster_nodes=LISTED)
        assert HyperPodNodes(target).find(name).id == ONE.id
    three = summary(replace(ONE, id="i-0abc000000000001"))
    both = {"ClusterNodeSummaries": [three, summary(replace(ONE, id="i-0abc000000000002"))], "NextToken": ""}
    target, _ = of(list_cluster_nodes=both)
    assert HyperPodNodes(target).find("i-0abc000000000002").id.endswith("2")
    with pytest.raises(OpsError, match="fits i-0abc000000000001, i-0abc000000000002") as ambiguous:
        HyperPodNodes(target).find("i-0abc")
    assert ambiguous.value.code == BAD_USE
    # an ID that is the beginning of another one names itself
    short = {"ClusterNodeSummaries": [three, summary(replace(ONE, id="i-0abc0000"))], "NextToken": ""}
    target, _ = of(list_cluster_nodes=short)
    assert HyperPodNodes(target).find("i-0abc0000").id == "i-0abc0000"
    for name in ("i-", "i-0", "i-9999999", "other"):
        target, _ = of(list_cluster_nodes={"ClusterNodeSummaries": [three], "NextToken": ""})
        with pytest.raises(OpsError, match=r"is not in cluster 'ray-ops'\. Expected the id of a node") as absent:
            HyperPodNodes(target).find(name)
        assert (absent.value.code, absent.value.fix) == (BAD_USE, "hyperpod-ray nodes demo")


def test_session_manager_names_a_node_by_cluster_group_and_instance() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-run-jobs-slurm-access-nodes.html"""
    target, _ = of()
    session = HyperPodNodes(target).session(ONE)
    assert session == f"sagemaker-cluster:{CLUSTER_ARN.rpartition('/')[2]}_workers-{ONE.id}"


def test_details_of_a_node_omit_its_lifecycle_script() -> None:
    script = {"SourceS3Uri": "s3://b/p", "OnCreate": "on_create.sh"}
    node = {"InstanceId": ONE.id, "PrivatePrimaryIp": "10.0.0.7", "LifeCycleConfig": script}
    target, account = of(describe_cluster_node={"NodeDetails": node})
    assert HyperPodNodes(target).details(ONE) == {"InstanceId": ONE.id, "PrivatePrimaryIp": "10.0.0.7"}
    assert account.arguments("describe_cluster_node") == [{"ClusterName": "ray-ops", "NodeId": ONE.id}]


def test_without_hyperpod_no_node_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = of()
    asked: list[tuple[str, ...]] = []

    def snapshot(_: Target, *, only: tuple[str, ...]) -> Snapshot:
        asked.append(only)
        return latest

    monkeypatch.setattr(gather, "snapshot", snapshot)
    latest = replace(healthy(), unseen=(Unseen(source="Kubernetes", why="away"),))
    assert HyperPodNodes(target).look() is latest
    assert {"HyperPod", "HyperPod events", "Kubernetes", "Slurm"} == set(asked[0])
    latest = replace(healthy(), unseen=(Unseen(source="HyperPod", why="throttled"),))
    with pytest.raises(OpsError, match="throttled") as away:
        HyperPodNodes(target).look()
    assert away.value.fix == "hyperpod-ray status demo"
    latest = replace(healthy(), unseen=(Unseen(source="HyperPod", why="denied", next="ask for it"),))
    with pytest.raises(OpsError, match="denied") as denied:
        HyperPodNodes(target).look()
    assert denied.value.fix == "ask for it"
    nothing, _ = of(describe_cluster=refusal("ResourceNotFound"))
    with pytest.raises(OpsError, match="HyperPod cluster 'ray-ops' does not exist") as absent:
        HyperPodNodes(nothing).look()
    assert absent.value.fix == "hyperpod-ray deploy demo"


def test_events_of_a_node_or_a_group_are_asked_of_the_service() -> None:
    for about, filters in (
        ({"node": names.node_name(ONE.id)}, {"NodeId": ONE.id}),
        ({"group": "workers"}, {"InstanceGroupName": "workers"}),
        ({}, {}),
    ):
        target, account = of(list_cluster_events=[{"Events": []}])
        assert HyperPodNodes(target).events(limit=7, **about) == []
        (asked,) = account.arguments("list_cluster_events")
        assert {key: asked[key] for key in ("NodeId", "InstanceGroupName") if key in asked} == filters
    target, _ = of()
    with pytest.raises(OpsError, match=r"group: 'other' is not in cluster 'ray-ops'\. Expected one of head, workers"):
        HyperPodNodes(target).events(group="other", limit=1)


def test_the_failure_of_an_event_is_asked_for_by_its_id() -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_EventMetadata.html"""
    metadata = {"EventMetadata": {"Instance": {"FailureMessage": "Xid 79"}}}
    details = event(7, EventLevel="Error", InstanceId=ONE.id, InstanceGroupName="workers", EventDetails=metadata)
    target, account = of(describe_cluster_event={"EventDetails": details})
    listed = hyperpod._event(event(7))
    assert (listed.failure, listed.level, listed.resource, listed.instance) == ("", "Info", "Cluster", "")
    described = HyperPodNodes(target).described(listed)
    assert (described.failure, described.level, described.instance) == ("Xid 79", "Error", ONE.id)
    assert (described.group, described.time) == ("workers", ago(7))
    assert account.arguments("describe_cluster_event") == [{"ClusterName": "ray-ops", "EventId": "e7"}]
    bare = {key: details[key] for key in ("EventId", "ClusterArn", "ClusterName", "EventTime", "ResourceType")}
    assert hyperpod._event(bare).level == "Info"
    assert hyperpod._event({**bare, "EventDetails": {"EventMetadata": {"Instance": {}}}}).failure == ""


@pytest.mark.parametrize(
    ("verb", "operation"), [("reboot", "batch_reboot_cluster_nodes"), ("replace", "batch_replace_cluster_nodes")]
)
def test_nodes_are_repaired_by_hyperpods_api(verb: Any, operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    target, account = of(**{operation: {"Successful": [ONE.id, TWO.id]}})
    advice = act_now(target, [ONE, TWO], verb=verb)
    assert advice == "under way; hyperpod-ray wait demo --for workers"
    assert account.arguments(operation) == [{"ClusterName": "ray-ops", "NodeIds": [ONE.id, TWO.id]}]
    assert capsys.readouterr().out.splitlines() == [ONE.id, TWO.id]
    failed = [{"NodeId": TWO.id, "ErrorCode": "InvalidNodeStatus", "Message": "it is Pending"}]
    target, _ = of(**{operation: {"Successful": [ONE.id], "Failed": failed}})
    with pytest.raises(OpsError, match=f"{verb} was refused: {TWO.id}: InvalidNodeStatus it is Pending"):
        act_now(target, [ONE, TWO], verb=verb)
    assert capsys.readouterr().out.splitlines() == [ONE.id], "the one that was accepted is under way"

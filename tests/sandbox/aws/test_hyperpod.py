from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
ROLE = "arn:aws:iam::000000000001:role/execution"


def group(name: str = "gpu", *, count: int = 2, kind: str = "ml.g5.8xlarge", **more: Any) -> dict[str, Any]:
    script = {"SourceS3Uri": "s3://sagemaker-scripts/a/", "OnCreate": "on_create.sh"}
    given = {"InstanceType": kind, "LifeCycleConfig": script, **more}
    return {"InstanceGroupName": name, "InstanceCount": count, "ExecutionRole": ROLE, **given}


class Clusters:
    """Makes clusters that are deleted when the test is over."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.api = emulator.boto("sagemaker")
        self.made: list[str] = []

    def create(self, *groups: dict[str, Any], wait: bool = True, **more: Any) -> str:
        name = f"c-{uuid.uuid4().hex[:8]}"
        self.api.create_cluster(ClusterName=name, InstanceGroups=list(groups), **more)
        self.made.append(name)
        if wait:
            until(lambda: self.status(name) == "InService")
        return name

    def status(self, name: str) -> str:
        return str(self.api.describe_cluster(ClusterName=name)["ClusterStatus"])

    def nodes(self, name: str) -> dict[str, str]:
        found = self.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
        return {n["InstanceId"]: n["InstanceStatus"]["Status"] for n in found}

    def running(self, name: str) -> set[str]:
        return {node for node, status in self.nodes(name).items() if status == "Running"}

    def all_running(self, name: str, count: int) -> set[str]:
        nodes = until(lambda: len(n := self.nodes(name)) == count and set(n.values()) == {"Running"} and set(n))
        assert isinstance(nodes, set)
        return nodes

    def gone(self, name: str) -> bool:
        try:
            self.status(name)
        except botocore.exceptions.ClientError as error:
            return bool(error.response["Error"]["Code"] == "ResourceNotFound")
        return False


@pytest.fixture
def clusters(emulator: Emulator) -> Iterator[Clusters]:
    made = Clusters(emulator)
    yield made
    emulator.control.clear_faults()
    for name in made.made:
        if not made.gone(name):
            until(lambda name=name: made.status(name) != "Updating")  # type: ignore[misc]
            made.api.delete_cluster(ClusterName=name)
    until(lambda: all(made.gone(name) for name in made.made))


def code(error: pytest.ExceptionInfo[botocore.exceptions.ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_cluster_is_created_with_its_nodes(clusters: Clusters) -> None:
    with clusters.emulator.control.time_held():
        name = clusters.create(group(), wait=False)
        assert clusters.status(name) == "Creating"
        assert set(clusters.nodes(name).values()) == {"Pending"}
    until(lambda: clusters.status(name) == "InService")
    described = clusters.api.describe_cluster(ClusterName=name)["InstanceGroups"][0]
    assert (described["CurrentCount"], described["TargetCount"], described["Status"]) == (2, 2, "InService")
    assert len(clusters.all_running(name, 2)) == 2


def test_nodes_run_deep_health_checks_before_they_are_running(clusters: Clusters) -> None:
    name = clusters.create(group(OnStartDeepHealthChecks=["InstanceStress", "InstanceConnectivity"]), wait=False)
    until(lambda: clusters.status(name) == "InService")
    events = clusters.api.list_cluster_events(ClusterName=name, SortOrder="Ascending")["Events"]
    said = [e["Description"] for e in events]
    in_service = said.index(f"Cluster {name} is InService")
    for node in clusters.all_running(name, 2):
        checked = said.index(f"Instance {node} is DeepHealthCheckInProgress")
        assert checked < said.index(f"Instance {node} is Running") < in_service


def test_a_group_is_scaled_up_and_down(clusters: Clusters) -> None:
    name = clusters.create(group())
    before = clusters.all_running(name, 2)
    clusters.api.update_cluster(ClusterName=name, InstanceGroups=[group(count=3)])
    assert before < clusters.all_running(name, 3)
    until(lambda: clusters.status(name) == "InService")
    clusters.api.update_cluster(ClusterName=name, InstanceGroups=[group(count=1)])
    assert clusters.all_running(name, 1) < before


def test_reboot_keeps_the_id_and_replace_gives_a_new_one(clusters: Clusters) -> None:
    name = clusters.create(group())
    first, second = sorted(clusters.all_running(name, 2))
    with clusters.emulator.control.time_held():
        answer = clusters.api.batch_reboot_cluster_nodes(ClusterName=name, NodeIds=[first, "i-00000000000000000"])
        assert answer["Successful"] == [first]
        assert answer["Failed"][0]["ErrorCode"] == "InstanceIdNotFound"
        assert clusters.nodes(name)[first] == "Pending"
    assert clusters.all_running(name, 2) == {first, second}
    assert clusters.api.batch_replace_cluster_nodes(ClusterName=name, NodeIds=[second])["Successful"] == [second]
    after = until(lambda: second not in clusters.nodes(name) and clusters.all_running(name, 2))
    assert first in after


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


def test_health_checks_can_be_started_later(clusters: Clusters) -> None:
    name = clusters.create(group())
    node = sorted(clusters.all_running(name, 2))[0]
    configuration = {"InstanceGroupName": "gpu", "InstanceIds": [node], "DeepHealthChecks": ["InstanceStress"]}
    with clusters.emulator.control.time_held():
        clusters.api.start_cluster_health_check(ClusterName=name, DeepHealthCheckConfigurations=[configuration])
        assert clusters.nodes(name)[node] == "DeepHealthCheckInProgress"
    clusters.all_running(name, 2)


def test_software_is_updated(clusters: Clusters) -> None:
    name = clusters.create(group())
    with clusters.emulator.control.time_held():
        clusters.api.update_cluster_software(ClusterName=name)
        assert clusters.status(name) == "SystemUpdating"
    until(lambda: clusters.status(name) == "InService")
    nodes = clusters.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    assert {n["CurrentImageReleaseVersion"] for n in nodes} == {"1.1.0"}


OWN, NEXT = "ami-0a1b2c3d4e5f60718", "ami-0fedcba9876543210"


def test_nodes_keep_an_ami_of_ones_own_until_another_is_named(clusters: Clusters) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html: `ImageId`."""
    name = clusters.create(group(ImageId=OWN), group("cpu", kind="ml.m5.2xlarge", count=1))

    def images() -> list[tuple[str | None, str | None]]:
        described = clusters.api.describe_cluster(ClusterName=name)["InstanceGroups"]
        return [(of.get("CurrentImageId"), of.get("DesiredImageId")) for of in described]

    assert images() == [(OWN, OWN), (None, None)]
    gpu = [{"InstanceGroupName": "gpu"}]
    for given in ({}, {"InstanceGroups": gpu}):
        with pytest.raises(botocore.exceptions.ClientError, match="uses the custom AMI") as error:
            clusters.api.update_cluster_software(ClusterName=name, **given)
        assert code(error) == "ValidationException"
    clusters.api.update_cluster_software(ClusterName=name, InstanceGroups=[{"InstanceGroupName": "cpu"}])
    until(lambda: clusters.status(name) == "InService")
    clusters.api.update_cluster_software(ClusterName=name, InstanceGroups=gpu, ImageId=NEXT)
    until(lambda: clusters.status(name) == "InService")
    assert images() == [(NEXT, NEXT), (None, None)]
    clusters.api.update_cluster_software(ClusterName=name, InstanceGroups=gpu, ImageId="default")
    until(lambda: clusters.status(name) == "InService")
    assert images() == [(None, None), (None, None)]


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


def of_types(*types: str, count: int = 2) -> dict[str, Any]:
    """A group of several types, in the order in which they are tried."""
    made = group(count=count)
    made.pop("InstanceType")
    return {**made, "InstanceRequirements": {"InstanceTypes": list(types)}}


def types_of(clusters: Clusters, name: str) -> list[str]:
    return sorted(
        node["InstanceType"] for node in clusters.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    )


def test_a_group_takes_the_first_of_its_types_that_has_capacity(emulator: Emulator, clusters: Clusters) -> None:
    emulator.control.set_fault(operation="hyperpod.ml.g5.8xlarge", effect="no-capacity", count=-1)
    name = clusters.create(of_types("ml.g5.8xlarge", "ml.g5.16xlarge"), NodeProvisioningMode="Continuous")
    running = clusters.all_running(name, 2)
    assert types_of(clusters, name) == ["ml.g5.16xlarge"] * 2
    emulator.control.clear_faults()
    clusters.api.batch_replace_cluster_nodes(ClusterName=name, NodeIds=[min(running)])
    until(lambda: types_of(clusters, name) == ["ml.g5.16xlarge", "ml.g5.8xlarge"])
    clusters.all_running(name, 2)
    emulator.control.set_fault(operation="hyperpod.ml.g5.8xlarge", effect="no-capacity", count=-1)
    emulator.control.set_fault(operation="hyperpod.ml.g5.16xlarge", effect="no-capacity", count=-1)
    clusters.api.batch_replace_cluster_nodes(ClusterName=name, NodeIds=[min(clusters.nodes(name))])
    until(lambda: len(clusters.nodes(name)) == 1)
    said = until(
        lambda: [
            event
            for event in clusters.api.list_cluster_events(ClusterName=name, MaxResults=100)["Events"]
            if event["Description"] == "Instance group gpu could not be scaled"
        ]
    )
    detail = clusters.api.describe_cluster_event(ClusterName=name, EventId=said[0]["EventId"])["EventDetails"]
    failure = detail["EventDetails"]["EventMetadata"]["InstanceGroup"]["FailureMessage"]
    assert "ml.g5.8xlarge or ml.g5.16xlarge capacity" in failure


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


def test_tags_and_training_plans(clusters: Clusters) -> None:
    plan = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/may"
    name = clusters.create(group(kind="ml.p5.48xlarge", TrainingPlanArn=plan), Tags=[{"Key": "team", "Value": "a"}])
    arn = clusters.api.describe_cluster(ClusterName=name)["ClusterArn"]
    clusters.api.add_tags(ResourceArn=arn, Tags=[{"Key": "cost", "Value": "b"}])
    tags = clusters.api.list_tags(ResourceArn=arn)["Tags"]
    assert {t["Key"]: t["Value"] for t in tags} == {"team": "a", "cost": "b"}
    assert clusters.api.describe_training_plan(TrainingPlanName="may")["InUseInstanceCount"] == 2
    offerings = clusters.api.search_training_plan_offerings(
        InstanceType="ml.p5.48xlarge", InstanceCount=4, DurationHours=48, TargetResources=["hyperpod-cluster"]
    )["TrainingPlanOfferings"]
    assert offerings[0]["ReservedCapacityOfferings"][0]["InstanceCount"] == 4


def test_offers_lie_between_the_days_that_are_asked_for(clusters: Clusters) -> None:
    def offers(hours: int, **days: datetime) -> list[dict[str, Any]]:
        wanted = {"InstanceType": "ml.p5en.48xlarge", "InstanceCount": 2, "DurationHours": hours, **days}
        answer = clusters.api.search_training_plan_offerings(TargetResources=["hyperpod-cluster"], **wanted)
        return [part for offer in answer["TrainingPlanOfferings"] for part in offer["ReservedCapacityOfferings"]]

    after, before = datetime(2031, 5, 4, tzinfo=UTC), datetime(2031, 5, 7, tzinfo=UTC)
    (part,) = offers(72, StartTimeAfter=after, EndTimeBefore=before)
    assert (part["StartTime"], part["EndTime"]) == (after, before)
    assert offers(73, StartTimeAfter=after, EndTimeBefore=before) == []


def test_a_plan_is_extended_from_its_end_by_days_and_weeks(clusters: Clusters) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-extension.html"""
    plan = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/june"
    name = clusters.create(group(kind="ml.p5.48xlarge", TrainingPlanArn=plan))
    ends = datetime(2031, 6, 30, 11, 30, tzinfo=UTC)
    block = {"TrainingPlanArn": plan, "TrainingPlanName": "june", "EndTime": ends.timestamp()}

    def extensions(**asked: Any) -> list[dict[str, Any]]:
        answer = clusters.api.search_training_plan_offerings(TrainingPlanArn=plan, **asked)
        assert answer["TrainingPlanOfferings"] == []
        return list(answer["TrainingPlanExtensionOfferings"])

    clusters.emulator.control.set_hyperpod(name, plans={"june": {**block, "Status": "Active"}})
    (shortest,) = extensions()
    assert (shortest["StartDate"], shortest["DurationHours"]) == (ends, 24)
    assert [extension["DurationHours"] for hours in (25, 400) for extension in extensions(DurationHours=hours)] == [
        48, 21 * 24,
    ]  # fmt: skip
    assert extensions(DurationHours=4369) == []
    clusters.emulator.control.set_hyperpod(name, plans={"june": {**block, "Status": "Expired"}})
    with pytest.raises(botocore.exceptions.ClientError, match="is Expired"):
        extensions()


def test_pages_of_nodes(clusters: Clusters) -> None:
    name = clusters.create(group(count=5))
    pages = clusters.api.get_paginator("list_cluster_nodes").paginate(ClusterName=name, MaxResults=2)
    assert [len(page["ClusterNodeSummaries"]) for page in pages] == [2, 2, 1]


def test_what_is_not_emulated_says_so(emulator: Emulator) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="ListEndpoints is not emulated"):
        emulator.boto("sagemaker").list_endpoints()

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.clusters_helpers import Clusters, code, group
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


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


def test_pages_of_nodes(clusters: Clusters) -> None:
    name = clusters.create(group(count=5))
    pages = clusters.api.get_paginator("list_cluster_nodes").paginate(ClusterName=name, MaxResults=2)
    assert [len(page["ClusterNodeSummaries"]) for page in pages] == [2, 2, 1]


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

"""What EC2 and EKS say that they offer, and the stack of a resource."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import botocore.exceptions
import pytest

from tests.sandbox.aws.stacks_helpers import Stacks
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_the_stack_of_a_resource_is_found_by_its_physical_id(stacks: Stacks) -> None:
    name = f"/found-{uuid.uuid4().hex[:8]}"
    group = {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain", "Properties": {"LogGroupName": name}}
    made = stacks.create({"Group": group})
    (resource,) = stacks.api.describe_stack_resources(PhysicalResourceId=name)["StackResources"]
    assert resource["StackName"] == made
    stacks.delete(made)
    with pytest.raises(botocore.exceptions.ClientError, match=f"Stack for {name} does not exist"):
        stacks.api.describe_stack_resources(PhysicalResourceId=name)


def test_types_are_offered_by_zone_and_only_those_of_hyperpod(emulator: Emulator) -> None:
    """The answer holds the types of the filter alone; EC2 names them without `ml.`."""
    ec2 = emulator.boto("ec2")
    filters = [{"Name": "instance-type", "Values": ["p5.48xlarge", "t2.nano"]}]
    answer = ec2.describe_instance_type_offerings(LocationType="availability-zone-id", Filters=filters)
    offered = {(row["InstanceType"], row["Location"]) for row in answer["InstanceTypeOfferings"]}
    zones = {zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    assert offered == {("p5.48xlarge", zone) for zone in zones}
    assert len(zones) > 1


def test_versions_have_a_status_that_agrees_with_their_dates(emulator: Emulator) -> None:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterVersionInformation.html"""
    api = emulator.boto("eks")
    versions = api.describe_cluster_versions()["clusterVersions"]
    assert len(versions) > 3
    now = datetime.now(UTC)
    for version in versions:
        standard, extended = version["endOfStandardSupportDate"], version["endOfExtendedSupportDate"]
        assert standard < extended, version
        status = "UNSUPPORTED" if now >= extended else "EXTENDED_SUPPORT" if now >= standard else "STANDARD_SUPPORT"
        assert version["versionStatus"] == status, version
    one = versions[0]["clusterVersion"]
    asked = api.describe_cluster_versions(clusterVersions=[one])["clusterVersions"]
    assert [version["clusterVersion"] for version in asked] == [one]

"""EC2's resources in a template: they come and go, and a network in use is not deleted."""

from __future__ import annotations

import pytest

from tests.sandbox.aws.stacks_helpers import NETWORK, Json, Stacks, ref
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


RULES: Json = {
    "SelfIn": {
        "Type": "AWS::EC2::SecurityGroupIngress",
        "Properties": {"GroupId": ref("Nodes"), "IpProtocol": "-1", "SourceSecurityGroupId": ref("Nodes")},
    },
    "SelfOut": {
        "Type": "AWS::EC2::SecurityGroupEgress",
        "Properties": {"GroupId": ref("Nodes"), "IpProtocol": "-1", "DestinationSecurityGroupId": ref("Nodes")},
    },
    "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
    "Nat": {
        "Type": "AWS::EC2::NatGateway",
        "Properties": {"SubnetId": ref("Subnet"), "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}},
    },
    "Flow": {
        "Type": "AWS::EC2::FlowLog",
        "Properties": {
            "ResourceId": ref("Vpc"),
            "ResourceType": "VPC",
            "TrafficType": "REJECT",
            "LogDestinationType": "s3",
            "LogDestination": "arn:aws:s3:::logs",
        },
    },
}


def test_network_resources_come_and_go(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({**NETWORK, **RULES})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    ids = stacks.ids(name)
    ec2 = emulator.boto("ec2")
    group = ec2.describe_security_groups(GroupIds=[ids["Nodes"]])["SecurityGroups"][0]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert ids["Nodes"] in {p["GroupId"] for rule in rules for p in rule["UserIdGroupPairs"]}
    assert ec2.describe_nat_gateways(NatGatewayIds=[ids["Nat"]])["NatGateways"][0]["State"] == "available"
    assert ec2.describe_flow_logs()["FlowLogs"][0]["ResourceId"] == ids["Vpc"]
    assert ec2.describe_subnets(SubnetIds=[ids["Subnet"]])["Subnets"][0]["AvailabilityZoneId"] == "usw2-az2"
    stacks.update(name, NETWORK)
    assert stacks.status(name) == "UPDATE_COMPLETE"
    assert ec2.describe_addresses()["Addresses"] == []
    group = ec2.describe_security_groups(GroupIds=[ids["Nodes"]])["SecurityGroups"][0]
    assert not any(rule["UserIdGroupPairs"] for rule in group["IpPermissions"])


def test_a_file_system_of_nobody_keeps_the_network_from_being_deleted(emulator: Emulator, stacks: Stacks) -> None:
    """What a CSI driver made and nobody deleted: the classic of a failed destroy."""
    name = stacks.create(NETWORK)
    ids = stacks.ids(name)
    fsx = emulator.boto("fsx")
    made = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[ids["Subnet"]],
        SecurityGroupIds=[ids["Nodes"]],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    until(lambda: fsx.describe_file_systems(FileSystemIds=[made])["FileSystems"][0]["Lifecycle"] == "AVAILABLE")
    assert stacks.delete(name) == "DELETE_FAILED"
    assert "Created by FSx for Lustre" in stacks.reasons(name)
    fsx.delete_file_system(FileSystemId=made)
    until(lambda: made not in {f["FileSystemId"] for f in fsx.describe_file_systems()["FileSystems"]})


def test_a_new_vpc_has_an_open_default_group(emulator: Emulator, stacks: Stacks) -> None:
    """As on AWS: members reach each other and everything. What closes it must have something to close."""
    ec2 = emulator.boto("ec2")
    made = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    of_stack = stacks.ids(stacks.create({"Vpc": NETWORK["Vpc"]}))["Vpc"]
    for vpc in (made, of_stack):
        names = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = ec2.describe_security_groups(Filters=names)["SecurityGroups"]
        (ingress,), (egress,) = group["IpPermissions"], group["IpPermissionsEgress"]
        assert [pair["GroupId"] for pair in ingress["UserIdGroupPairs"]] == [group["GroupId"]]
        assert egress["IpRanges"] == [{"CidrIp": "0.0.0.0/0"}]
    ec2.delete_vpc(VpcId=made)

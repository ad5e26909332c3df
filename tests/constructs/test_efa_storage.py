"""An EFA-enabled file system: the property, and a security group that lets EFA through between nodes and servers."""

from __future__ import annotations

from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Match, Template

from hyperpod_ray.network import ClusterNetwork
from hyperpod_ray.storage import LustreFileSystem


def template(*, efa: bool) -> Template:
    stack = Stack(App(), "Test")
    network = ClusterNetwork.from_existing(
        stack,
        "Network",
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidr="10.0.0.0/16",
        zones=["usw2-az1", "usw2-az2"],
        node_subnet_ids={"usw2-az1": "subnet-0123456789abcdef0"},
        control_plane_subnet_ids=["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
        efa_file_system=efa,
    )
    subnet: ec2.ISubnet = network.node_subnets["usw2-az1"]
    LustreFileSystem(
        stack,
        "Lustre",
        capacity_gib=4800,
        throughput_mbs_per_tib=1000,
        efa=efa,
        compression="LZ4",
        lustre_version="2.15",
        backup_retention_days=0,
        retain=True,
        subnet=subnet,
        security_group=network.file_system_security_group,
    )
    return Template.from_stack(stack)


def test_efa_is_enabled_with_metadata_and_all_traffic_between_the_two() -> None:
    made = template(efa=True)
    made.has_resource_properties(
        "AWS::FSx::FileSystem",
        {"LustreConfiguration": {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}}},
    )
    rules = made.find_resources("AWS::EC2::SecurityGroupIngress")
    lustre = [rule["Properties"] for rule in rules.values() if "Lustre" in rule["Properties"]["Description"]]
    assert len(lustre) == 3  # among the servers, from the nodes, to the nodes
    assert {rule["IpProtocol"] for rule in lustre} == {"-1"}
    assert all("CidrIp" not in rule for rule in lustre)


def test_without_efa_there_is_neither() -> None:
    made = template(efa=False)
    made.has_resource_properties("AWS::FSx::FileSystem", {"LustreConfiguration": {"EfaEnabled": Match.absent()}})
    rules = made.find_resources("AWS::EC2::SecurityGroupIngress")
    lustre = [rule["Properties"] for rule in rules.values() if "Lustre" in rule["Properties"]["Description"]]
    assert {rule["IpProtocol"] for rule in lustre} == {"tcp"}

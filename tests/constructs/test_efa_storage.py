"""An EFA-enabled file system: the property, and a security group that lets EFA through between nodes and servers."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Match, Template

from hyperpod_ray.constructs.lifecycle import LifecycleScripts
from hyperpod_ray.constructs.network import ClusterNetwork, FileSystemAccess
from hyperpod_ray.constructs.storage import LustreFileSystem, Ssd


def template(*, efa: bool) -> Template:
    stack = Stack(App(builtin_cloud_formation_validation=False), "Test")
    network = ClusterNetwork.from_existing(
        stack,
        "Network",
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidr="10.0.0.0/16",
        zones=["usw2-az1", "usw2-az2"],
        node_subnet_ids={"usw2-az1": "subnet-0123456789abcdef0"},
        control_plane_subnet_ids=["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
        file_systems=FileSystemAccess(efa=efa),
    )
    subnet: ec2.ISubnet = network.node_subnets["usw2-az1"]
    LustreFileSystem(
        stack,
        "Lustre",
        storage=Ssd(capacity_gib=4800, throughput_mbs_per_tib=1000, lustre_version="2.15"),
        efa=efa,
        compression="LZ4",
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


def test_nodes_see_that_the_file_system_is_efa_enabled(tmp_path: Path) -> None:
    """A second source beside the scripts, under a prefix of its own: without EFA neither changes."""
    (tmp_path / "on_create.sh").write_text("true\n")
    found = {}
    for efa in (False, True):
        stack = Stack(App(builtin_cloud_formation_validation=False), "Test")
        scripts = LifecycleScripts(stack, "Scripts", bucket_name="sagemaker-test", folder=tmp_path, efa_file_system=efa)
        (upload,) = Template.from_stack(stack).find_resources("Custom::CDKBucketDeployment").values()
        found[efa] = (len(upload["Properties"]["SourceObjectKeys"]), upload["Properties"]["DestinationBucketKeyPrefix"])
        assert found[efa][1] in stack.resolve(scripts.source_s3_uri)["Fn::Join"][1][-1]
    assert (found[False][0], found[True][0]) == (1, 2)
    assert found[False][1] != found[True][1]

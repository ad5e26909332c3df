"""`storage.on_destroy: retain`, through the real `cdk` CLI: teardown ends well, data stay, and can be used again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from tests.sandbox.story import Story, synthesized
from tests.support.emulator import CDK, running

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
NAME = "local"


def settings() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{NAME}.yaml").read_text())
    found["storage"] = {"mode": "static", "on_destroy": "retain"}
    return found


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    root = tmp_path_factory.mktemp("kept")
    given = settings()
    with running(root / "aws", account=given["account"], region=given["region"]) as emulator:
        story = synthesized(emulator, root, name=NAME, settings=given)
        story.cdk("bootstrap", f"aws://{given['account']}/{given['region']}")
        # the file system and where it lives: nothing else decides whether a destroy gets through
        story.cdk("deploy", f"{NAME}/Network", f"{NAME}/Storage", "--require-approval", "never")
        yield story


def default_group(story: Story) -> dict[str, Any]:
    """The security group that comes with the environment's VPC."""
    (file_system,) = story.file_systems()
    names = [{"Name": "vpc-id", "Values": [file_system["VpcId"]]}, {"Name": "group-name", "Values": ["default"]}]
    (group,) = story.emulator.boto("ec2").describe_security_groups(Filters=names)["SecurityGroups"]
    return dict(group)


def test_the_default_security_group_is_closed(story: Story) -> None:
    """By the function itself, whose role the embedded IAM judges; a new VPC's group is open."""
    group = default_group(story)
    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])


def test_teardown_keeps_the_file_system_and_its_home_and_nothing_else(story: Story) -> None:
    (before,) = story.file_systems()
    shown = story.ops("teardown", NAME, "--dry-run")
    fates = {(item["kind"], item["fate"]) for item in shown["items"]}
    assert {("file system", "kept"), ("VPC", "kept"), ("stack", "destroyed")} <= fates
    assert not [item for item in shown["items"] if item["fate"] == "blocks"]
    story.ops("teardown", NAME, "--yes", "--poll", "0.5", "--app", str(story.assembly))
    assert story.stack(f"{NAME}-Network") == story.stack(f"{NAME}-Storage") == ""
    (after,) = story.file_systems()
    assert (after["FileSystemId"], after["Lifecycle"]) == (before["FileSystemId"], "AVAILABLE")
    ec2 = story.emulator.boto("ec2")
    here = [{"Name": "vpc-id", "Values": [before["VpcId"]]}]
    assert [subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=here)["Subnets"]] == before["SubnetIds"]
    groups = [group["GroupName"] for group in ec2.describe_security_groups(Filters=here)["SecurityGroups"]]
    assert len(groups) == 2, "the VPC's own and the file system's"
    closed = default_group(story)
    assert (closed["IpPermissions"], closed["IpPermissionsEgress"]) == ([], []), "a VPC that is kept stays closed"
    assert not ec2.describe_nat_gateways(Filter=[{"Name": "state", "Values": ["available", "pending"]}])["NatGateways"]
    kept = sorted(resource.split()[0] for resource in story.left())
    main_and_interface = ["NetworkInterface", "RouteTable"]  # come and go with the file system and the VPC
    home = ["SecurityGroup", "Subnet", "VPC"]
    assert kept == [
        *(f"AWS::EC2::{kind}" for kind in main_and_interface + home),
        "AWS::FSx::FileSystem",
        "AWS::KMS::Key",
    ]


def test_a_second_teardown_finds_nothing_to_do(story: Story) -> None:
    found = story.ops("teardown", NAME, "--yes", "--app", str(story.assembly))
    assert {item["fate"] for item in found["items"]} == {"kept"}


def test_an_environment_can_be_made_around_what_was_kept(story: Story, tmp_path: Path) -> None:
    """The kept network and file system as `existing` ones: no address of them changes."""
    (kept,) = story.file_systems()
    ec2 = story.emulator.boto("ec2")
    home = ec2.describe_subnets(SubnetIds=kept["SubnetIds"])["Subnets"][0]
    other = ec2.create_subnet(VpcId=kept["VpcId"], CidrBlock="10.0.255.0/27", AvailabilityZoneId="usw2-az2")["Subnet"]
    given = settings()
    zones = given["network"]["availability_zone_ids"]
    vpc = ec2.describe_vpcs(VpcIds=[kept["VpcId"]])["Vpcs"][0]
    given["network"] = {"availability_zone_ids": zones}
    given["network"]["existing"] = {
        "vpc_id": kept["VpcId"],
        "vpc_cidr": vpc["CidrBlock"],
        "node_subnet_ids": {zones[0]: home["SubnetId"]},
        "node_subnet_cidrs": {zones[0]: home["CidrBlock"]},
        "control_plane_subnet_ids": [home["SubnetId"], other["SubnetId"]],
    }
    given["storage"] = {
        "existing": {
            "file_system_id": kept["FileSystemId"],
            "mount_name": kept["LustreConfiguration"]["MountName"],
            "availability_zone_id": zones[0],
        },
    }
    again = synthesized(story.emulator, tmp_path, name=NAME, settings=given)
    again.cdk("deploy", f"{NAME}/Network", "--require-approval", "never")
    assert [system["FileSystemId"] for system in again.file_systems()] == [kept["FileSystemId"]]
    again.cdk("destroy", f"{NAME}/Network", "--force")
    assert again.file_systems()[0]["Lifecycle"] == "AVAILABLE"

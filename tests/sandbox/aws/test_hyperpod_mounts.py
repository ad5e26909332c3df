"""A file system that a group mounts is within reach of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.aws.same_rules_helpers import refusal
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_a_file_system_is_within_reach_of_the_nodes_that_mount_it(mounted: dict[str, Any], emulator: Emulator) -> None:
    api, ec2 = emulator.boto("sagemaker"), emulator.boto("ec2")
    (mount,) = mounted["InstanceGroups"][2]["InstanceStorageConfigs"]

    def with_mount(**changed: str) -> dict[str, Any]:
        last = {
            **mounted["InstanceGroups"][2],
            "InstanceStorageConfigs": [{"FsxLustreConfig": {**mount["FsxLustreConfig"], **changed}}],
        }
        return {**mounted, "InstanceGroups": [*mounted["InstanceGroups"][:2], last]}

    wrong = [
        ({"DnsName": "fs-00000000000000000.fsx.us-west-2.amazonaws.com"}, "no LUSTRE file system has fs-0000"),
        ({"MountName": "other"}, "the mount name of fs-"),
    ]
    for changed, words in wrong:
        code, message = refusal(api.create_cluster, **with_mount(**changed))
        assert (code, words in message, "instance group workers" in message) == ("ValidationException", True, True)
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.1.0/24")["Subnet"]["SubnetId"]
    try:
        elsewhere = {**mounted, "VpcConfig": {**mounted["VpcConfig"], "Subnets": [subnet]}}
        assert f"and {subnet} is in {vpc}" in refusal(api.create_cluster, **elsewhere)[1]
    finally:
        ec2.delete_subnet(SubnetId=subnet)
        ec2.delete_vpc(VpcId=vpc)

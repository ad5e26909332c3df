"""What tests of the services' rules share: a network, a cluster on Slurm that mounts a file system, and a refusal."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.service_rules.cases import (
    slurm_request,
)
from tests.support.emulator import Emulator, until


def refusal(call: Any, **request: Any) -> tuple[str, str]:
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**request)
    return str(error.value.response["Error"]["Code"]), str(error.value.response["Error"]["Message"])


@pytest.fixture
def subnets(emulator: Emulator) -> Iterator[list[str]]:
    ec2 = emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZoneId=f"usw2-az{number}")["Subnet"][
            "SubnetId"
        ]
        for number in (1, 2)
    ]
    yield made
    for subnet in made:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


@pytest.fixture
def mounted(emulator: Emulator, subnets: list[str]) -> Iterator[dict[str, Any]]:
    """A good request of a cluster on Slurm, with the network and the file system that it names."""
    ec2, fsx_api = emulator.boto("ec2"), emulator.boto("fsx")
    vpc = ec2.describe_subnets(SubnetIds=subnets[:1])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName=f"g-{uuid.uuid4().hex[:6]}", Description="nodes", VpcId=vpc)["GroupId"]
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    file_system = fsx_api.create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=subnets[:1], LustreConfiguration=lustre
    )["FileSystem"]
    until(lambda: fsx_api.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "AVAILABLE")
    mount = {"DnsName": file_system["DNSName"], "MountName": file_system["LustreConfiguration"]["MountName"]}
    request = slurm_request()
    for one in request["InstanceGroups"]:
        one["InstanceStorageConfigs"] = [{"FsxLustreConfig": {**mount, "MountPath": "/fsx"}}]
    name = f"slurm-{uuid.uuid4().hex[:6]}"
    yield {**request, "ClusterName": name, "VpcConfig": {"SecurityGroupIds": [group], "Subnets": subnets[:1]}}
    fsx_api.delete_file_system(FileSystemId=file_system["FileSystemId"])
    until(lambda: not fsx_api.describe_file_systems()["FileSystems"])
    ec2.delete_security_group(GroupId=group)

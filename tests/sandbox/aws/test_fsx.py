from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.fsx_helpers import create, lifecycle, linked
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_a_file_system_blocks_its_subnet_until_it_is_gone(emulator: Emulator, subnet: str) -> None:
    fsx, ec2 = emulator.boto("fsx"), emulator.boto("ec2")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    described = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]
    found = ec2.describe_network_interfaces(NetworkInterfaceIds=described["NetworkInterfaceIds"])["NetworkInterfaces"]
    assert found[0]["PrivateIpAddress"] == "10.9.1.4"
    with pytest.raises(botocore.exceptions.ClientError, match="DependencyViolation"):
        ec2.delete_subnet(SubnetId=subnet)
    with emulator.control.time_held():
        fsx.delete_file_system(FileSystemId=identifier)
        assert lifecycle(fsx, identifier) == "DELETING"
        with pytest.raises(botocore.exceptions.ClientError, match="DependencyViolation"):
            ec2.delete_subnet(SubnetId=subnet)
    until(lambda: not lifecycle(fsx, identifier))


def test_a_file_system_can_be_stuck_deleting(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    emulator.control.set_fault(operation="fsx.DeleteFileSystem", effect="stuck")
    fsx.delete_file_system(FileSystemId=identifier)
    other = create(emulator, subnet)  # another one goes through its whole life meanwhile
    until(lambda: lifecycle(fsx, other) == "AVAILABLE")
    fsx.delete_file_system(FileSystemId=other)
    until(lambda: not lifecycle(fsx, other))
    assert lifecycle(fsx, identifier) == "DELETING"
    emulator.control.clear_faults()
    until(lambda: not lifecycle(fsx, identifier))


def test_a_file_system_that_goes_away_while_all_are_listed_is_left_out(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    made = [create(emulator, subnet) for _ in range(8)]
    until(lambda: all(lifecycle(fsx, identifier) == "AVAILABLE" for identifier in made))
    for identifier in made:
        fsx.delete_file_system(FileSystemId=identifier)

    def none_listed() -> bool:  # asked without a pause, so that deletions end in the middle of a list
        return not any(subnet in f["SubnetIds"] for f in fsx.describe_file_systems()["FileSystems"])

    until(none_listed, every=0)


def test_a_file_system_grows_and_does_not_shrink(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    fsx.update_file_system(FileSystemId=identifier, StorageCapacity=2400)
    assert fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]["StorageCapacity"] == 2400
    with pytest.raises(botocore.exceptions.ClientError, match="only grow"):
        fsx.update_file_system(FileSystemId=identifier, StorageCapacity=1200)


def test_tags(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet, Tags=[{"Key": "team", "Value": "a"}])
    arn = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]["ResourceARN"]
    fsx.tag_resource(ResourceARN=arn, Tags=[{"Key": "cost", "Value": "b"}])
    fsx.untag_resource(ResourceARN=arn, TagKeys=["team"])
    assert fsx.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "cost", "Value": "b"}]


def test_the_same_token_gives_the_same_file_system(emulator: Emulator, subnet: str) -> None:
    first = create(emulator, subnet, ClientRequestToken="pvc-1")
    assert create(emulator, subnet, ClientRequestToken="pvc-1") == first


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"StorageCapacity": 1300}, "multiple of 2400"),
        ({"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 200}}, "125, 250"),
        ({"SecurityGroupIds": ["sg-00000000000000000"]}, "does not exist"),
    ],
)
def test_what_fsx_rejects_is_rejected(emulator: Emulator, subnet: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        create(emulator, subnet, **more)


# --- links to S3 -----------------------------------------------------------------------------------------------------


# --- Intelligent-Tiering ---------------------------------------------------------------------------------------------

ELASTIC = {
    "DeploymentType": "PERSISTENT_2",
    "ThroughputCapacity": 4000,
    "DataReadCacheConfiguration": {"SizingMode": "USER_PROVISIONED", "SizeGiB": 1000},
    "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
}


def create_elastic(emulator: Emulator, subnet: str, *, lustre: dict[str, Any] = ELASTIC, **more: Any) -> str:
    request = {"StorageType": "INTELLIGENT_TIERING", "LustreConfiguration": lustre, **more}
    answer = emulator.boto("fsx").create_file_system(FileSystemType="LUSTRE", SubnetIds=[subnet], **request)
    return str(answer["FileSystem"]["FileSystemId"])


def test_one_without_a_size_lives_and_grows(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create_elastic(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    (found,) = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    assert (found["StorageType"], found["FileSystemTypeVersion"]) == ("INTELLIGENT_TIERING", "2.15")
    assert "StorageCapacity" not in found
    cache = {"SizingMode": "NO_CACHE"}
    fsx.update_file_system(
        FileSystemId=identifier, LustreConfiguration={"ThroughputCapacity": 8000, "DataReadCacheConfiguration": cache}
    )
    (grown,) = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    assert grown["LustreConfiguration"]["ThroughputCapacity"] == 8000
    assert grown["LustreConfiguration"]["DataReadCacheConfiguration"] == cache
    fsx.delete_file_system(FileSystemId=identifier)
    until(lambda: not lifecycle(fsx, identifier))


@pytest.mark.parametrize(
    ("lustre", "more", "said"),
    [
        ({"ThroughputCapacity": 6000}, {}, "multiple of 4000"),
        ({"MetadataConfiguration": {"Mode": "AUTOMATIC"}}, {}, "USER_PROVISIONED with one of"),
        ({"DataReadCacheConfiguration": {"SizingMode": "USER_PROVISIONED", "SizeGiB": 31}}, {}, "from 32 to 131072"),
        ({"DeploymentType": "PERSISTENT_1"}, {}, "needs PERSISTENT_2"),
        ({"PerUnitStorageThroughput": 250}, {}, "has no PerUnitStorageThroughput"),
        ({}, {"StorageCapacity": 1200}, "has no StorageCapacity"),
        ({}, {"FileSystemTypeVersion": "2.12"}, "needs Lustre 2.15"),
        ({}, {"StorageType": "SSD"}, "needs StorageType INTELLIGENT_TIERING"),
    ],
)
def test_one_without_a_size_that_the_service_refuses(
    emulator: Emulator, subnet: str, lustre: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        create_elastic(emulator, subnet, lustre={**ELASTIC, **lustre}, **more)


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"LustreConfiguration": {"ThroughputCapacity": 4000}}, "can only grow: 8000 MB/s are there"),
        (
            {"LustreConfiguration": {"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}}},
            "can only grow: 12000 are there",
        ),
        (
            {
                "LustreConfiguration": {
                    "DataReadCacheConfiguration": {"SizingMode": "USER_PROVISIONED", "SizeGiB": 1050}
                }
            },
            "a tenth or more: 1000 GiB is there",
        ),
        ({"StorageCapacity": 2400}, "has no StorageCapacity"),
        ({"StorageType": "SSD"}, "is INTELLIGENT_TIERING and stays"),
    ],
)
def test_an_update_without_a_size_that_the_service_refuses(
    emulator: Emulator, subnet: str, update: dict[str, Any], said: str
) -> None:
    fsx = emulator.boto("fsx")
    large = {"ThroughputCapacity": 8000, "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000}}
    identifier = create_elastic(emulator, subnet, lustre={**ELASTIC, **large})
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        fsx.update_file_system(FileSystemId=identifier, **update)


def test_one_without_a_size_takes_no_links(emulator: Emulator, subnet: str, bucket: str) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/fsx-data-repositories.html"""
    fsx = emulator.boto("fsx")
    identifier = create_elastic(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    with pytest.raises(botocore.exceptions.ClientError, match="Intelligent-Tiering file systems take no"):
        linked(emulator, identifier, "/data", f"s3://{bucket}/")


# --- OpenZFS ---------------------------------------------------------------------------------------------------------

ZFS = {"DeploymentType": "SINGLE_AZ_HA_2", "ThroughputCapacity": 160}


def create_zfs(emulator: Emulator, subnet: str, **more: Any) -> str:
    request = {"StorageCapacity": 256, "OpenZFSConfiguration": ZFS, **more}
    answer = emulator.boto("fsx").create_file_system(FileSystemType="OPENZFS", SubnetIds=[subnet], **request)
    return str(answer["FileSystem"]["FileSystemId"])


def test_home_folders_live_as_lustre_does(emulator: Emulator, subnet: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create_zfs(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    (found,) = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    assert found["FileSystemType"] == "OPENZFS" and "LustreConfiguration" not in found
    assert found["OpenZFSConfiguration"]["RootVolumeId"].startswith("fsvol-")
    fsx.update_file_system(
        FileSystemId=identifier, StorageCapacity=300, OpenZFSConfiguration={"ThroughputCapacity": 320}
    )
    (grown,) = fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"]
    assert (grown["StorageCapacity"], grown["OpenZFSConfiguration"]["ThroughputCapacity"]) == (300, 320)
    fsx.delete_file_system(FileSystemId=identifier)
    until(lambda: not lifecycle(fsx, identifier))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"OpenZFSConfiguration": {**ZFS, "ThroughputCapacity": 64}}, "ThroughputCapacity of SINGLE_AZ_HA_2 is one of"),
        ({"OpenZFSConfiguration": {**ZFS, "DeploymentType": "SINGLE_AZ_1"}}, "ThroughputCapacity of SINGLE_AZ_1"),
        ({"StorageCapacity": 63}, "from 64 to 524288 GiB, got 63"),
        ({"StorageCapacity": 524_289}, "from 64 to 524288 GiB, got 524289"),
        ({"OpenZFSConfiguration": {**ZFS, "DeploymentType": "MULTI_AZ_1"}}, "takes two subnets, got 1"),
    ],
)
def test_home_folders_that_the_service_refuses(
    emulator: Emulator, subnet: str, request_: dict[str, Any], said: str
) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        create_zfs(emulator, subnet, **request_)


@pytest.mark.parametrize("size", [128, 281])
def test_home_folders_grow_by_a_tenth(emulator: Emulator, subnet: str, size: int) -> None:
    fsx = emulator.boto("fsx")
    identifier = create_zfs(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    with pytest.raises(botocore.exceptions.ClientError, match="grows by a tenth or more: 256 GiB is there"):
        fsx.update_file_system(FileSystemId=identifier, StorageCapacity=size)
    fsx.update_file_system(FileSystemId=identifier, StorageCapacity=282)

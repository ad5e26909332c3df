from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


@pytest.fixture
def subnet(emulator: Emulator) -> Iterator[str]:
    ec2 = emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]["SubnetId"]
    yield made
    emulator.control.clear_faults()
    fsx = emulator.boto("fsx")
    mine = [f["FileSystemId"] for f in fsx.describe_file_systems()["FileSystems"] if made in f["SubnetIds"]]
    for identifier in mine:
        until(lambda identifier=identifier: lifecycle(fsx, identifier) != "CREATING")  # type: ignore[misc]
        if lifecycle(fsx, identifier) == "AVAILABLE":
            fsx.delete_file_system(FileSystemId=identifier)
        until(lambda identifier=identifier: not lifecycle(fsx, identifier))  # type: ignore[misc]
    ec2.delete_subnet(SubnetId=made)
    ec2.delete_vpc(VpcId=vpc)


def lifecycle(fsx: Any, identifier: str) -> str:
    try:
        return str(fsx.describe_file_systems(FileSystemIds=[identifier])["FileSystems"][0]["Lifecycle"])
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "FileSystemNotFound"
        return ""


def create(emulator: Emulator, subnet: str, **more: Any) -> str:
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}
    given = {"StorageCapacity": 1200, "LustreConfiguration": lustre, **more}
    answer = emulator.boto("fsx").create_file_system(FileSystemType="LUSTRE", SubnetIds=[subnet], **given)
    assert answer["FileSystem"]["Lifecycle"] in ("CREATING", "AVAILABLE")
    return str(answer["FileSystem"]["FileSystemId"])


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

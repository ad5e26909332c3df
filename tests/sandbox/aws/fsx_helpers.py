"""What tests of file systems and of their links share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator, until


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


def linked(emulator: Emulator, file_system: str, path: str, place: str, **more: Any) -> str:
    fsx = emulator.boto("fsx")
    answer = fsx.create_data_repository_association(
        FileSystemId=file_system, FileSystemPath=path, DataRepositoryPath=place, **more
    )
    identifier = str(answer["Association"]["AssociationId"])
    until(lambda: link_state(fsx, identifier) == "AVAILABLE")
    return identifier


def link_state(fsx: Any, identifier: str) -> str:
    try:
        found = fsx.describe_data_repository_associations(AssociationIds=[identifier])["Associations"]
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "DataRepositoryAssociationNotFound"
        return ""
    return str(found[0]["Lifecycle"])


@pytest.fixture
def bucket(emulator: Emulator) -> Iterator[str]:
    s3 = emulator.boto("s3")
    s3.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    yield "corpus"
    s3.delete_bucket(Bucket="corpus")

"""Links of a file system to S3: they live with it, and the service refuses some."""

from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.fsx_helpers import create, lifecycle, link_state, linked
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_a_link_lives_with_its_file_system(emulator: Emulator, subnet: str, bucket: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    first = linked(emulator, identifier, "/data", f"s3://{bucket}/a/", S3={"AutoImportPolicy": {"Events": ["NEW"]}})
    second = linked(emulator, identifier, "/runs", f"s3://{bucket}/b/", BatchImportMetaDataOnCreate=True)
    fsx.update_data_repository_association(AssociationId=first, S3={"AutoExportPolicy": {"Events": ["CHANGED"]}})
    until(lambda: link_state(fsx, first) == "AVAILABLE")
    mine = [{"Name": "file-system-id", "Values": [identifier]}]
    found = fsx.describe_data_repository_associations(Filters=mine)["Associations"]
    assert {link["AssociationId"]: link["FileSystemPath"] for link in found} == {first: "/data", second: "/runs"}
    assert {tuple(link["S3"]) for link in found if link["AssociationId"] == first} == {("AutoExportPolicy",)}
    fsx.delete_data_repository_association(AssociationId=first)
    until(lambda: not link_state(fsx, first))
    fsx.delete_file_system(FileSystemId=identifier)
    until(lambda: not lifecycle(fsx, identifier))
    assert not link_state(fsx, second), "a file system takes its links with it"


@pytest.mark.parametrize(
    ("path", "place", "said"),
    [
        ("/data", "s3://corpus/other/", "overlaps /data"),
        ("/data/images", "s3://corpus/other/", "overlaps /data"),
        ("/", "s3://corpus/other/", "overlaps /data"),
        ("/more", "s3://corpus/a/", "already linked"),
        ("/more", "s3://no-such-bucket/", "unable to validate access"),
        ("more", "s3://corpus/other/", "begins with /"),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_a_link_that_the_service_refuses(emulator: Emulator, subnet: str, path: str, place: str, said: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    linked(emulator, identifier, "/data", "s3://corpus/a/")
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        fsx.create_data_repository_association(FileSystemId=identifier, FileSystemPath=path, DataRepositoryPath=place)
    with pytest.raises(botocore.exceptions.ClientError, match="takes no backups"):
        fsx.update_file_system(FileSystemId=identifier, LustreConfiguration={"AutomaticBackupRetentionDays": 7})


@pytest.mark.parametrize(
    ("lustre", "said"),
    [
        ({"DeploymentType": "SCRATCH_1"}, "deployment type other than SCRATCH_1"),
        (
            {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250, "AutomaticBackupRetentionDays": 7},
            "automatic backups",
        ),
    ],
)
def test_a_file_system_that_takes_no_links(
    emulator: Emulator, subnet: str, bucket: str, lustre: dict[str, Any], said: str
) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet, LustreConfiguration=lustre, FileSystemTypeVersion="2.15")
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    with pytest.raises(botocore.exceptions.ClientError, match=said):
        linked(emulator, identifier, "/data", f"s3://{bucket}/")


def test_there_are_at_most_eight_links(emulator: Emulator, subnet: str, bucket: str) -> None:
    fsx = emulator.boto("fsx")
    identifier = create(emulator, subnet)
    until(lambda: lifecycle(fsx, identifier) == "AVAILABLE")
    for number in range(8):
        linked(emulator, identifier, f"/p{number}", f"s3://{bucket}/p{number}/")
    with pytest.raises(botocore.exceptions.ClientError, match="at most 8"):
        linked(emulator, identifier, "/p8", f"s3://{bucket}/p8/")

"""Rules of `hyperpod_ray/core/checks/account/storage.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import (
    EXISTING,
    FILE_SYSTEM,
    GONE,
    NEW,
    NODES_2,
    REGION,
)
from tests.core.account.sabotage import (
    COPY,
    LINKED,
    Json,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
    judged,
)

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("no file system", {f"file_systems > {FILE_SYSTEM}": GONE}, (("file system", "error", f"{FILE_SYSTEM}: no such file system"),)),
    Sabotage("file system of another VPC", {f"file_systems > {FILE_SYSTEM} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("file system", "error", "is in vpc-0aaaaaaaaaaaaaaaa. Expected vpc-0123456789abcdef0, the VPC of the nodes"),)),
    Sabotage("another mount name", {f"file_systems > {FILE_SYSTEM} > LustreConfiguration": {"MountName": "zzzzzzzz"}}, (("file system", "error", "set storage.existing.mount_name: zzzzzzzz"),)),
    Sabotage("file system in another zone", {f"file_systems > {FILE_SYSTEM} > SubnetIds": [NODES_2]}, (("file system", "error", "set storage.existing.availability_zone_id: usw2-az2"),)),
    Sabotage("failed file system", {f"file_systems > {FILE_SYSTEM} > Lifecycle": "FAILED"}, (("file system", "error", "is FAILED"),)),
    Sabotage("no Lustre", {f"file_systems > {FILE_SYSTEM} > FileSystemType": "OPENZFS"}, (("file system", "error", "is OPENZFS"),)),
    Sabotage("file system with a new VPC", {}, (("file system", "error", "the Network stack creates another VPC"),), file={"storage": EXISTING["storage"]}),
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html: of another Region, with its name
    Sabotage("bucket of another Region", {"buckets": {"research-datasets": "eu-west-1"}}, (("buckets", "error", "is in eu-west-1, and FSx imports"),), file=LINKED),
    Sabotage("bucket that redirects", {"buckets": {"research-datasets": "redirect eu-west-1"}}, (("buckets", "error", "is in eu-west-1, and FSx imports"),), file=LINKED),
    Sabotage("no bucket", {"buckets": {"training-sets": None}}, (("buckets", "error", "training-sets: no such bucket"),)),
    Sabotage("bucket of somebody else", {"buckets": {"training-sets": "forbidden"}}, (("buckets", "unknown", "may not see it"),)),
    Sabotage("no image", {"images > team/ray": []}, (("image", "error", "is not in ECR"),)),
    Sabotage("no cache", {"caches": {"quay": None}}, (("pull-through caches", "error", "quay: no such"),)),
    Sabotage("ECR answers with no image", {"empty_answers": True}, (("image", "error", "is not in ECR"),)),
    Sabotage("no base image", {"images > team/ray": []}, (("image", "error", f"{COPY} is not in ECR"),), file={**NEW, "image": {"base": COPY}}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


def test_notifications_of_a_bucket_without_automatic_import_are_fine() -> None:
    link = {"bucket": "research-datasets", "path": "/data", "auto_import": []}
    taken = {"QueueConfigurations": [{"QueueArn": "arn:aws:sqs:us-west-2:1:q", "Events": ["s3:ObjectCreated:*"]}]}
    settings = {"bucket_settings > research-datasets": {"notifications": taken}}
    assert [one.severity for one in judged({"storage/data_repositories": [link]}, settings)["linked buckets"]] == [
        "fine"
    ]


@pytest.mark.parametrize(
    ("edits", "severity", "words"),
    [
        ({}, "error", "runs: no such bucket"),
        ({"buckets": {"runs": REGION}}, "warning", "no lifecycle rule"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Enabled", "Expiration": {"Days": 7}}]}}, "fine", "runs"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Disabled", "Expiration": {"Days": 7}}]}}, "warning", "no lifecycle rule"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Enabled", "Expiration": {"ExpiredObjectDeleteMarker": True}}]}}, "warning", "no lifecycle rule"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 7}}]}}, "warning", "no lifecycle rule"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Disabled", "Expiration": {"Days": 1}}, {"Status": "Enabled", "Expiration": {"Days": 7}}]}}, "fine", "runs"),
    ],
)  # fmt: skip
def test_an_existing_tier_bucket(edits: Json, severity: str, words: str) -> None:
    """A rule that is off does nothing, and some rules that expire delete no object that is there.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_LifecycleExpiration.html
    """
    (found,) = judged({"hyperpod/tiered_storage": {"memory_percent": 20, "bucket": "runs"}}, edits)["tier bucket"]
    assert (found.severity, words in found.message) == (severity, True)

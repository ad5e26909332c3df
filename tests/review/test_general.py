"""What holds for every resource type: replaced, removed, new, taken names, exports and protection.

Which property is create-only is what the registry schema says; the rest is CloudFormation's documentation.
"""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.review.changes import Kind, compare
from hyperpod_ray.review.effects import general
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.review.small import Json, compared, of, read, resources, write

STAYS = {"Stays": of("SNS::Topic")}


def bucket(**more: str) -> Json:
    return {**of("S3::Bucket", BucketName="data"), **more}


def subnet(**properties: str) -> Json:
    return of(
        "EC2::Subnet", **{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-west-2a", **properties}
    )


CASES: dict[str, tuple[Json, Json, dict[str, str]]] = {
    "no change": ({}, {}, {}),
    "new": ({}, {"B": bucket()}, {"added": "safe"}),
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
    "data goes": ({"B": bucket()}, {}, {"removed": "loses-data"}),
    "data stays": ({"B": bucket(DeletionPolicy="Retain")}, {}, {"removed": "safe"}),
    "another name": (
        {"B": bucket()}, {"B": of("S3::Bucket", BucketName="other")}, {"replaced": "loses-data"},
    ),
    # an update of a property that is create-only, under a name that is taken:
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-import.html, …/aws-properties-name.html
    "another id, the same name": ({"B": bucket()}, {"C": bucket()}, {"already-exists": "rejected", "added": "safe"}),
    "another zone of a subnet": (
        {"S": subnet()}, {"S": subnet(AvailabilityZone="us-west-2b")}, {"exclusive": "rejected"},
    ),
    "another zone and range": (
        {"S": subnet()}, {"S": subnet(AvailabilityZone="us-west-2b", CidrBlock="10.0.1.0/24")}, {"replaced": "interrupts"},
    ),
    "another VPC, the same range": ({"S": subnet()}, {"S": subnet(VpcId="vpc-2")}, {"replaced": "interrupts"}),
    "another id, no name": (
        {"B": of("S3::Bucket")}, {"C": of("S3::Bucket")}, {"removed": "loses-data", "added": "safe"},
    ),
    "a name that something else has": (
        {"F": of("Logs::MetricFilter", LogGroupName="/runs", FilterPattern="")},
        {"F": of("Logs::MetricFilter", LogGroupName="/runs", FilterPattern=""),
         "L": of("Logs::LogGroup", LogGroupName="/runs")},
        {"name-taken": "rejected", "added": "safe"},
    ),
    "a log group that EKS creates": (
        {"K": of("EKS::Cluster", Name="c")},
        {"K": of("EKS::Cluster", Name="c"), "L": of("Logs::LogGroup", LogGroupName="/aws/eks/c/cluster")},
        {"name-taken": "rejected", "added": "safe"},
    ),
    "a log group of another cluster": (
        {"K": of("EKS::Cluster", Name="c")},
        {"K": of("EKS::Cluster", Name="c"), "L": of("Logs::LogGroup", LogGroupName="/aws/eks/d/cluster")},
        {"added": "safe"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_resource(name: str, tmp_path: Path) -> None:
    before, after, rows = CASES[name]
    environment = compared(tmp_path, {**STAYS, **before}, {**STAYS, **after})
    assert {row.code: row.effect.code for row in environment.rows} == rows, environment.rows


def test_what_is_kept_leaves_the_stack_and_costs(tmp_path: Path) -> None:
    kept = bucket(DeletionPolicy="Retain", UpdateReplacePolicy="Retain")
    (row,) = compared(tmp_path, {**STAYS, "B": kept}, STAYS).rows
    assert row.consequence == "It stays in the account, unmanaged and paid for."
    assert row.lost == ()


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        # the policy of the update that replaces it:
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-updatereplacepolicy.html
        ({"UpdateReplacePolicy": "Retain"}, {}, False),
        ({"UpdateReplacePolicy": "Retain"}, {"UpdateReplacePolicy": "Delete"}, False),
        ({}, {"UpdateReplacePolicy": "Retain"}, True),
        ({}, {"UpdateReplacePolicy": "Snapshot"}, True),
        ({"UpdateReplacePolicy": "Retain"}, {"UpdateReplacePolicy": "Retain"}, True),
        ({"DeletionPolicy": "Retain"}, {"DeletionPolicy": "Retain"}, False),
    ],
    ids=str,
)
def test_what_is_replaced_stays_by_the_policy_of_the_new_template(
    before: Json, after: Json, stays: bool, tmp_path: Path
) -> None:
    sides = (
        read(tmp_path / name, Bucket={**of("S3::Bucket", BucketName=name), **policies})
        for name, policies in (("base", before), ("head", after))
    )
    (change,) = compare(*sides).of_kind(Kind.REPLACED)
    assert change.kept is stays


@pytest.mark.parametrize(
    ("title", "pointer", "before", "setting"),
    [
        ("Ray/Image/Repository", "RepositoryName", "runs", "image.repository_name: runs"),
        ("Ray/Image/Repository", "RepositoryName", None, ""),
        ("Ray/Other/Repository", "RepositoryName", "runs", ""),
        ("Network/FlowLogs", "LogGroupName", "/flow", "log_group_names: fixed"),
        ("Health/Events", "LogGroupName", None, "log_group_names: generated"),
        ("Network/FlowLogs", "KmsKeyId", "key", ""),
    ],
)
def test_a_changed_name_that_a_setting_keeps(title: str, pointer: str, before: str | None, setting: str) -> None:
    change: Any = SimpleNamespace(because=[(pointer,)], title=title, before=lambda name: before)
    words = f" To keep what is there, set {setting}." if setting else ""
    assert general._ways_out([change, change]) == words


def test_more_than_eight_are_counted(tmp_path: Path) -> None:
    topics = {f"T{number}": of("SNS::Topic") for number in range(10)}
    (row,) = compared(tmp_path, STAYS, {**STAYS, **topics}).rows
    assert (row.what, row.consequence.endswith(" and 2 more.")) == ("10 resources", True)


# ---- several stacks ----


def exporting(value: object) -> Json:
    return {**resources(Bucket=bucket()), "Outputs": {"O": {"Value": value, "Export": {"Name": "A:Bucket"}}}}


IMPORTS = resources(Topic=of("SNS::Topic", DisplayName={"Fn::ImportValue": "A:Bucket"}))
PLAIN = resources(Topic=of("SNS::Topic", DisplayName="x"))


def stacks(folder: Path, before: Json, after: Json) -> EnvironmentReview:
    (environment,) = review(write(folder / "base", before), write(folder / "head", after)).environments
    return environment


@pytest.mark.parametrize(
    ("after", "codes"),
    [
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html
        ({"A": exporting({"Ref": "Bucket"}), "B": IMPORTS}, set()),
        ({"A": exporting("other"), "B": IMPORTS}, {"export-in-use"}),
        ({"A": resources(Bucket=bucket()), "B": PLAIN}, {"export-removed"}),
    ],
)
def test_an_export_in_use_does_not_change(after: Json, codes: set[str], tmp_path: Path) -> None:
    environment = stacks(tmp_path, {"A": exporting({"Ref": "Bucket"}), "B": IMPORTS}, after)
    assert {row.code for row in environment.rows} & {"export-in-use", "export-removed"} == codes
    assert (environment.effect.code == "rejected") is bool(codes)


def test_a_stack_that_leaves_the_app_stays_deployed(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/cdk/v2/guide/ref-cli-cmd-deploy.html: it deploys what the app has."""
    left = stacks(tmp_path / "left", {"A": PLAIN, "B": PLAIN}, {"A": PLAIN})
    assert [(row.code, row.what, row.effect.code) for row in left.rows] == [("stack-left", "stack env-B", "safe")]
    new = stacks(tmp_path / "new", {"A": PLAIN}, {"A": PLAIN, "B": PLAIN})
    assert "stack-added" in {row.code for row in new.rows}


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (None, "Retain", "switched on"), ("Delete", "Snapshot", "switched on"), ("Delete", "RetainExceptOnCreate", "switched on"), ("Retain", None, "switched off"),
        ("RetainExceptOnCreate", "Delete", "switched off"), ("Retain", "Snapshot", None), (None, "Delete", None),
    ],
)  # fmt: skip
def test_what_a_destroy_keeps(before: str | None, after: str | None, direction: str | None, tmp_path: Path) -> None:
    sides = ({"B": bucket(**({"DeletionPolicy": policy} if policy else {}))} for policy in (before, after))
    remarks = [remark for remark in compared(tmp_path, *sides).remarks if remark.what.startswith("retention of")]
    assert [remark.direction for remark in remarks] == ([direction] if direction else [])


def test_nobody_misses_what_holds_nothing(tmp_path: Path) -> None:
    sides = ({"T": {**of("SNS::Topic"), "DeletionPolicy": policy}} for policy in ("Retain", "Delete"))
    assert [remark for remark in compared(tmp_path, *sides).remarks if remark.what.startswith("retention of")] == []

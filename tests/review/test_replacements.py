"""Replacements are followed through references of every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.review.changes import Kind
from hyperpod_ray.review.review import review
from tests.review.replacements_helpers import changes, file_system, network
from tests.review.small import resources, write


def test_an_export_in_use_cannot_change(tmp_path: Path) -> None:
    storage = file_system({"Fn::ImportValue": "subnet"})
    made = changes(
        tmp_path,
        {"Network": network("10.0.0.0/16"), "Storage": storage},
        {"Network": network("10.1.0.0/16"), "Storage": storage},
    )
    assert made.changed_exports == {"subnet": ["env-Storage"]}


def test_an_export_cannot_go_before_its_users(tmp_path: Path) -> None:
    without = network("10.0.0.0/16")
    del without["Outputs"]
    made = changes(
        tmp_path,
        {"Network": network("10.0.0.0/16"), "Storage": file_system({"Fn::ImportValue": "subnet"})},
        {"Network": without, "Storage": file_system("subnet-1")},
    )
    assert made.removed_exports == {"subnet": ["env-Storage"]}


def test_an_exported_tag_of_an_image_that_is_built_anew_changes(tmp_path: Path) -> None:
    def image(digit: str) -> dict[str, Any]:
        build = {
            "Type": "Custom::CDKContainerImageBuild",
            "Properties": {"sourceS3Url": f"s3://assets/{digit * 64}.zip"},
        }
        output = {"Value": {"Fn::GetAtt": ["Build", "ImageTag"]}, "Export": {"Name": "tag"}}
        return {"Resources": {"Build": build}, "Outputs": {"Tag": output}}

    user = resources(Topic={"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Fn::ImportValue": "tag"}}})
    made = changes(tmp_path, {"Image": image("a"), "Ray": user}, {"Image": image("b"), "Ray": user})
    assert made.changed_exports == {"tag": ["env-Ray"]}


def test_what_the_schema_calls_conditional_is_a_perhaps(tmp_path: Path) -> None:
    def template(block: str) -> dict[str, Any]:
        return resources(Subnet={"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": "vpc-1", "Ipv6CidrBlock": block}})

    (change,) = changes(
        tmp_path, {"A": template("2001:db8::/64")}, {"A": template("2001:db8:1::/64")}
    ).resources.values()
    assert (change.kind, change.perhaps) == (Kind.REPLACED, True)


def test_a_changed_type_replaces(tmp_path: Path) -> None:
    before = resources(Thing={"Type": "AWS::SNS::Topic", "Properties": {}})
    after = resources(Thing={"Type": "AWS::SQS::Queue", "Properties": {}})
    (change,) = changes(tmp_path, {"A": before}, {"A": after}).resources.values()
    assert change.kind is Kind.REPLACED


def test_equal_templates_do_not_differ(tmp_path: Path) -> None:
    assert changes(tmp_path, {"A": network("10.0.0.0/16")}, {"A": network("10.0.0.0/16")}).empty


def test_metadata_and_order_alone_change_nothing(tmp_path: Path) -> None:
    before, after = network("10.0.0.0/16"), network("10.0.0.0/16")
    after["Resources"]["Subnet"] |= {"Metadata": {"a": 1}, "DependsOn": ["Vpc"]}
    assert changes(tmp_path, {"A": before}, {"A": after}).empty


def test_what_exists_already_cannot_be_created(tmp_path: Path) -> None:
    """The stack used a log group of somebody else by its name, and is to create one of that name now."""
    name = "/aws/events/ray-on-hyperpod/a"
    counted = {"Type": "AWS::Logs::MetricFilter", "Properties": {"LogGroupName": name, "FilterPattern": "x"}}
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}}
    base = write(tmp_path / "base", {"A": resources(Filter=counted)})
    (environment,) = review(base, write(tmp_path / "head", {"A": resources(Filter=counted, Group=group)})).environments
    assert [row.effect.code for row in environment.rows if row.code == "name-taken"] == ["rejected"]
    fresh = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": f"{name}-fresh"}}
    (environment,) = review(base, write(tmp_path / "fresh", {"A": resources(Filter=counted, Group=fresh)})).environments
    assert environment.effect.code == "safe"


def test_the_group_that_eks_logs_into_exists(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html: EKS creates it."""
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "a-eks"}}
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/eks/a-eks/cluster"}}
    base = write(tmp_path / "base", {"A": resources(Cluster=cluster)})
    (environment,) = review(base, write(tmp_path / "head", {"A": resources(Cluster=cluster, Group=group)})).environments
    assert environment.effect.code == "rejected"

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.assembly import Key
from hyperpod_ray.review.changes import Kind
from tests.review.replacements_helpers import changes, file_system, network
from tests.review.small import resources


@pytest.mark.parametrize(
    "subnet",
    [
        {"Fn::ImportValue": "subnet"},
        {"Fn::GetStackOutput": {"StackName": "env-Network", "OutputName": "SubnetId"}},
        {"Fn::Sub": ["${given}", {"given": {"Fn::ImportValue": "subnet"}}]},
        {"Fn::Select": [0, {"Fn::Split": [",", {"Fn::ImportValue": "subnet"}]}]},
        {"Fn::If": ["Always", {"Fn::ImportValue": "subnet"}, "subnet-1"]},
    ],
    ids=["import", "weak reference", "sub", "select", "if"],
)
def test_across_stacks(tmp_path: Path, subnet: Any) -> None:
    storage = file_system(subnet)
    made = changes(
        tmp_path,
        {"Network": network("10.0.0.0/16"), "Storage": storage},
        {"Network": network("10.1.0.0/16"), "Storage": storage},
    )
    replaced = {change.key: change for change in made.of_kind(Kind.REPLACED)}
    assert set(replaced) == {Key("Network", "Vpc"), Key("Network", "Subnet"), Key("Storage", "FileSystem")}
    assert replaced[Key("Storage", "FileSystem")].after == [Key("Network", "Subnet")]


def test_into_and_out_of_nested_stacks(tmp_path: Path) -> None:
    inner = {
        "Parameters": {"Vpc": {"Type": "String"}},
        "Resources": {"Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}}}},
        "Outputs": {"Id": {"Value": {"Ref": "Subnet"}}},
    }

    def template(cidr: str) -> dict[str, Any]:
        nested = {
            "Type": "AWS::CloudFormation::Stack",
            "Metadata": {"aws:asset:path": "inner.json"},
            "Properties": {"Parameters": {"Vpc": {"Ref": "Vpc"}}},
        }
        return resources(
            Vpc={"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": cidr}},
            Nested=nested,
            **file_system({"Fn::GetAtt": ["Nested", "Outputs.Id"]})["Resources"],
        )

    made = changes(
        tmp_path, {"App": template("10.0.0.0/16")}, {"App": template("10.1.0.0/16")}, files={"inner.json": inner}
    )
    assert {change.key.logical_id for change in made.of_kind(Kind.REPLACED)} == {"Vpc", "Subnet", "FileSystem"}


def test_hashes_of_uploaded_files_are_noise(tmp_path: Path) -> None:
    def template(digit: str) -> dict[str, Any]:
        code = {"S3Bucket": "assets", "S3Key": f"{digit * 64}.zip"}
        return resources(
            Layer={"Type": "AWS::Lambda::LayerVersion", "Properties": {"Content": code}},
            Function={"Type": "AWS::Lambda::Function", "Properties": {"Code": code, "Layers": [{"Ref": "Layer"}]}},
        )

    made = changes(tmp_path, {"A": template("a")}, {"A": template("b")})
    assert {change.kind for change in made.resources.values()} == {Kind.ASSET_ONLY}
    assert len(made.asset_only) == 2

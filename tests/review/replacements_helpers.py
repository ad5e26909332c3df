"""What tests of `assembly`, `replacements` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.review.assembly import read
from hyperpod_ray.review.changes import Changes, compare
from tests.review.small import Templates, resources, write


def changes(tmp_path: Path, base: Templates, head: Templates, **more: Any) -> Changes:
    before = read(write(tmp_path / "base", base, **more))["env"]
    after = read(write(tmp_path / "head", head, **more))["env"]
    return compare(before, after)


def network(cidr: str) -> dict[str, Any]:
    template = resources(
        Vpc={"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": cidr}},
        Subnet={"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24"}},
    )
    template["Outputs"] = {"SubnetId": {"Value": {"Ref": "Subnet"}, "Export": {"Name": "subnet"}}}
    return template


def file_system(subnet: Any) -> dict[str, Any]:
    properties = {"FileSystemType": "LUSTRE", "StorageCapacity": 1200, "SubnetIds": [subnet]}
    return resources(FileSystem={"Type": "AWS::FSx::FileSystem", "Properties": properties})

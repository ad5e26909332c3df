"""Instance groups as a template has them."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.review import instance_groups as read


def cluster(*groups: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": list(groups), **properties}}


HEAD = {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1}
MIXED = {
    "InstanceGroupName": "gpu", "InstanceCount": 2, "InstanceRequirements": {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5en.48xlarge"]},
}  # fmt: skip
IDLE = {"InstanceGroupName": "burst", "InstanceType": "ml.g6.12xlarge", "InstanceCount": 0}


def test_every_node_is_counted_by_its_type() -> None:
    resource = cluster(HEAD, MIXED, IDLE)
    assert list(read.groups(resource)) == ["head", "gpu", "burst"]
    assert read.inventory(resource) == "1 ml.m5.2xlarge node, 2 ml.p5.48xlarge or ml.p5en.48xlarge nodes"
    assert read.lost(resource) == (("ml.m5.2xlarge node", 1), ("ml.p5.48xlarge or ml.p5en.48xlarge node", 2))


def test_what_karpenter_has_added_is_named_though_no_template_counts_it() -> None:
    resource = cluster(HEAD, IDLE, AutoScaling={"Mode": "Enable"})
    assert list(read.scaled(resource)) == ["burst"]
    assert read.inventory(resource).endswith("the ml.g6.12xlarge nodes of group burst")
    assert read.lost(resource)[-1] == ("ml.g6.12xlarge node", read.UNCOUNTED)
    assert read.scaled(cluster(HEAD, IDLE, AutoScaling={"Mode": "Disable"})) == {}


@pytest.mark.parametrize("resource", [None, {}, {"Properties": {}}, cluster()])
def test_what_has_no_groups_has_no_nodes(resource: dict[str, Any] | None) -> None:
    assert (read.groups(resource), read.scaled(resource), read.inventory(resource)) == ({}, {}, "")


def test_a_group_without_a_type_and_its_volumes() -> None:
    assert read.instance_type({}) == "?"
    mounted = {
        "InstanceStorageConfigs": [
            {"EbsVolumeConfig": {"VolumeSizeInGB": 500}},
            {"FsxLustreConfig": {"MountName": "fsx"}},
        ]
    }
    assert read.storage(mounted, "EbsVolumeConfig") == [{"VolumeSizeInGB": 500}]
    assert read.storage(mounted, "FsxOpenZfsConfig") == []

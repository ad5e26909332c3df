"""HyperPod instance groups, as a template has them."""

from __future__ import annotations

from typing import Any

Group = dict[str, Any]


def groups(resource: dict[str, Any] | None) -> dict[str, Group]:
    """Instance groups of an `AWS::SageMaker::Cluster` by name."""
    listed = (resource or {}).get("Properties", {}).get("InstanceGroups") or []
    return {str(group.get("InstanceGroupName")): group for group in listed}


def count(group: Group) -> int:
    """Nodes wanted."""
    return int(group.get("InstanceCount") or 0)


def instance_type(group: Group) -> str:
    """Its type, or the types it may have."""
    types = (group.get("InstanceRequirements") or {}).get("InstanceTypes") or []
    return str(group.get("InstanceType") or " or ".join(types) or "?")


def storage(group: Group, kind: str) -> list[Any]:
    """Entries of a kind in its `InstanceStorageConfigs`: `EbsVolumeConfig`, `FsxLustreConfig`, `FsxOpenZfsConfig`."""
    return [one[kind] for one in group.get("InstanceStorageConfigs") or [] if kind in one]


def nodes(number: int, group: Group) -> str:
    """`9 ml.p5.48xlarge nodes`."""
    return f"{number} {instance_type(group)} node{'' if number == 1 else 's'}"


def lost(resource: dict[str, Any] | None) -> tuple[tuple[str, int], ...]:
    """Every node of a cluster, as a headline counts them."""
    return tuple((f"{instance_type(group)} node", count(group)) for group in groups(resource).values() if count(group))


def inventory(resource: dict[str, Any] | None) -> str:
    """Every node of a cluster by type; empty for other resources."""
    found = [nodes(count(group), group) for group in groups(resource).values() if count(group)]
    return ", ".join(found)

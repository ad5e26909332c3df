"""HyperPod instance groups, as a template has them."""

from __future__ import annotations

from typing import Any

Group = dict[str, Any]
UNCOUNTED = 0
"""In the place of a number: as many as autoscaling has added, which no template shows."""


def groups(resource: dict[str, Any] | None) -> dict[str, Group]:
    """Instance groups of an `AWS::SageMaker::Cluster` by name."""
    listed = (resource or {}).get("Properties", {}).get("InstanceGroups") or []
    return {str(group.get("InstanceGroupName")): group for group in listed}


def count(group: Group) -> int:
    """Nodes wanted."""
    return int(group.get("InstanceCount") or 0)


def instance_types(group: Group) -> list[str]:
    """Types that its nodes may have, the first choice first."""
    several = (group.get("InstanceRequirements") or {}).get("InstanceTypes") or []
    return [str(group["InstanceType"])] if group.get("InstanceType") else [str(name) for name in several]


def instance_type(group: Group) -> str:
    """Its type, or the types it may have."""
    return " or ".join(instance_types(group)) or "?"


def scaled(resource: dict[str, Any] | None) -> dict[str, Group]:
    """Groups that managed Karpenter scales: the template has a count of 0, and nodes exist all the same."""
    scaler = (resource or {}).get("Properties", {}).get("AutoScaling") or {}
    if scaler.get("Mode") != "Enable":
        return {}
    return {name: group for name, group in groups(resource).items() if not count(group)}


def storage(group: Group, config_name: str) -> list[Any]:
    """Entries of a kind in its `InstanceStorageConfigs`: `EbsVolumeConfig`, `FsxLustreConfig`, `FsxOpenZfsConfig`."""
    return [config[config_name] for config in group.get("InstanceStorageConfigs") or [] if config_name in config]


def nodes(number: int, group: Group) -> str:
    """`9 ml.p5.48xlarge nodes`."""
    return f"{number} {instance_type(group)} node{'' if number == 1 else 's'}"


def lost(resource: dict[str, Any] | None) -> tuple[tuple[str, int], ...]:
    """Every node of a cluster, as a headline counts them."""
    return (
        *((f"{instance_type(group)} node", count(group)) for group in groups(resource).values() if count(group)),
        *((f"{instance_type(group)} node", UNCOUNTED) for group in scaled(resource).values()),
    )


def inventory(resource: dict[str, Any] | None) -> str:
    """Every node of a cluster by type; empty for other resources."""
    fixed = [nodes(count(group), group) for group in groups(resource).values() if count(group)]
    added = [f"the {instance_type(group)} nodes of group {name}" for name, group in scaled(resource).items()]
    return ", ".join([*fixed, *added])

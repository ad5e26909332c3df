"""What of an environment is in the account beside its cluster: stacks and file systems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.errors import explain, refused
from hyperpod_ray.ops.observe.snapshot import EKS, ControlPlane, FileSystem, Stack, Unseen
from hyperpod_ray.ops.observe.stack_cause import with_cause
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray_rules import fsx


def stacks_part(target: AnyTarget) -> dict[str, Any]:
    """Part `stacks` of a snapshot."""
    return {"stacks": stacks(target)}


def control_plane_part(target: AnyTarget, unseen: list[Unseen]) -> dict[str, Any]:
    """Part `control_plane` of a snapshot; a cluster that these credentials may not see is named in `unseen`."""
    try:
        return {"control_plane": control_plane(target)}
    except Exception as error:
        known = explain(error, environment=target.name) if refused(error) else None
        if known is None:
            raise
        unseen.append(Unseen(source=EKS, why=known.message, refused=True))
        return {"control_plane": None}


def control_plane(target: AnyTarget) -> ControlPlane | None:
    """The environment's own EKS cluster; None where there is none."""
    if target.plan.new_eks is None:
        return None
    try:
        cluster = target.aws.call("eks", "describe_cluster", name=target.plan.eks_cluster_name)["cluster"]
    except Exception as error:
        if not absent(error):
            raise
        return None
    return ControlPlane(
        name=cluster["name"],
        version=cluster.get("version", ""),
        version_of_file=target.plan.new_eks.version,
        protected=bool(cluster.get("deletionProtection")),
        protected_by_file=target.plan.settings.protected,
        created=cluster.get("createdAt"),
    )


def stacks(target: AnyTarget, *, also: Iterable[str] = (), unseen: list[str] | None = None) -> tuple[Stack, ...]:
    """The environment's stacks: those that its file has, and those that its project adds to it.

    Args:
        target: The environment.
        also: Names of more stacks, which need not exist.
        unseen: Takes a sentence where the account's stacks may not be listed, so that what the project added is not
            known. Default: the listing is then passed over.
    """
    own: list[str] = []
    try:
        own = tagged_stacks(target)
    except Exception as error:
        if not refused(error):
            raise
        if unseen is not None:
            known = explain(error, environment=target.name)
            unseen.append(f"stacks of your own: {known.message if known else error}")
    every = dict.fromkeys([*plan_names.stack_names(target.plan), *also, *own])
    return tuple(stack(target, name) for name in every)


def tagged_stacks(target: AnyTarget) -> list[str]:
    """Names of the stacks in the account that carry the environment's tag, as each stack of its Stage does."""
    return sorted(
        str(entry["StackName"])
        for entry in target.aws.pages("cloudformation", "describe_stacks", "Stacks")
        if {"Key": names.ENVIRONMENT_TAG, "Value": target.name} in entry.get("Tags", [])
    )


def stack(target: AnyTarget, name: str) -> Stack:
    """One stack; with an empty status where there is none."""
    try:
        found = target.aws.call("cloudformation", "describe_stacks", StackName=name)["Stacks"][0]
    except Exception as error:
        if absent(error):
            return Stack(name=name)
        raise
    made = Stack(
        name=name,
        status="" if found["StackStatus"] == "DELETE_COMPLETE" else found["StackStatus"],
        reason=found.get("StackStatusReason", ""),
        protected=bool(found.get("EnableTerminationProtection")),
    )
    return with_cause(target, made)


def file_systems_part(target: AnyTarget) -> dict[str, Any]:
    """Part `file_systems` of a snapshot."""
    return {"file_systems": file_systems(target)}


def file_systems(target: AnyTarget) -> tuple[FileSystem, ...]:
    """File systems that carry the environment's tag, and those that the environment only uses."""
    existing = target.plan.existing_file_system
    named = {existing.file_system_id if existing else None, target.plan.existing_homes}
    found = []
    for item in target.aws.pages("fsx", "describe_file_systems", "FileSystems"):
        tags = {tag["Key"]: tag.get("Value", "") for tag in item.get("Tags", [])}
        mine = tags.get(names.ENVIRONMENT_TAG) == target.name
        if not mine and item["FileSystemId"] not in named:
            continue
        found.append(
            FileSystem(
                id=item["FileSystemId"],
                lifecycle=item["Lifecycle"],
                capacity_gib=0
                if (elastic := item.get("StorageType") == fsx.INTELLIGENT_TIERING)
                else item.get("StorageCapacity", 0),
                elastic=elastic,
                made_by_claim=names.CLAIM_TAG in tags,
                failure=(item.get("FailureDetails") or {}).get("Message", ""),
                created=item.get("CreationTime"),
                stack=tags.get("aws:cloudformation:stack-name", ""),
                interfaces=tuple(item.get("NetworkInterfaceIds", [])),
                homes=item.get("FileSystemType") == "OPENZFS",
            )
        )
    return tuple(found)

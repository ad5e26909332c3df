"""What HyperPod and SageMaker say: the cluster, its groups, nodes and events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.hangs import hangs
from hyperpod_ray.ops.observe.snapshot import Cluster, ClusterEvent, Group, Instance, TrainingPlan
from hyperpod_ray.ops.reach.clients import AnyTarget, Json, Target

EVENTS = 50
"""Newest cluster events looked at."""


def cluster_part(target: AnyTarget) -> dict[str, Any]:
    """Parts `cluster` and `instances` of a snapshot."""
    found = cluster(target)
    if found is None:
        return {"cluster": None}
    return {"cluster": found, "instances": instances(target)}


def events_part(target: AnyTarget) -> dict[str, Any]:
    """Part `events` of a snapshot."""
    try:
        return {"events": events(target)}
    except Exception as error:
        if absent(error):  # no cluster, no events
            return {}
        raise


def cluster(target: AnyTarget) -> Cluster | None:
    """The HyperPod cluster; None where there is none."""
    name = target.plan.settings.hyperpod.cluster_name
    try:
        found = target.aws.call("sagemaker", "describe_cluster", ClusterName=name)
    except Exception as error:
        if absent(error):
            return None
        raise
    return Cluster(
        name=name,
        arn=found["ClusterArn"],
        status=found["ClusterStatus"],
        failure=found.get("FailureMessage", ""),
        node_recovery=found.get("NodeRecovery", "Automatic"),
        created=found.get("CreationTime"),
        groups=tuple(_group(target, group) for group in found.get("InstanceGroups", [])),
    )


def _group(target: AnyTarget, group: Json) -> Group:
    types = (group.get("InstanceRequirements") or {}).get("DesiredInstanceTypes") or [group.get("InstanceType", "")]
    plan, name = target.plan, group["InstanceGroupName"]
    return Group(
        name=name,
        type=" or ".join(types),
        target=int(group.get("TargetCount") or 0),
        current=int(group.get("CurrentCount") or 0),
        status=group.get("Status", ""),
        # an unknown type is taken for accelerated: the mistake then is to wait for a recovery, which has a time limit
        accelerated=any(not plan.known(sold) or plan.type_spec(sold).accelerators > 0 for sold in types),
        role=(group.get("SlurmConfig") or {}).get("NodeType", "") or plan.role(name),
        training_plan=group.get("TrainingPlanArn", ""),
        image_status=group.get("ImageVersionStatus", ""),
        image_release=group.get("CurrentImageReleaseVersion", ""),
        image_available=group.get("DesiredImageReleaseVersion", ""),
        own_image=next((listed.image_id for listed in plan.groups if listed.name == name), None) or "",
        update_status=group.get("SoftwareUpdateStatus", ""),
        next_patch=((group.get("AutoPatchConfig") or {}).get("CurrentPatchSchedule") or {}).get("NextPatchDate"),
    )


def training_plans(target: AnyTarget, cluster: Cluster) -> tuple[TrainingPlan, ...]:
    """The training plans that a cluster's groups take their capacity from."""
    made = []
    for arn in sorted({group.training_plan for group in cluster.groups if group.training_plan}):
        name = arn.rpartition("/")[2]
        plan = target.aws.call("sagemaker", "describe_training_plan", TrainingPlanName=name)
        made.append(
            TrainingPlan(
                arn=arn,
                name=name,
                status=plan["Status"],
                start=plan.get("StartTime"),
                end=plan.get("EndTime"),
                groups=tuple(group.name for group in cluster.groups if group.training_plan == arn),
                unhealthy=int(plan.get("UnhealthyInstanceCount") or 0),
            )
        )
    return tuple(made)


def instances(target: AnyTarget) -> tuple[Instance, ...]:
    """Every node that HyperPod lists, oldest first."""
    name = target.plan.settings.hyperpod.cluster_name
    found = target.aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=name)
    listed = [
        Instance(
            id=node["InstanceId"],
            group=node["InstanceGroupName"],
            type=node["InstanceType"],
            status=node["InstanceStatus"]["Status"],
            message=node["InstanceStatus"].get("Message", ""),
            launched=node.get("LaunchTime"),
            logical_id=node.get("NodeLogicalId", ""),
            host=node.get("PrivateDnsHostname", "").partition(".")[0],
            software_updated=node.get("LastSoftwareUpdateTime"),
            image_release=node.get("CurrentImageReleaseVersion", ""),
        )
        for node in found
    ]
    return tuple(
        sorted(listed, key=lambda node: (node.group, node.launched or datetime.min.replace(tzinfo=UTC), node.id))
    )


def events(target: AnyTarget, *, limit: int = EVENTS, **filters: Any) -> tuple[ClusterEvent, ...]:
    """The cluster's newest events, newest first; failure messages are not part of the listing (`describe_event`)."""
    name = target.plan.settings.hyperpod.cluster_name
    found: list[Json] = []
    arguments: Json = {"ClusterName": name, "SortOrder": "Descending", "MaxResults": min(limit, 100), **filters}
    while len(found) < limit:
        page = target.aws.call("sagemaker", "list_cluster_events", **arguments)
        found += page.get("Events", [])
        if not page.get("NextToken"):
            break
        arguments["NextToken"] = page["NextToken"]
    return tuple(_event(event) for event in found[:limit])


def describe_event(target: AnyTarget, event: ClusterEvent) -> ClusterEvent:
    """An event with its failure message, which only DescribeClusterEvent tells."""
    name = target.plan.settings.hyperpod.cluster_name
    details = target.aws.call("sagemaker", "describe_cluster_event", ClusterName=name, EventId=event.id)["EventDetails"]
    return _event(details)


def _event(event: Json) -> ClusterEvent:
    metadata = (event.get("EventDetails") or {}).get("EventMetadata") or {}
    failures = [
        part["FailureMessage"] for part in metadata.values() if isinstance(part, dict) and part.get("FailureMessage")
    ]
    return ClusterEvent(
        id=event["EventId"],
        time=event["EventTime"],
        level=event.get("EventLevel", "Info"),
        description=event.get("Description", ""),
        resource=event.get("ResourceType", "Cluster"),
        group=event.get("InstanceGroupName", ""),
        instance=event.get("InstanceId", ""),
        failure="; ".join(failures),
    )


def require_cluster(target: AnyTarget) -> Cluster:
    """The HyperPod cluster, or an error that says how to make it."""
    target.aws.require_account()
    found = cluster(target)
    if found is None:
        raise OpsError(
            f"HyperPod cluster '{target.plan.settings.hyperpod.cluster_name}' does not exist",
            expected="the environment to be deployed",
            fix=target.deploy_command,
        )
    return found


def hangs_part(target: Target) -> dict[str, Any]:
    """Part `hangs` of a snapshot."""
    found = cluster(target)
    return {"hangs": hangs(target, found)} if found else {}

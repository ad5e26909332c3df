"""What clusters are kept as: a mapping of CreateCluster's members, and of members of ours that begin with `_`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


def public(cluster: Json) -> Json:
    """The members that the API answers."""
    return {k: v for k, v in cluster.items() if not k.startswith("_")}


def plans_of(cluster: Json) -> list[str]:
    """ARNs of the training plans that a cluster's groups use."""
    return sorted({g["TrainingPlanArn"] for g in cluster["_groups"].values() if "TrainingPlanArn" in g})


def of_group(cluster: Json, group: Json) -> list[Json]:
    """The instances of a group, without those that go away."""
    name = group["InstanceGroupName"]
    return [n for n in cluster["_nodes"] if n["InstanceGroupName"] == name and n["_status"] != "ShuttingDown"]


def find_node(cluster: Json, node_id: str) -> Json:
    """The instance of an id or a logical id; `ResourceNotFound` without one."""
    for node in cluster["_nodes"]:
        if node_id in (node["InstanceId"], node["NodeLogicalId"]):
            match: Json = node
            return match
    raise ServiceError("ResourceNotFound", f"Node {node_id} not found in cluster {cluster['ClusterName']}")


def node_event(cluster: Json, node: Json, description: str, **details: str) -> None:
    """Record an event of an instance."""
    event(cluster, description, group=node["InstanceGroupName"], instance=node["InstanceId"], **details)


def event(
    cluster: Json,
    description: str,
    *,
    group: str = "",
    instance: str = "",
    level: str = "Info",
    failure: str = "",
) -> None:
    """Record an event of a cluster, of one of its groups or of an instance."""
    record: Json = {
        "EventId": str(uuid.uuid4()),  # the model demands this form
        "ClusterArn": cluster["ClusterArn"],
        "ClusterName": cluster["ClusterName"],
        "ResourceType": "Instance" if instance else "InstanceGroup" if group else "Cluster",
        "EventTime": time.time(),
        "Description": description,
        "EventLevel": level,
        "_failure": failure,
    }
    record |= {"InstanceGroupName": group} if group else {}
    record |= {"InstanceId": instance} if instance else {}
    cluster["_events"].append(record)
    sent = {**{k: v for k, v in record.items() if not k.startswith("_")}, "EventTime": int(record["EventTime"] * 1000)}
    if failure:
        sent["EventDetails"] = {"EventMetadata": {record["ResourceType"]: {"FailureMessage": failure}}}
    send(cluster, "SageMaker HyperPod Cluster Event", {"EventDetails": sent})


def state_change(cluster: Json) -> None:
    """Announce the state that a cluster is in now."""
    members = ("ClusterArn", "ClusterName", "ClusterStatus", "NodeRecovery", "Orchestrator", "VpcConfig")
    detail = {key: cluster[key] for key in members if key in cluster}
    groups = [
        {
            "InstanceGroupName": name,
            "InstanceType": group.get("InstanceType", ""),
            "CurrentCount": len(of_group(cluster, group)),
            "TargetCount": group["InstanceCount"],
        }
        for name, group in cluster["_groups"].items()
    ]
    detail |= {
        "CreationTime": int(cluster["CreationTime"] * 1000),
        "FailureMessage": cluster.get("FailureMessage", ""),
        "InstanceGroups": groups,
    }
    send(cluster, "SageMaker HyperPod Cluster State Change", detail)


def health(cluster: Json, node: Json, status: str, reason: str, *, repair: str = "None") -> None:
    """Announce that an instance is `Unhealthy` or `Healthy`; `repair` is None, Replace or Reboot."""
    summary = {"HealthStatus": status, "HealthStatusReason": reason, "RepairAction": repair, "Recommendation": ""}
    detail = {
        "ClusterName": cluster["ClusterName"],
        "ClusterArn": cluster["ClusterArn"],
        "InstanceId": node["InstanceId"],
        "Tags": {},
        "HealthSummary": summary,
    }
    send(cluster, "SageMaker HyperPod Cluster Node Health Event", detail)


def send(cluster: Json, detail_type: str, detail: Json) -> None:
    """Put an event into the cluster's outbox; `Clusters.advance` hands it to EventBridge.

    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
    """
    cluster.setdefault("_outbox", []).append((detail_type, detail))


def page(items: list[Json], data: Json) -> tuple[list[Json], Json]:
    """Return one page; the token is the position of the next one."""
    token = data.get("NextToken") or "0"
    if not token.isdigit():
        raise ServiceError("ValidationException", f"NextToken {token} is not valid")
    start, size = int(token), int(data.get("MaxResults", 100))
    has_more = start + size < len(items)
    return items[start : start + size], {"NextToken": str(start + size)} if has_more else {}

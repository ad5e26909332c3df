"""States that a test sets: what HyperPod says of a cluster, a group or a node, and the event that AWS publishes."""

from __future__ import annotations

import math
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import find_node, send

Json = dict[str, Any]

EVENT = "SageMaker HyperPod Cluster Event"


class States:
    """Sets states. Each lasts until an operation, another state, or the end of the node or cluster."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def set(self, data: Json) -> Json:
        """Set what is named.

        Args:
            data: `cluster`, its name. `fields` of the cluster, such as `ClusterStatus`. `groups`, fields of
                DescribeCluster by group. `plans`, answers of DescribeTrainingPlan by name. `nodes`, by instance ID:
                `status`, `message`, and `launched`, a time. `still`, groups of which no node comes or goes by
                itself. `lose`, instance IDs that end at once. `forget`, instance IDs that end with their place in
                the group. `event`, one as EventBridge delivers it.

        Raises:
            ServiceError: There is no such cluster or node.
            KeyError: There is no such group.
        """
        cluster = self._clusters.find(str(data["cluster"]))
        fields = data.get("fields") or {}
        cluster.update(fields)
        if "ClusterStatus" in fields:
            cluster["_ready_at"] = math.inf
        for name, overrides in (data.get("groups") or {}).items():
            if name not in cluster["_groups"]:
                raise KeyError(f"cluster {cluster['ClusterName']} has no group {name}")
            merged = {**cluster.setdefault("_shown", {}).get(name, {}), **overrides}
            cluster["_shown"][name] = {key: value for key, value in merged.items() if value is not None}
        cluster.setdefault("_plans", {}).update(data.get("plans") or {})
        for node_id, state in (data.get("nodes") or {}).items():
            node = find_node(cluster, node_id)
            node.update(_status=state["status"], _message=state.get("message", ""), _next=[])
            node["LaunchTime"] = state.get("launched", node["LaunchTime"])
        if "still" in data:
            cluster["_still"] = list(data["still"])
        for node_id in data.get("lose") or []:
            cluster["_nodes"].remove(find_node(cluster, node_id))
        for node_id in data.get("forget") or []:
            node = find_node(cluster, node_id)
            group = cluster["_groups"][node["InstanceGroupName"]]
            group["InstanceCount"] -= 1
            cluster["_nodes"].remove(node)
        if data.get("event"):
            self._publish(cluster, data["event"])
        return {"ClusterArn": cluster["ClusterArn"]}

    def _publish(self, cluster: Json, event: Json) -> None:
        """Deliver an event in AWS's form; an event of the cluster is also listed."""
        detail = event["detail"]
        if event["detail-type"] == EVENT:
            record = dict(detail["EventDetails"])
            of_it = (record.pop("EventDetails", {}).get("EventMetadata") or {}).values()
            failures = [str(part["FailureMessage"]) for part in of_it if part.get("FailureMessage")]
            cluster["_events"].append(
                {**record, "EventTime": record["EventTime"] / 1000, "_failure": "; ".join(failures)}
            )
        send(cluster, event["detail-type"], detail)
        self._clusters.deliver(cluster)

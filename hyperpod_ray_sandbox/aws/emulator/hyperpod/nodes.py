"""The operations on nodes."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules import hyperpod as rules
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError, refuse
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import find_node, node_event, of_group, page

Json = dict[str, Any]


class NodeOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self._context = context
        self._clusters = clusters

    def ListClusterNodes(self, data: Json) -> Json:
        """Answer the nodes of a cluster, filtered as asked."""
        cluster = self._clusters.find(data["ClusterName"])
        contains = data.get("InstanceGroupNameContains", "")
        nodes = [n for n in cluster["_nodes"] if contains in n["InstanceGroupName"]]
        key = "InstanceGroupName" if data.get("SortBy") == "NAME" else "LaunchTime"
        nodes.sort(key=lambda n: n[key], reverse=data.get("SortOrder") == "Descending")
        selected, token = page(nodes, data)
        summaries = [
            {
                "InstanceGroupName": n["InstanceGroupName"],
                "InstanceId": n["InstanceId"],
                "InstanceType": n["InstanceType"],
                "LaunchTime": n["LaunchTime"],
                "InstanceStatus": {"Status": n["_status"], "Message": n["_message"]},
                "PrivateDnsHostname": n["PrivateDnsHostname"],
                "CurrentImageReleaseVersion": n["_image"],
                **({"NodeLogicalId": n["NodeLogicalId"]} if data.get("IncludeNodeLogicalIds") else {}),
            }
            for n in selected
        ]
        return {"ClusterNodeSummaries": summaries, **token}

    def DescribeClusterNode(self, data: Json) -> Json:
        """Answer everything known of one node."""
        cluster = self._clusters.find(data["ClusterName"])
        node = find_node(cluster, data.get("NodeId") or data.get("NodeLogicalId") or "")
        group = cluster["_groups"].get(node["InstanceGroupName"], {})
        kept = ("LifeCycleConfig", "OverrideVpcConfig", "ThreadsPerCore", "InstanceStorageConfigs")
        details: Json = {
            **{k: group[k] for k in kept if k in group},
            **{k: v for k, v in node.items() if not k.startswith("_")},
            "InstanceStatus": {"Status": node["_status"], "Message": node["_message"]},
            "Placement": node["_placement"],
            "CurrentImageReleaseVersion": node["_image"],
        }
        return {"NodeDetails": details}

    def BatchRebootClusterNodes(self, data: Json) -> Json:
        """Restart nodes; each keeps its id, address and disks."""

        def reboot(_cluster: Json, node: Json) -> None:
            node.update(_status="Pending", _message="Instance is rebooting", _next=[(self._context.later(), "Running")])

        return self._batch(data, "reboot", reboot)

    def BatchReplaceClusterNodes(self, data: Json) -> Json:
        """Replace nodes; each goes away with its disks and a new id comes in its place."""
        return self._batch(data, "replacement", self._clusters.replace)

    def BatchDeleteClusterNodes(self, data: Json) -> Json:
        """Remove nodes and lower their groups' target counts."""

        def delete(cluster: Json, node: Json) -> None:
            group = cluster["_groups"][node["InstanceGroupName"]]
            group["InstanceCount"] = max(0, group["InstanceCount"] - 1)
            self._clusters.shut_down(node)

        answer = self._batch(data, "deletion", delete, code="NodeIdNotFound")
        renamed = [
            {"Code": f["ErrorCode"], "Message": f["Message"], "NodeId": f["NodeId"]} for f in answer.pop("Failed", [])
        ]
        return {**answer, **({"Failed": renamed} if renamed else {})}

    def BatchAddClusterNodes(self, data: Json) -> Json:
        """Raise groups' target counts, with Continuous provisioning only."""
        cluster = self._clusters.find(data["ClusterName"])
        if cluster.get("NodeProvisioningMode") != "Continuous":
            raise ServiceError(
                "ValidationException", "BatchAddClusterNodes needs a cluster with NodeProvisioningMode Continuous"
            )
        added: list[Json] = []
        failed: list[Json] = []
        for spec in data["NodesToAdd"]:
            name, count = spec["InstanceGroupName"], spec["IncrementTargetCountBy"]
            group = cluster["_groups"].get(name)
            if group is None:
                failed.append({"InstanceGroupName": name, "ErrorCode": "InstanceGroupNotFound", "FailedCount": count})
                continue
            group["InstanceCount"] += count
            for _ in range(count):
                node = self._clusters.launch(cluster, group)
                added.append(
                    {"NodeLogicalId": node["NodeLogicalId"], "InstanceGroupName": name, "Status": node["_status"]}
                )
        return {"Successful": added, "Failed": failed}

    def StartClusterHealthCheck(self, data: Json) -> Json:
        """Run deep health checks on nodes that are there; they are unschedulable until then."""
        cluster = self._clusters.find(data["ClusterName"])
        for configuration in data["DeepHealthCheckConfigurations"]:
            group = cluster["_groups"].get(configuration["InstanceGroupName"])
            if group is None:
                raise ServiceError(
                    "ValidationException", f"Instance group {configuration['InstanceGroupName']} not found"
                )
            request = {"InstanceGroups": [{**group, "OnStartDeepHealthChecks": configuration["DeepHealthChecks"]}]}
            for check in (rules.deep_checks_have_a_device, rules.connectivity_needs_two):
                refuse(check(request, rules.Where()))
            ids = configuration.get("InstanceIds") or [n["InstanceId"] for n in of_group(cluster, group)]
            for node_id in ids:
                node = find_node(cluster, node_id)
                if node["_status"] != "Running":
                    raise ServiceError("ValidationException", f"Instance {node_id} is {node['_status']}, not Running")
                self._clusters.deep_check(cluster, node)
        return {"ClusterArn": cluster["ClusterArn"]}

    def _batch(self, data: Json, operation: str, act: Any, code: str = "InstanceIdNotFound") -> Json:
        cluster = self._clusters.find(data["ClusterName"])
        answer: Json = {}
        for member, prefix in (("NodeIds", ""), ("NodeLogicalIds", "NodeLogicalIds")):
            done: list[str] = []
            failed: list[Json] = []
            for node_id in data.get(member, []):
                try:
                    node = find_node(cluster, node_id)
                except ServiceError as error:
                    failed.append({"NodeId": node_id, "ErrorCode": code, "Message": error.message})
                    continue
                if node["_status"] == "ShuttingDown":
                    invalid = "InvalidInstanceStatus" if code == "InstanceIdNotFound" else "InvalidNodeStatus"
                    message = f"Instance {node_id} is {node['_status']}"
                    failed.append({"NodeId": node_id, "ErrorCode": invalid, "Message": message})
                    continue
                act(cluster, node)
                node_event(cluster, node, f"Instance {node_id}: {operation} requested")
                done.append(node_id)
            if prefix:
                renamed = [{"NodeLogicalId": f.pop("NodeId"), **f} for f in failed]
                answer |= {f"Successful{prefix}": done} if done else {}
                answer |= {f"Failed{prefix}": renamed} if renamed else {}
            else:
                answer |= {"Successful": done} if done else {}
                answer |= {"Failed": failed} if failed else {}
        return answer

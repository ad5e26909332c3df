"""SageMaker HyperPod: clusters, nodes and events that move through their states, validated by botocore's model.

Sources: the API reference of the operations named here, and the user guide's pages "sagemaker-hyperpod-eks-…".
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from sandbox.aws.emulator.context import Context, hex_id, tag_list, tag_map, word
from sandbox.aws.emulator.errors import ServiceError
from sandbox.aws.emulator.network import Network
from sandbox.aws.emulator.refusals import refuse
from sandbox.aws.emulator.roles import Roles
from service_rules import eks as eks_rules
from service_rules import hyperpod as rules

Json = dict[str, Any]

IMAGE_RELEASES = ("1.0.0", "1.1.0")
DEEP_CHECK_STATES = 2.0  # a deep health check takes this many states: it is the long one in reality too
# what UpdateCluster changes; the rest of CreateCluster's members cannot change
UPDATABLE = ("NodeRecovery", "AutoScaling", "ClusterRole", "TieredStorageConfig", "NodeProvisioningMode")


class SageMaker:
    """The HyperPod part of the SageMaker API; each public method named as an operation answers it."""

    botocore_name = "sagemaker"

    def __init__(self, context: Context, network: Network, roles: Roles) -> None:
        self._context = context
        self._roles = roles
        self._hooks = context.hooks
        self._network = network
        self._clusters: Any = context.hooks.scoped_dict()
        self._tags: Any = context.hooks.scoped_dict()
        context.tickers.append(self._tick)

    # -- clusters -----------------------------------------------------------------------------------------------

    def CreateCluster(self, data: Json) -> Json:
        """Create a cluster; its nodes appear over time."""
        name = data["ClusterName"]
        if name in self._clusters:
            raise ServiceError("ResourceInUse", f"Cluster with name {name} already exists")
        self._judge(data)
        self._check_references(data)
        arn = self._hooks.arn("sagemaker", f"cluster/{word(12)}")
        kept = {k: v for k, v in data.items() if k not in ("Tags", "InstanceGroups")}
        cluster: Json = {
            **kept,
            "ClusterArn": arn,
            "ClusterStatus": "Creating",
            "CreationTime": time.time(),
            "_scope": (self._hooks.account(), self._hooks.region()),
            "_ready_at": self._context.later(),
            "_groups": {g["InstanceGroupName"]: g for g in data.get("InstanceGroups", [])},
            "_nodes": [],
            "_events": [],
        }
        self._clusters[name] = cluster
        self._tags[arn] = tag_map(data.get("Tags"))
        self._event(cluster, f"Cluster {name} creation started")
        self._reconcile(cluster)
        return {"ClusterArn": arn}

    def UpdateCluster(self, data: Json) -> Json:
        """Change groups and cluster-wide settings."""
        cluster = self.find(data["ClusterName"])
        self._in_status(cluster, "UpdateCluster", "InService", "Failed")
        deleted = set(data.get("InstanceGroupsToDelete", []))
        unknown = sorted(deleted - set(cluster["_groups"]))
        if unknown:
            raise ServiceError("ValidationException", f"Instance group {unknown[0]} does not exist in the cluster")
        merged = {**cluster, **{k: data[k] for k in UPDATABLE if k in data}}
        groups = dict(cluster["_groups"])
        for group in data.get("InstanceGroups", []):
            name = group["InstanceGroupName"]
            if name in groups:
                refuse(rules.update_group(groups[name], group))
                groups[name] = {**groups[name], **group}
            else:
                groups[name] = group
        for name in deleted:
            del groups[name]
        self._judge({**_public(merged), "InstanceGroups": list(groups.values())})
        cluster.update({k: data[k] for k in UPDATABLE if k in data})
        cluster["_groups"] = groups
        cluster["FailureMessage"] = ""
        self._begin(cluster, "Updating", "Cluster update started")
        self._reconcile(cluster)
        return {"ClusterArn": cluster["ClusterArn"]}

    def DeleteCluster(self, data: Json) -> Json:
        """Delete a cluster and its nodes."""
        cluster = self.find(data["ClusterName"])
        self._in_status(cluster, "DeleteCluster", "InService", "Failed", "Creating", "Deleting")
        if cluster["ClusterStatus"] != "Deleting":
            self._begin(cluster, "Deleting", "Cluster deletion started")
            for node in cluster["_nodes"]:
                node.update(_status="ShuttingDown", _next=[])
        return {"ClusterArn": cluster["ClusterArn"]}

    def resource(self, data: Json) -> str:
        """The ARN that a policy must allow: the cluster's, where the call is about one."""
        name = data.get("ClusterName")
        if not isinstance(name, str):
            return "*"
        if name.startswith("arn:"):
            return name
        known = self._clusters.get(name)
        return str(known["ClusterArn"]) if known else self._hooks.arn("sagemaker", f"cluster/{name}")

    def DescribeCluster(self, data: Json) -> Json:
        """Answer a cluster with its groups' target and current counts."""
        cluster = self.find(data["ClusterName"])
        answer = _public(cluster)
        if "AutoScaling" in answer:
            answer["AutoScaling"] = {**answer["AutoScaling"], "Status": "InService"}
        answer["InstanceGroups"] = [self._describe_group(cluster, group) for group in cluster["_groups"].values()]
        return answer

    def ListClusters(self, data: Json) -> Json:
        """Answer the clusters of the account and region, filtered as asked."""
        clusters = [c for c in self._clusters.values() if data.get("NameContains", "") in c["ClusterName"]]
        plan = data.get("TrainingPlanArn")
        if plan:
            clusters = [c for c in clusters if plan in _plans(c)]
        key = "ClusterName" if data.get("SortBy") == "NAME" else "CreationTime"
        clusters.sort(key=lambda c: c[key], reverse=data.get("SortOrder") == "Descending")
        page, token = _page(clusters, data)
        members = ("ClusterArn", "ClusterName", "CreationTime", "ClusterStatus")
        summaries = [{k: c[k] for k in members} | ({"TrainingPlanArns": p} if (p := _plans(c)) else {}) for c in page]
        return {"ClusterSummaries": summaries, **token}

    # -- nodes --------------------------------------------------------------------------------------------------

    def ListClusterNodes(self, data: Json) -> Json:
        """Answer the nodes of a cluster, filtered as asked."""
        cluster = self.find(data["ClusterName"])
        contains = data.get("InstanceGroupNameContains", "")
        nodes = [n for n in cluster["_nodes"] if contains in n["InstanceGroupName"]]
        key = "InstanceGroupName" if data.get("SortBy") == "NAME" else "LaunchTime"
        nodes.sort(key=lambda n: n[key], reverse=data.get("SortOrder") == "Descending")
        page, token = _page(nodes, data)
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
            for n in page
        ]
        return {"ClusterNodeSummaries": summaries, **token}

    def DescribeClusterNode(self, data: Json) -> Json:
        """Answer everything known of one node."""
        cluster = self.find(data["ClusterName"])
        node = self._node(cluster, data.get("NodeId") or data.get("NodeLogicalId") or "")
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
        return self._batch(data, "replacement", self._replace)

    def BatchDeleteClusterNodes(self, data: Json) -> Json:
        """Remove nodes and lower their groups' target counts."""

        def delete(cluster: Json, node: Json) -> None:
            group = cluster["_groups"][node["InstanceGroupName"]]
            group["InstanceCount"] = max(0, group["InstanceCount"] - 1)
            self._shut_down(node)

        answer = self._batch(data, "deletion", delete, code="NodeIdNotFound")
        renamed = [
            {"Code": f["ErrorCode"], "Message": f["Message"], "NodeId": f["NodeId"]} for f in answer.pop("Failed", [])
        ]
        return {**answer, **({"Failed": renamed} if renamed else {})}

    def BatchAddClusterNodes(self, data: Json) -> Json:
        """Raise groups' target counts, with Continuous provisioning only."""
        cluster = self.find(data["ClusterName"])
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
                node = self._launch(cluster, group)
                added.append(
                    {"NodeLogicalId": node["NodeLogicalId"], "InstanceGroupName": name, "Status": node["_status"]}
                )
        return {"Successful": added, "Failed": failed}

    def StartClusterHealthCheck(self, data: Json) -> Json:
        """Run deep health checks on nodes that are there; they are unschedulable until then."""
        cluster = self.find(data["ClusterName"])
        for wanted in data["DeepHealthCheckConfigurations"]:
            group = cluster["_groups"].get(wanted["InstanceGroupName"])
            if group is None:
                raise ServiceError("ValidationException", f"Instance group {wanted['InstanceGroupName']} not found")
            asked = {"InstanceGroups": [{**group, "OnStartDeepHealthChecks": wanted["DeepHealthChecks"]}]}
            for check in (rules.deep_checks_have_a_device, rules.connectivity_needs_two):
                refuse(check(asked, rules.Where()))
            ids = wanted.get("InstanceIds") or [n["InstanceId"] for n in self._of_group(cluster, group)]
            for node_id in ids:
                node = self._node(cluster, node_id)
                if node["_status"] != "Running":
                    raise ServiceError("ValidationException", f"Instance {node_id} is {node['_status']}, not Running")
                self._deep_check(cluster, node)
        return {"ClusterArn": cluster["ClusterArn"]}

    def UpdateClusterSoftware(self, data: Json) -> Json:
        """Bring every node, or those of the groups named, to the newest image release or the one asked for."""
        cluster = self.find(data["ClusterName"])
        self._in_status(cluster, "UpdateClusterSoftware", "InService")
        wanted = {g["InstanceGroupName"]: g.get("ImageReleaseVersion") for g in data.get("InstanceGroups", [])}
        unknown = sorted(set(wanted) - set(cluster["_groups"]))
        if unknown:
            raise ServiceError("ValidationException", f"Instance group {unknown[0]} not found")
        self._begin(cluster, "SystemUpdating", "Cluster software update started")
        done = cluster["_ready_at"]
        for node in cluster["_nodes"]:
            if wanted and node["InstanceGroupName"] not in wanted:
                continue
            node.update(_status="SystemUpdating", _next=[(done, "Running")], LastSoftwareUpdateTime=time.time())
            node["_image"] = wanted.get(node["InstanceGroupName"]) or IMAGE_RELEASES[-1]
        return {"ClusterArn": cluster["ClusterArn"]}

    # -- events -------------------------------------------------------------------------------------------------

    def ListClusterEvents(self, data: Json) -> Json:
        """Answer a cluster's events, newest first unless asked otherwise; without their failure messages."""
        cluster = self.find(data["ClusterName"])
        wanted = {"InstanceGroupName": "InstanceGroupName", "NodeId": "InstanceId", "ResourceType": "ResourceType"}
        events = [
            e
            for e in cluster["_events"]
            if all(e.get(member) == data[asked] for asked, member in wanted.items() if asked in data)
            and _within(e["EventTime"], data.get("EventTimeAfter"), data.get("EventTimeBefore"))
        ]
        events.sort(key=lambda e: e["EventTime"], reverse=data.get("SortOrder", "Descending") == "Descending")
        page, token = _page(events, data)
        return {"Events": [{k: v for k, v in e.items() if not k.startswith("_")} for e in page], **token}

    def DescribeClusterEvent(self, data: Json) -> Json:
        """Answer one event with its failure message."""
        cluster = self.find(data["ClusterName"])
        for event in cluster["_events"]:
            if event["EventId"] == data["EventId"]:
                details: Json = {k: v for k, v in event.items() if not k.startswith("_")}
                if event["_failure"]:
                    kind = event["ResourceType"]
                    details["EventDetails"] = {"EventMetadata": {kind: {"FailureMessage": event["_failure"]}}}
                return {"EventDetails": details}
        raise ServiceError("ResourceNotFound", f"Event {data['EventId']} not found")

    # -- training plans and tags --------------------------------------------------------------------------------

    def SearchTrainingPlanOfferings(self, data: Json) -> Json:
        """Answer one offering for what was asked; fees are not real prices."""
        hours = data.get("DurationHours", 24)
        count = data.get("InstanceCount", 1)
        instance_type = data.get("InstanceType", "ml.p5.48xlarge")
        reserved = {
            "ReservedCapacityType": "Instance",
            "InstanceType": instance_type,
            "InstanceCount": count,
            "AvailabilityZone": f"{self._hooks.region()}a",
            "DurationHours": hours,
            "StartTime": time.time() + 3600,
            "EndTime": time.time() + 3600 * (1 + hours),
        }
        offering = {
            "TrainingPlanOfferingId": f"tpo-{instance_type.replace('.', '-')}-{count}-{hours}",
            "TargetResources": data.get("TargetResources", ["hyperpod-cluster"]),
            "DurationHours": hours,
            "UpfrontFee": "0.00",
            "CurrencyCode": "USD",
            "ReservedCapacityOfferings": [reserved],
        }
        return {"TrainingPlanOfferings": [offering]}

    def DescribeTrainingPlan(self, data: Json) -> Json:
        """Answer what an offering's plan would be, by its name or ARN."""
        name = data["TrainingPlanName"].rsplit("/", 1)[-1]
        groups = [
            (c, g)
            for c in self._clusters.values()
            for g in c["_groups"].values()
            if g.get("TrainingPlanArn", "").rsplit("/", 1)[-1] == name
        ]
        if not groups:
            raise ServiceError("ResourceNotFound", f"Training plan {name} not found")
        arn = self._hooks.arn("sagemaker", f"training-plan/{name}")
        return {
            "TrainingPlanArn": arn,
            "TrainingPlanName": name,
            "Status": "Active",
            "InUseInstanceCount": sum(len(self._of_group(c, g)) for c, g in groups),
            "TargetResources": ["hyperpod-cluster"],
        }

    def AddTags(self, data: Json) -> Json:
        """Add tags to a cluster."""
        tags = self._tags.setdefault(self._taggable(data["ResourceArn"]), {})
        tags.update(tag_map(data["Tags"]))
        return {"Tags": tag_list(tags)}

    def DeleteTags(self, data: Json) -> Json:
        """Remove tags from a cluster."""
        tags = self._tags.get(self._taggable(data["ResourceArn"])) or {}
        for key in data["TagKeys"]:
            tags.pop(key, None)
        return {}

    def ListTags(self, data: Json) -> Json:
        """Answer the tags of a cluster."""
        return {"Tags": tag_list(self._tags.get(self._taggable(data["ResourceArn"])) or {})}

    # -- for the rest of the emulator ---------------------------------------------------------------------------

    def find(self, name_or_arn: str) -> Json:
        """Return the record of a cluster, advanced to now; `ResourceNotFound` without one."""
        for cluster in self._clusters.values():
            if name_or_arn in (cluster["ClusterName"], cluster["ClusterArn"]):
                self._advance(cluster, self._context.now())
                if cluster["ClusterName"] in self._clusters:
                    found: Json = cluster
                    return found
        raise ServiceError("ResourceNotFound", f"Cluster {name_or_arn} not found")

    def exists(self, name_or_arn: str) -> bool:
        """Say whether a cluster is there, in whatever state."""
        try:
            self.find(name_or_arn)
        except ServiceError:
            return False
        return True

    def tags_of(self, arn: str) -> dict[str, str]:
        """Return the tags of a cluster."""
        return dict(self._tags.get(arn) or {})

    def template_view(self, name_or_arn: str) -> Json:
        """Return a cluster's properties as CloudFormation writes them, for drift detection."""
        cluster = self.find(name_or_arn)
        return {**_public(cluster), "InstanceGroups": [dict(g) for g in cluster["_groups"].values()]}

    def fail_node(self, node_id: str, message: str) -> Json:
        """Make a node faulty, as the health-monitoring agent would; with automatic recovery it is replaced later."""
        for cluster in self._clusters.values():
            for node in cluster["_nodes"]:
                if node_id in (node["InstanceId"], node["NodeLogicalId"]):
                    self._fail(cluster, node, message)
                    return {"ClusterName": cluster["ClusterName"], "InstanceId": node["InstanceId"]}
        raise ServiceError("ResourceNotFound", f"no cluster has a node {node_id}", 404)

    def place(self, instance_id: str) -> tuple[str, str, list[str]]:
        """Execution role, subnet and security groups of an instance; `ResourceNotFound` where there is none."""
        for cluster in self._clusters.values():
            for node in cluster["_nodes"]:
                if node["InstanceId"] == instance_id:
                    interface = self._hooks.ec2._network_interfaces.get(node["_eni"], {})
                    groups = [group["GroupId"] for group in interface.get("Groups", [])]
                    return node["_role"], interface.get("SubnetId", ""), groups
        raise ServiceError("ResourceNotFound", f"Instance {instance_id} not found")

    def inventory(self) -> list[Json]:
        """Return what exists now."""
        return [
            {"type": "AWS::SageMaker::Cluster", "id": c["ClusterArn"], "state": c["ClusterStatus"]}
            for c in self._clusters.values()
        ]

    # -- the state machine --------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        for cluster in self._clusters.all_values():
            with self._hooks.responses.request_scope(*cluster["_scope"]):
                self._advance(cluster, now)

    def _advance(self, cluster: Json, now: float) -> None:
        for node in list(cluster["_nodes"]):
            self._advance_node(cluster, node, now)
        if cluster["ClusterStatus"] == "Deleting" and now >= cluster["_ready_at"]:
            for node in cluster["_nodes"]:
                self._network.delete_interface(node["_eni"])
            self._clusters.pop(cluster["ClusterName"], None)
            self._tags.pop(cluster["ClusterArn"], None)
            return
        self._reconcile(cluster)
        if cluster["ClusterStatus"] in ("Creating", "Updating", "SystemUpdating") and now >= cluster["_ready_at"]:
            self._settle(cluster)

    def _settle(self, cluster: Json) -> None:
        """InService once nothing is under way; with Continuous provisioning nodes may still be coming."""
        denied = str(cluster.pop("_denied", ""))
        short = denied or self._short_of_capacity(cluster)
        if denied or cluster.get("NodeProvisioningMode") != "Continuous":
            if short:
                cluster["FailureMessage"] = short
                cluster["ClusterStatus"] = "Failed"
                self._event(cluster, "Cluster operation failed", level="Error", failure=short)
                return
            if any(n["_status"] not in ("Running", "Failure") for n in cluster["_nodes"]):
                return
        cluster["ClusterStatus"] = "InService"
        self._event(cluster, f"Cluster {cluster['ClusterName']} is InService")

    def _short_of_capacity(self, cluster: Json) -> str:
        for group in cluster["_groups"].values():
            missing = group["InstanceCount"] - len(self._of_group(cluster, group))
            if missing > 0:
                return (
                    f"We currently do not have sufficient {rules.instance_type(group)} capacity for instance group "
                    f"{group['InstanceGroupName']}: {missing} of {group['InstanceCount']} instances are missing"
                )
        return ""

    def _reconcile(self, cluster: Json) -> None:
        """Launch and shut down nodes until each group has as many as it asks for."""
        if cluster["ClusterStatus"] in ("Deleting", "Failed"):
            return
        for node in cluster["_nodes"]:
            if node["InstanceGroupName"] not in cluster["_groups"]:
                self._shut_down(node)
        for group in cluster["_groups"].values():
            nodes = self._of_group(cluster, group)
            name = group["InstanceGroupName"]
            short = len(nodes) < group["InstanceCount"]
            denied = self._denied(cluster, group) if short else ""
            if denied:
                self._denied_event(cluster, group, denied)
                continue
            if short and self._context.faults.active("hyperpod", name, effect="no-capacity"):
                self._no_capacity_event(cluster, group)
                continue
            if name in cluster.get("_short", []):
                cluster["_short"].remove(name)  # the next shortage is another one
            for _ in range(group["InstanceCount"] - len(nodes)):
                self._launch(cluster, group)
            # the service removes the newest first
            for node in sorted(nodes, key=lambda n: n["LaunchTime"])[group["InstanceCount"] :]:
                self._shut_down(node)

    def _denied_event(self, cluster: Json, group: Json, reason: str) -> None:
        if cluster.get("_denied") != reason:
            cluster["_denied"] = reason
            name = group["InstanceGroupName"]
            message = f"Instance group {name} could not be scaled"
            self._event(cluster, message, group=name, level="Error", failure=reason)

    def _no_capacity_event(self, cluster: Json, group: Json) -> None:
        name = group["InstanceGroupName"]
        told = cluster.setdefault("_short", [])
        if name in told:  # once a shortage, however often the group is looked at
            return
        told.append(name)
        self._event(
            cluster,
            f"Instance group {name} could not be scaled",
            group=name,
            level="Error",
            failure=self._short_of_capacity(cluster),
        )

    def _of_group(self, cluster: Json, group: Json) -> list[Json]:
        name = group["InstanceGroupName"]
        return [n for n in cluster["_nodes"] if n["InstanceGroupName"] == name and n["_status"] != "ShuttingDown"]

    def _launch(self, cluster: Json, group: Json, logical_id: str = "") -> Json:
        instance_id = hex_id("i-")
        vpc = group.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}
        eni, address, placement = self._network.create_interface(
            vpc.get("Subnets", []), vpc.get("SecurityGroupIds", []), f"SageMaker HyperPod {instance_id}"
        )
        node: Json = {
            "InstanceGroupName": group["InstanceGroupName"],
            "InstanceId": instance_id,
            "NodeLogicalId": logical_id or f"{group['InstanceGroupName']}-{word(8)}",
            "InstanceType": rules.instance_type(group),
            "LaunchTime": time.time(),
            "PrivatePrimaryIp": address,
            "PrivateDnsHostname": f"ip-{address.replace('.', '-')}.{self._hooks.region()}.compute.internal",
            "_status": "Pending",
            "_message": "",
            "_role": group.get("ExecutionRole", ""),
            "_eni": eni,
            "_placement": placement,
            "_image": group.get("ImageReleaseVersion") or IMAGE_RELEASES[0],
            "_next": [(self._context.later(), "Running")],
        }
        if group.get("OnStartDeepHealthChecks"):
            node["_next"] = [
                (self._context.later(), "DeepHealthCheckInProgress"),
                (self._context.later(1 + DEEP_CHECK_STATES), "Running"),
            ]
        cluster["_nodes"].append(node)
        self._node_event(cluster, node, f"Instance {instance_id} is being launched")
        return node

    def _advance_node(self, cluster: Json, node: Json, now: float) -> None:
        while node["_next"] and now >= node["_next"][0][0]:
            status = node["_next"].pop(0)[1]
            if status == "gone":
                self._network.delete_interface(node["_eni"])
                cluster["_nodes"].remove(node)
                self._node_event(cluster, node, f"Instance {node['InstanceId']} was removed")
            elif status == "replace":
                self._replace(cluster, node)
            else:
                node.update(_status=status, _message="")
                self._node_event(cluster, node, f"Instance {node['InstanceId']} is {status}")

    def _shut_down(self, node: Json) -> None:
        if node["_status"] != "ShuttingDown":
            node.update(_status="ShuttingDown", _next=[(self._context.later(), "gone")])

    def _replace(self, cluster: Json, node: Json) -> None:
        self._shut_down(node)
        group = cluster["_groups"].get(node["InstanceGroupName"])
        if group and not self._context.faults.active("hyperpod", group["InstanceGroupName"], effect="no-capacity"):
            self._launch(cluster, group, logical_id=node["NodeLogicalId"])

    def _deep_check(self, cluster: Json, node: Json) -> None:
        done = self._context.later(DEEP_CHECK_STATES)
        node.update(_status="DeepHealthCheckInProgress", _next=[(done, "Running")])
        self._node_event(cluster, node, f"Deep health checks started on instance {node['InstanceId']}")

    def _fail(self, cluster: Json, node: Json, message: str) -> None:
        recovers = cluster.get("NodeRecovery") == "Automatic" and rules.Where().accelerated(node["InstanceType"])
        node.update(_status="Failure", _message=message, _next=[])
        if recovers:  # the service replaces accelerated nodes only
            node["_next"] = [(self._context.later(2), "replace")]
        self._node_event(cluster, node, f"Instance {node['InstanceId']} is unhealthy", level="Error", failure=message)

    def _batch(self, data: Json, what: str, act: Any, code: str = "InstanceIdNotFound") -> Json:
        cluster = self.find(data["ClusterName"])
        answer: Json = {}
        for member, prefix in (("NodeIds", ""), ("NodeLogicalIds", "NodeLogicalIds")):
            done: list[str] = []
            failed: list[Json] = []
            for node_id in data.get(member, []):
                try:
                    node = self._node(cluster, node_id)
                except ServiceError as error:
                    failed.append({"NodeId": node_id, "ErrorCode": code, "Message": error.message})
                    continue
                if node["_status"] == "ShuttingDown":
                    invalid = "InvalidInstanceStatus" if code == "InstanceIdNotFound" else "InvalidNodeStatus"
                    message = f"Instance {node_id} is {node['_status']}"
                    failed.append({"NodeId": node_id, "ErrorCode": invalid, "Message": message})
                    continue
                act(cluster, node)
                self._node_event(cluster, node, f"Instance {node_id}: {what} requested")
                done.append(node_id)
            if prefix:
                renamed = [{"NodeLogicalId": f.pop("NodeId"), **f} for f in failed]
                answer |= {f"Successful{prefix}": done} if done else {}
                answer |= {f"Failed{prefix}": renamed} if renamed else {}
            else:
                answer |= {"Successful": done} if done else {}
                answer |= {"Failed": failed} if failed else {}
        return answer

    # -- helpers ------------------------------------------------------------------------------------------------

    def _begin(self, cluster: Json, status: str, description: str) -> None:
        cluster.update(ClusterStatus=status, _ready_at=self._context.later())
        self._event(cluster, description)

    def _node(self, cluster: Json, node_id: str) -> Json:
        for node in cluster["_nodes"]:
            if node_id in (node["InstanceId"], node["NodeLogicalId"]):
                found: Json = node
                return found
        raise ServiceError("ResourceNotFound", f"Node {node_id} not found in cluster {cluster['ClusterName']}")

    def _in_status(self, cluster: Json, operation: str, *allowed: str) -> None:
        if cluster["ClusterStatus"] not in allowed:
            raise ServiceError(
                "ConflictException",
                f"{operation}: cluster {cluster['ClusterName']} is {cluster['ClusterStatus']}, "
                f"allowed in {', '.join(allowed)}",
            )

    def _judge(self, data: Json) -> None:
        refuse(rules.create_cluster(data, rules.Where(region=self._hooks.region(), account=self._hooks.account())))

    def _check_references(self, data: Json) -> None:
        eks = data.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
        cluster = next((c for c in self._hooks.eks._clusters.values() if c["arn"] == eks), None)
        if eks and cluster is None:
            raise ServiceError("ValidationException", f"EKS cluster {eks} does not exist")
        if cluster is not None:
            refuse(rules.orchestrator_version(str(cluster["version"])))
            refuse(eks_rules.orchestrator(cluster))
        overrides = (g.get("OverrideVpcConfig", {}) for g in data.get("InstanceGroups", []))
        for vpc in [data.get("VpcConfig", {}), *overrides]:
            self._network.check(vpc.get("Subnets", []), vpc.get("SecurityGroupIds", []))
        self._check_roles(data)

    def _check_roles(self, data: Json) -> None:
        for group in data.get("InstanceGroups", []):
            role = group["ExecutionRole"]
            source = self._hooks.arn("sagemaker", "cluster/new")
            if not self._roles.trusts(role, service="sagemaker.amazonaws.com", source=source):
                raise ServiceError(
                    "ValidationException",
                    f"Could not assume role {role}. Please ensure that the role exists and allows principal "
                    "'sagemaker.amazonaws.com' to assume the role.",
                )

    def _denied(self, cluster: Json, group: Json) -> str:
        """Why an instance of a group cannot start with its role: network interface, lifecycle script; or nothing."""
        role, session = group["ExecutionRole"], "SageMaker"
        uri = str(group.get("LifeCycleConfig", {}).get("SourceS3Uri", ""))
        script = uri.removeprefix("s3://") if uri.startswith("s3://") else ""
        bucket, _, prefix = script.partition("/")
        asked: list[tuple[str, str, Json]] = []
        if script:
            key = "/".join(filter(None, (prefix.strip("/"), group["LifeCycleConfig"].get("OnCreate", ""))))
            asked = [
                ("s3:ListBucket", f"arn:aws:s3:::{bucket}", {}),
                ("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", {}),
            ]
        vpc = group.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}
        for subnet in vpc.get("Subnets", []):
            place = self._hooks.ec2._subnets.get(subnet, {}).get("VpcId", "")
            keys = {"ec2:Vpc": self._hooks.arn("ec2", f"vpc/{place}")}
            members = [
                f"subnet/{subnet}",
                "network-interface/*",
                *(f"security-group/{g}" for g in vpc["SecurityGroupIds"]),
            ]
            asked += [("ec2:CreateNetworkInterface", self._hooks.arn("ec2", member), keys) for member in members]
        refused = (self._roles.refusal(role, action, arn, session=session, keys=keys) for action, arn, keys in asked)
        return next(filter(None, refused), "")

    def _describe_group(self, cluster: Json, group: Json) -> Json:
        nodes = self._of_group(cluster, group)
        running = [n for n in nodes if n["_status"] in ("Running", "DeepHealthCheckInProgress", "SystemUpdating")]
        renamed = ("InstanceCount", "MinInstanceCount", "KubernetesConfig", "InstanceRequirements", "ImageId",
                   "AutoPatchConfig", "ImageReleaseVersion")  # fmt: skip
        detail: Json = {"ThreadsPerCore": 1, **{k: v for k, v in group.items() if k not in renamed}}
        status = {"Creating": "Creating", "Updating": "Updating", "SystemUpdating": "SystemUpdating",
                  "Deleting": "Deleting", "Failed": "Failed"}.get(cluster["ClusterStatus"], "InService")  # fmt: skip
        if status == "InService" and any(n["_status"] == "Failure" for n in nodes):
            status = "Degraded"
        release = group.get("ImageReleaseVersion") or IMAGE_RELEASES[0]
        detail |= {
            "TargetCount": group["InstanceCount"],
            "TargetStateCount": group["InstanceCount"],
            "CurrentCount": len(running),
            "Status": status,
            "CurrentImageReleaseVersion": nodes[0]["_image"] if nodes else release,
            "DesiredImageReleaseVersion": release,
        }
        if "MinInstanceCount" in group:
            detail["MinCount"] = group["MinInstanceCount"]
        kubernetes = group.get("KubernetesConfig", {})
        if kubernetes:
            detail["KubernetesConfig"] = {
                f"{when}{name}": kubernetes[name]
                for when in ("Current", "Desired")
                for name in ("Labels", "Taints")
                if name in kubernetes
            }
        if "InstanceRequirements" in group:
            types = group["InstanceRequirements"]["InstanceTypes"]
            detail["InstanceRequirements"] = {"CurrentInstanceTypes": types, "DesiredInstanceTypes": types}
        return detail

    def _taggable(self, arn: str) -> str:
        if arn not in self._tags and not any(c["ClusterArn"] == arn for c in self._clusters.values()):
            raise ServiceError("ResourceNotFound", f"{arn} not found")
        return arn

    def _node_event(self, cluster: Json, node: Json, description: str, **more: str) -> None:
        self._event(cluster, description, group=node["InstanceGroupName"], instance=node["InstanceId"], **more)

    def _event(
        self,
        cluster: Json,
        description: str,
        *,
        group: str = "",
        instance: str = "",
        level: str = "Info",
        failure: str = "",
    ) -> None:
        event: Json = {
            "EventId": str(uuid.uuid4()),  # the model demands this form
            "ClusterArn": cluster["ClusterArn"],
            "ClusterName": cluster["ClusterName"],
            "ResourceType": "Instance" if instance else "InstanceGroup" if group else "Cluster",
            "EventTime": time.time(),
            "Description": description,
            "EventLevel": level,
            "_failure": failure,
        }
        event |= {"InstanceGroupName": group} if group else {}
        event |= {"InstanceId": instance} if instance else {}
        cluster["_events"].append(event)


def _public(cluster: Json) -> Json:
    return {k: v for k, v in cluster.items() if not k.startswith("_")}


def _plans(cluster: Json) -> list[str]:
    return sorted({g["TrainingPlanArn"] for g in cluster["_groups"].values() if "TrainingPlanArn" in g})


def _within(moment: float, after: Any, before: Any) -> bool:
    return (after is None or moment >= _epoch(after)) and (before is None or moment <= _epoch(before))


def _epoch(value: Any) -> float:
    return float(value)


def _page(items: list[Json], data: Json) -> tuple[list[Json], Json]:
    """Return one page; the token is the position of the next one."""
    token = data.get("NextToken") or "0"
    if not token.isdigit():
        raise ServiceError("ValidationException", f"NextToken {token} is not valid")
    start, size = int(token), int(data.get("MaxResults", 100))
    more = start + size < len(items)
    return items[start : start + size], {"NextToken": str(start + size)} if more else {}

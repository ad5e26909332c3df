"""The clusters of every account and region, and the states that they and their nodes pass."""

from __future__ import annotations

import json
import time
from typing import Any

from hyperpod_ray_rules import hyperpod as rules
from hyperpod_ray_sandbox.aws.emulator.context import Context, hex_id, word
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import event, health, node_event, of_group, state_change
from hyperpod_ray_sandbox.aws.emulator.network import Network
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]

IMAGE_RELEASES = ("1.0.0", "1.1.0")
DEEP_CHECK_STATES = 2.0  # a deep health check takes this many states: it is the long one in reality too


class Clusters:
    """Every record, and what time does to it."""

    def __init__(self, context: Context, network: Network, roles: Roles) -> None:
        self._context = context
        self._roles = roles
        self._hooks = context.hooks
        self._network = network
        self.records: Any = context.hooks.scoped_dict()
        self.tags: Any = context.hooks.scoped_dict()
        context.tickers.append(self._tick)

    def find(self, name_or_arn: str) -> Json:
        """Return the record of a cluster, advanced to now; `ResourceNotFound` without one."""
        for cluster in self.records.values():
            if name_or_arn in (cluster["ClusterName"], cluster["ClusterArn"]):
                self.advance(cluster, self._context.now())
                if cluster["ClusterName"] in self.records:
                    record: Json = cluster
                    return record
        raise ServiceError("ResourceNotFound", f"Cluster {name_or_arn} not found")

    def exists(self, name_or_arn: str) -> bool:
        """Say whether a cluster is there, in whatever state."""
        try:
            self.find(name_or_arn)
        except ServiceError:
            return False
        return True

    def begin(self, cluster: Json, status: str, description: str) -> None:
        """Put a cluster into a state that passes."""
        cluster.update(ClusterStatus=status, _ready_at=self._context.later())
        event(cluster, description)
        state_change(cluster)

    def in_status(self, cluster: Json, operation: str, *allowed: str) -> None:
        """Refuse an operation in a state of the cluster that does not allow it."""
        if cluster["ClusterStatus"] not in allowed:
            raise ServiceError(
                "ConflictException",
                f"{operation}: cluster {cluster['ClusterName']} is {cluster['ClusterStatus']}, "
                f"allowed in {', '.join(allowed)}",
            )

    # -- time ---------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        for cluster in self.records.all_values():
            with self._hooks.responses.request_scope(*cluster["_scope"]):
                self.advance(cluster, now)

    def advance(self, cluster: Json, now: float) -> None:
        """Bring a cluster and its nodes to the states of this time, and EventBridge what happened on the way."""
        self._advance(cluster, now)
        self.deliver(cluster)

    def deliver(self, cluster: Json) -> None:
        """Hand the outbox to EventBridge: its rules match, transform and notify as for any event."""
        sent, cluster["_outbox"] = cluster.get("_outbox", []), []
        for detail_type, detail in sent:
            notification = {
                "Source": "aws.sagemaker",
                "DetailType": detail_type,
                "Detail": json.dumps(detail),
                "Resources": [cluster["ClusterArn"]],
            }
            self._hooks.eventbridge._put_events({"Entries": [notification]}, True)

    def _advance(self, cluster: Json, now: float) -> None:
        for node in list(cluster["_nodes"]):
            self._advance_node(cluster, node, now)
        if cluster["ClusterStatus"] == "Deleting" and now >= cluster["_ready_at"]:
            for node in cluster["_nodes"]:
                self._network.delete_interface(node["_eni"])
            self.records.pop(cluster["ClusterName"], None)
            self.tags.pop(cluster["ClusterArn"], None)
            return
        self.reconcile(cluster)
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
                event(cluster, "Cluster operation failed", level="Error", failure=short)
                state_change(cluster)
                return
            if any(n["_status"] not in ("Running", "Failure") for n in cluster["_nodes"]):
                return
        cluster["ClusterStatus"] = "InService"
        event(cluster, f"Cluster {cluster['ClusterName']} is InService")
        state_change(cluster)

    def _short_of_capacity(self, cluster: Json) -> str:
        for group in cluster["_groups"].values():
            missing = group["InstanceCount"] - len(of_group(cluster, group))
            if missing > 0:
                types = " or ".join(rules.instance_types(group))
                return (
                    f"We currently do not have sufficient {types} capacity for instance group "
                    f"{group['InstanceGroupName']}: {missing} of {group['InstanceCount']} instances are missing"
                )
        return ""

    def reconcile(self, cluster: Json) -> None:
        """Launch and shut down nodes until each group has as many as it asks for."""
        if cluster["ClusterStatus"] in ("Deleting", "Failed"):
            return
        for node in cluster["_nodes"]:
            if node["InstanceGroupName"] not in cluster["_groups"]:
                self.shut_down(node)
        for group in cluster["_groups"].values():
            nodes = of_group(cluster, group)
            name = group["InstanceGroupName"]
            if name in cluster.get("_still", []):
                continue
            short = len(nodes) < group["InstanceCount"]
            denied = self._denied(cluster, group) if short else ""
            if denied:
                self._denied_event(cluster, group, denied)
                continue
            if short and not self._with_capacity(group):
                self._no_capacity_event(cluster, group)
                continue
            if name in cluster.get("_short", []):
                cluster["_short"].remove(name)  # the next shortage is another one
            for _ in range(group["InstanceCount"] - len(nodes)):
                self.launch(cluster, group)
            # the service removes the newest first
            for node in sorted(nodes, key=lambda n: n["LaunchTime"])[group["InstanceCount"] :]:
                self.shut_down(node)

    def _denied_event(self, cluster: Json, group: Json, reason: str) -> None:
        if cluster.get("_denied") != reason:
            cluster["_denied"] = reason
            name = group["InstanceGroupName"]
            message = f"Instance group {name} could not be scaled"
            event(cluster, message, group=name, level="Error", failure=reason)

    def _with_capacity(self, group: Json) -> str:
        """The first of a group's types that there is capacity for; empty where there is none.

        A fault takes the capacity of a group (`hyperpod.workers`), or of a type (`hyperpod.ml.p5.48xlarge`).
        """
        faults = self._context.faults
        if faults.active("hyperpod", group["InstanceGroupName"], effect="no-capacity"):
            return ""
        types = rules.instance_types(group)
        return next((name for name in types if not faults.active("hyperpod", name, effect="no-capacity")), "")

    def _no_capacity_event(self, cluster: Json, group: Json) -> None:
        name = group["InstanceGroupName"]
        announced = cluster.setdefault("_short", [])
        if name in announced:  # once a shortage, however often the group is looked at
            return
        announced.append(name)
        event(
            cluster,
            f"Instance group {name} could not be scaled",
            group=name,
            level="Error",
            failure=self._short_of_capacity(cluster),
        )

    # -- nodes --------------------------------------------------------------------------------------------------

    def launch(self, cluster: Json, group: Json, logical_id: str = "") -> Json:
        """Start one instance of a group; a logical id names the instance that it replaces."""
        instance_id = hex_id("i-")
        vpc = group.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}
        eni, address, placement = self._network.create_interface(
            vpc.get("Subnets", []), vpc.get("SecurityGroupIds", []), f"SageMaker HyperPod {instance_id}"
        )
        node: Json = {
            "InstanceGroupName": group["InstanceGroupName"],
            "InstanceId": instance_id,
            "NodeLogicalId": logical_id or f"{group['InstanceGroupName']}-{word(8)}",
            "InstanceType": self._with_capacity(group) or rules.instance_type(group),
            "LaunchTime": time.time(),
            "PrivatePrimaryIp": address,
            "PrivateDnsHostname": f"ip-{address.replace('.', '-')}.{self._hooks.region()}.compute.internal",
            "_status": "Pending",
            "_message": "",
            "_role": group.get("ExecutionRole", ""),
            "_eni": eni,
            "_placement": placement,
            "_image": group.get("ImageReleaseVersion") or IMAGE_RELEASES[0],
            "_ami": group.get("ImageId", ""),
            "_next": [(self._context.later(), "Running")],
        }
        if group.get("OnStartDeepHealthChecks"):
            node["_next"] = [
                (self._context.later(), "DeepHealthCheckInProgress"),
                (self._context.later(1 + DEEP_CHECK_STATES), "Running"),
            ]
        cluster["_nodes"].append(node)
        node_event(cluster, node, f"Instance {instance_id} is being launched")
        return node

    def _advance_node(self, cluster: Json, node: Json, now: float) -> None:
        while node["_next"] and now >= node["_next"][0][0]:
            status = node["_next"].pop(0)[1]
            if status == "gone":
                self._network.delete_interface(node["_eni"])
                cluster["_nodes"].remove(node)
                node_event(cluster, node, f"Instance {node['InstanceId']} was removed")
            elif status == "replace":
                self.replace(cluster, node)
            else:
                node.update(_status=status, _message="")
                node_event(cluster, node, f"Instance {node['InstanceId']} is {status}")
                if status == "Running" and node.pop("_unhealthy", False):
                    health(cluster, node, "Healthy", "no fault is detected any longer")

    def shut_down(self, node: Json) -> None:
        """Let an instance go away."""
        if node["_status"] != "ShuttingDown":
            node.update(_status="ShuttingDown", _next=[(self._context.later(), "gone")])

    def replace(self, cluster: Json, node: Json) -> None:
        """Let an instance go away, and another one come where there is capacity."""
        self.shut_down(node)
        group = cluster["_groups"].get(node["InstanceGroupName"])
        if group and self._with_capacity(group):
            self.launch(cluster, group, logical_id=node["NodeLogicalId"])

    def deep_check(self, cluster: Json, node: Json) -> None:
        """Begin the deep health checks of an instance."""
        done = self._context.later(DEEP_CHECK_STATES)
        node.update(_status="DeepHealthCheckInProgress", _next=[(done, "Running")])
        node_event(cluster, node, f"Deep health checks started on instance {node['InstanceId']}")

    def fail(self, cluster: Json, node: Json, message: str) -> None:
        """Make an instance unhealthy; with automatic recovery an accelerated one is replaced."""
        recovers = cluster.get("NodeRecovery") == "Automatic" and rules.Where().accelerated(node["InstanceType"])
        node.update(_status="Failure", _message=message, _next=[], _unhealthy=True)
        if recovers:  # the service replaces accelerated nodes only
            node["_next"] = [(self._context.later(2), "replace")]
        node_event(cluster, node, f"Instance {node['InstanceId']} is unhealthy", level="Error", failure=message)
        health(cluster, node, "Unhealthy", message, repair="Replace" if recovers else "None")

    def _denied(self, cluster: Json, group: Json) -> str:
        """Why an instance of a group cannot start with its role: network interface, lifecycle script; or nothing."""
        role, session = group["ExecutionRole"], "SageMaker"
        scripts = group.get("LifeCycleConfig", {})
        uri = str(scripts.get("SourceS3Uri", ""))
        script = uri.removeprefix("s3://") if uri.startswith("s3://") else ""
        bucket, _, prefix = script.partition("/")
        permissions: list[tuple[str, str, Json]] = []
        if script:
            key = "/".join(
                filter(None, (prefix.strip("/"), scripts.get("OnCreate") or scripts.get("OnInitComplete", "")))
            )
            permissions = [
                ("s3:ListBucket", f"arn:aws:s3:::{bucket}", {}),
                ("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", {}),
            ]
        vpc = group.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {}
        for subnet in vpc.get("Subnets", []):
            vpc_id = self._hooks.ec2._subnets.get(subnet, {}).get("VpcId", "")
            keys = {"ec2:Vpc": self._hooks.arn("ec2", f"vpc/{vpc_id}")}
            members = [
                f"subnet/{subnet}",
                "network-interface/*",
                *(f"security-group/{g}" for g in vpc["SecurityGroupIds"]),
            ]
            permissions += [("ec2:CreateNetworkInterface", self._hooks.arn("ec2", member), keys) for member in members]
        refused = (
            self._roles.refusal(role, action, arn, session=session, keys=keys) for action, arn, keys in permissions
        )
        return next(filter(None, refused), "")

"""SageMaker HyperPod: clusters, nodes and events that move through their states, validated by botocore's model.

Sources: the API reference of the operations, and the user guide's pages "sagemaker-hyperpod-eks-…".
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.events import EventOperations
from hyperpod_ray_sandbox.aws.emulator.hyperpod.governance import GovernanceOperations
from hyperpod_ray_sandbox.aws.emulator.hyperpod.mounts import Mounts
from hyperpod_ray_sandbox.aws.emulator.hyperpod.nodes import NodeOperations
from hyperpod_ray_sandbox.aws.emulator.hyperpod.operations import ClusterOperations
from hyperpod_ray_sandbox.aws.emulator.hyperpod.plans import PlanOperations
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import public
from hyperpod_ray_sandbox.aws.emulator.hyperpod.states import States
from hyperpod_ray_sandbox.aws.emulator.mlflow import MlflowOperations
from hyperpod_ray_sandbox.aws.emulator.network import Network
from hyperpod_ray_sandbox.aws.emulator.roles import Roles

Json = dict[str, Any]


class SageMaker:
    """The HyperPod part of the SageMaker API, and what the rest of the emulator asks of it."""

    botocore_name = "sagemaker"

    def __init__(self, context: Context, network: Network, roles: Roles, mounts: Mounts) -> None:
        self._hooks = context.hooks
        self._clusters = Clusters(context, network, roles)
        self._governance = GovernanceOperations(context, self._clusters)
        self._states = States(self._clusters)
        self._mlflow = MlflowOperations(context, roles, self._clusters.tags)
        self.parts = (
            ClusterOperations(context, network, roles, self._clusters, mounts),
            NodeOperations(context, self._clusters),
            EventOperations(self._clusters),
            PlanOperations(context, self._clusters),
            self._governance,
            self._mlflow,
        )

    def resource(self, data: Json) -> str:
        """The ARN that a policy must allow: the cluster's or the app's, where the call is about one."""
        app = data.get("Arn")
        if isinstance(app, str) and ":mlflow-app/" in app:
            return app
        name = data.get("ClusterName")
        if not isinstance(name, str):
            return "*"
        if name.startswith("arn:"):
            return name
        record = self._clusters.records.get(name)
        return str(record["ClusterArn"]) if record else self._hooks.arn("sagemaker", f"cluster/{name}")

    def find(self, name_or_arn: str) -> Json:
        """Return the record of a cluster, advanced to now; `ResourceNotFound` without one."""
        return self._clusters.find(name_or_arn)

    def exists(self, name_or_arn: str) -> bool:
        """Say whether a cluster is there, in whatever state."""
        return self._clusters.exists(name_or_arn)

    def template_view(self, name_or_arn: str) -> Json:
        """Return a cluster's properties as CloudFormation writes them, for drift detection."""
        cluster = self.find(name_or_arn)
        return {**public(cluster), "InstanceGroups": [dict(g) for g in cluster["_groups"].values()]}

    def fail_node(self, node_id: str, message: str) -> Json:
        """Make a node faulty, as the health-monitoring agent would; with automatic recovery it is replaced later."""
        for cluster in self._clusters.records.values():
            for node in cluster["_nodes"]:
                if node_id in (node["InstanceId"], node["NodeLogicalId"]):
                    self._clusters.fail(cluster, node, message)
                    return {"ClusterName": cluster["ClusterName"], "InstanceId": node["InstanceId"]}
        raise ServiceError("ResourceNotFound", f"no cluster has a node {node_id}", 404)

    def set_state(self, data: Json) -> Json:
        """Put a cluster, its groups and nodes into states that nothing here leads to; see `States`."""
        return self._states.set(data)

    def place(self, instance_id: str) -> tuple[str, str, list[str]]:
        """Execution role, subnet and security groups of an instance; `ResourceNotFound` where there is none."""
        for cluster in self._clusters.records.values():
            for node in cluster["_nodes"]:
                if node["InstanceId"] == instance_id:
                    interface = self._hooks.ec2._network_interfaces.get(node["_eni"], {})
                    groups = [group["GroupId"] for group in interface.get("Groups", [])]
                    return node["_role"], interface.get("SubnetId", ""), groups
        raise ServiceError("ResourceNotFound", f"Instance {instance_id} not found")

    def state(self) -> str:
        """Return all that is known of clusters now, and which versions their quotas and policies have, as one text."""
        for name in list(self._clusters.records):
            self.exists(name)  # advances it to now
        governed = [self._governance.ListComputeQuotas({}), self._governance.ListClusterSchedulerConfigs({})]
        return repr([*self._clusters.records.values(), *governed])

    def inventory(self) -> list[Json]:
        """Return what exists now."""
        clusters = [
            {"type": "AWS::SageMaker::Cluster", "id": c["ClusterArn"], "state": c["ClusterStatus"]}
            for c in self._clusters.records.values()
        ]
        return [*clusters, *self._governance.governance_inventory(), *self._mlflow.mlflow_inventory()]

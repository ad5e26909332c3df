"""Nodes of a HyperPod cluster, whatever orchestrates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Snapshot
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.orchestrators.node_repair import Verb
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.tunnel import session_target

SOURCES = ("HyperPod", "HyperPod events", "Kubernetes", "Slurm")
LOSES = {
    "reboot": "node name, address and disks stay; back in 1–10 min",
    "replace": "EBS and NVMe volumes are destroyed; {node}; 20–30 min, then the deep health checks where they are on. "
    f"{names.MOUNT_PATH} is not touched",
    "remove": "EBS and NVMe volumes are destroyed, and no instance comes in its place; a run with a worker there "
    f"resumes from its last checkpoint once other nodes have room for its workers. {names.MOUNT_PATH} is not touched",
}
"""What becomes of a node, with {node} for what starts in its place."""


class HyperPodNodes:
    """Nodes of one environment."""

    def __init__(self, target: AnyTarget) -> None:
        self.target = target

    def look(self) -> Snapshot:
        """HyperPod, and Kubernetes or Slurm; an error where HyperPod does not answer: then no node can be named."""
        hyperpod.require_cluster(self.target)
        seen = gather.snapshot(self.target, only=SOURCES)
        for source in seen.unseen:
            if source.source == "HyperPod":
                raise OpsError.outcome(source.why, fix=source.next or self.target.command("status"))
        return seen

    def find(self, name: str) -> Instance:
        """The instance that is meant by its ID, its name in Kubernetes or Slurm, or the beginning of the ID."""
        cluster = hyperpod.require_cluster(self.target)
        identifier = names.instance_id(name)
        listed = hyperpod.instances(self.target)
        exact = [instance for instance in listed if identifier in (instance.id, instance.host)]
        begun = [instance for instance in listed if instance.id.startswith(identifier) and len(identifier) > 3]
        fitting = exact or begun
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise OpsError(
                f"node: '{name}' fits {', '.join(instance.id for instance in fitting)}",
                expected="the id of one node",
                fix="give more of the id",
                code=BAD_USE,
            )
        raise OpsError(
            f"node: '{name}' is not in cluster '{cluster.name}'",
            expected="the id of a node",
            fix=f"hyperpod-ray nodes {self.target.name}",
            code=BAD_USE,
        )

    def details(self, instance: Instance) -> dict[str, Any]:
        """What DescribeClusterNode says."""
        name = self.target.plan.settings.hyperpod.cluster_name
        answer = self.target.aws.call("sagemaker", "describe_cluster_node", ClusterName=name, NodeId=instance.id)
        return {key: value for key, value in answer["NodeDetails"].items() if key != "LifeCycleConfig"}

    def events(self, *, node: str = "", group: str = "", limit: int) -> list[ClusterEvent]:
        """Events of the cluster, a group or a node, newest first, without failure messages."""
        cluster = hyperpod.require_cluster(self.target)
        filters: dict[str, Any] = {"NodeId": names.instance_id(node)} if node else {}
        if group:
            cluster_groups = [known.name for known in cluster.groups]
            if group not in cluster_groups:
                raise unknown_group(self.target, cluster_groups, group)
            filters["InstanceGroupName"] = group
        return list(hyperpod.events(self.target, limit=limit, **filters))

    def described(self, event: ClusterEvent) -> ClusterEvent:
        """An event with its failure message, by a call of its own."""
        return hyperpod.describe_event(self.target, event)

    def session(self, instance: Instance) -> str:
        """How Session Manager names the node."""
        cluster = hyperpod.require_cluster(self.target)
        return session_target(cluster.arn, group=instance.group, instance=instance.id)


def unknown_group(target: AnyTarget, groups: list[str], group: str) -> OpsError:
    """An error that names the groups there are."""
    return OpsError(
        f"group: '{group}' is not in cluster '{target.plan.settings.hyperpod.cluster_name}'",
        expected=f"one of {', '.join(groups)}",
        fix=f"hyperpod-ray nodes {target.name}",
        code=BAD_USE,
    )


def act_now(target: AnyTarget, instances: Sequence[Instance], *, verb: Verb) -> str:
    """Restart, replace or remove nodes by HyperPod's API, write those that it accepts, and return the next command.

    Raises:
        OpsError: It refused some of them.
    """
    arguments: dict[str, Any] = {
        "ClusterName": target.plan.settings.hyperpod.cluster_name,
        "NodeIds": [instance.id for instance in instances],
    }
    if verb == "reboot":
        answer = target.aws.call("sagemaker", "batch_reboot_cluster_nodes", **arguments)
    elif verb == "remove":
        answer = target.aws.call("sagemaker", "batch_delete_cluster_nodes", **arguments)
    else:
        answer = target.aws.call("sagemaker", "batch_replace_cluster_nodes", **arguments)
    for identifier in answer.get("Successful", []):
        output.write_line(identifier)
    if failed := answer.get("Failed", []):
        why = "; ".join(
            f"{node['NodeId']}: {node.get('ErrorCode') or node['Code']} {node['Message']}" for node in failed
        )
        raise OpsError(
            f"{verb} was refused: {why}",
            expected="HyperPod to accept every node",
            fix=f"hyperpod-ray nodes {target.name}",
        )
    return f"under way; hyperpod-ray wait {target.name} --for {instances[0].group}"

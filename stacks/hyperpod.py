"""The HyperPod cluster, and the first node that pods can run on."""

from __future__ import annotations

from typing import Any

from constructs import Construct
from hyperpod_ray.constructs.claims import ClaimWaiter
from hyperpod_ray.constructs.first_nodes import FirstNodes
from hyperpod_ray.constructs.hyperpod import EksOrchestrator, HyperPodCluster, InstanceGroup, Taint, UpdateSchedule
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.core import model
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.eks import EksStack


class HyperPodStack(EnvironmentStack):
    """The cluster: it takes longest, so it is alone here with the wait for the nodes that what follows needs."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, network: Network, control: EksStack) -> None:
        super().__init__(scope, construct_id, plan=plan, description="HyperPod cluster")
        settings = plan.settings.hyperpod
        self.hyperpod = cluster(
            self,
            plan,
            network=network,
            orchestrator=EksOrchestrator(cluster_arn=control.eks.cluster.cluster_arn),
            instance_groups=[
                instance_group(
                    plan,
                    group,
                    labels=group.labels,
                    taints=[Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in group.taints],
                )
                for group in plan.settings.hyperpod.instance_groups
            ],
            execution_role=control.execution.role,
            lifecycle_uri=control.scripts.source_s3_uri,
            lifecycle_script=control.scripts.script,
            managed_autoscaling=settings.managed_autoscaling,
            tiered_memory_percent=settings.tiered_storage.memory_percent if settings.tiered_storage else None,
        )
        head = plan.group(plan.settings.ray.head.instance_group)
        # A group that Karpenter scales has its first node when a pod asks for one. Deep health checks take longer than
        # the hour that CloudFormation gives a custom resource.
        if head.count and not plan.deep_health_checks(head):
            FirstNodes(
                self,
                "FirstNodes",
                cluster=self.hyperpod.cluster,
                instance_group=head.name,
                instance_type=head.type,
            )
        # created here, while the cluster is: its functions take minutes that nothing else waits for
        claimed = isinstance(plan.settings.storage, model.DynamicStorage)
        self.claim_waiter = ClaimWaiter(self, "ClaimWaiter") if claimed else None


def cluster(stack: EnvironmentStack, plan: CommonPlan, *, network: Network, **options: Any) -> HyperPodCluster:
    """The HyperPod cluster of either orchestrator, with its name and ARN in the outputs.

    Args:
        stack: Where it is.
        plan: The environment.
        network: Its subnets and security group.
        options: Arguments of `HyperPodCluster` that depend on the orchestrator.
    """
    settings = plan.settings.hyperpod
    construct = HyperPodCluster(
        stack,
        "HyperPod",
        cluster_name=settings.cluster_name,
        home_zone=plan.settings.network.availability_zone_ids[0],
        node_recovery=settings.node_recovery,
        node_provisioning_mode=settings.node_provisioning_mode,
        subnets=network.node_subnets,
        security_group=network.node_security_group,
        **options,
    )
    stack.output("ClusterName", settings.cluster_name, "HyperPod cluster")
    stack.output("ClusterArn", construct.cluster.attr_cluster_arn, "HyperPod cluster")
    return construct


def instance_group(plan: CommonPlan, group: model.NodeGroup, **options: Any) -> InstanceGroup:
    """A group of the file as the construct takes it; `options` depend on the orchestrator."""
    return InstanceGroup(
        name=group.name,
        type=group.type,
        fallback_types=group.types[1:],
        count=group.count,
        min_count=group.min_count,
        zone=plan.zone(group),
        deep_health_checks=plan.deep_health_checks(group),
        threads_per_core=group.threads_per_core,
        data_volume_gib=group.data_volume_gib,
        volume_kms_key_arn=group.volume_kms_key_arn,
        training_plan_arn=group.training_plan_arn,
        spot=group.capacity == "spot",
        image_release_version=group.image_release_version,
        image_id=group.image_id,
        network_interface=group.network_interface,
        update_schedule=_schedule(group.update_schedule) if group.update_schedule else None,
        auto_patch=group.auto_patch,
        **options,
    )


def _schedule(schedule: model.UpdateSchedule) -> UpdateSchedule:
    rolling = schedule.rolling
    return UpdateSchedule(
        cron=schedule.cron,
        maximum_batch=rolling.maximum_batch,
        batch_unit=rolling.batch_unit,
        wait_seconds=rolling.wait_seconds,
        rollback_alarm_names=rolling.rollback_alarm_names,
    )

"""The HyperPod cluster and what must be there before its first node."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_ecr as ecr

import k8s
from constructs import Construct
from core import needs
from core.plan import Plan
from hyperpod_ray.cluster import EksCluster
from hyperpod_ray.execution_role import ExecutionRole
from hyperpod_ray.health import HealthNotifications
from hyperpod_ray.hyperpod import HyperPodCluster
from hyperpod_ray.kubernetes import HelmRelease, Manifests
from hyperpod_ray.lifecycle import LifecycleScripts
from hyperpod_ray.network import ClusterNetwork
from stacks.base import EnvironmentStack
from stacks.bindings import chart_folder


class HyperPodStack(EnvironmentStack):
    """Dependencies chart, lifecycle scripts, execution role, then the cluster, then who is told of its health."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        network: ClusterNetwork,
        eks: EksCluster,
        repository: ecr.IRepository | None,
        project: Path,
    ) -> None:
        super().__init__(scope, construct_id, plan=plan, description="HyperPod cluster")
        release = k8s.hyperpod_dependencies(plan)
        chart = HelmRelease(
            self, "Dependencies", cluster=eks.cluster, release=release, chart=chart_folder(release), after=eks.addons
        )
        policies = Manifests(self, "Policies", cluster=eks.cluster, manifests=k8s.system_manifests(plan), after=[chart])
        scripts = LifecycleScripts(
            self, "Lifecycle", bucket_name=plan.lifecycle_bucket_name, folder=project / "lifecycle"
        )
        role = ExecutionRole(
            self,
            "Execution",
            cluster=eks.cluster,
            vpc_id=network.vpc.vpc_id,
            lifecycle=scripts.bucket,
            repository=repository,
            pull_from=needs.repositories(plan),
            caches=needs.cache_repositories(plan),
        )
        self.hyperpod = HyperPodCluster(
            self,
            "HyperPod",
            plan=plan,
            eks_cluster=eks.cluster,
            execution_role=role.role,
            lifecycle_uri=scripts.source_s3_uri,
            subnets=network.node_subnets,
            security_group=network.node_security_group,
            after=[chart, policies, scripts.upload, role],
        )
        arn, settings = self.hyperpod.cluster.attr_cluster_arn, plan.settings
        self.health = HealthNotifications(
            self,
            "Health",
            cluster_arn=arn,
            emails=settings.hyperpod.alarm_emails,
            event_retention_days=settings.hyperpod.event_retention_days,
            protected=settings.protected,
            eks_cluster_name=plan.eks_cluster_name,
            control_plane_logs=None if plan.existing_eks else plan.control_plane_log_group,
            namespaces=k8s.ray_namespaces(plan),
            nodes=sum(group.count for group in settings.hyperpod.instance_groups),
        )
        self.say("ClusterName", plan.settings.hyperpod.cluster_name, "HyperPod cluster")
        self.say("ClusterArn", arn, "HyperPod cluster")
        self.say("EventArchive", self.health.archive.log_group_name, "log group with every event of the cluster")

"""The HyperPod cluster itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from constructs import Construct

Cluster = sagemaker.CfnCluster


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A taint of a group's nodes; effect `NoSchedule`, `PreferNoSchedule` or `NoExecute`."""

    key: str
    value: str | None
    effect: str


@dataclass(frozen=True, kw_only=True)
class UpdateSchedule:
    """Scheduled software (AMI) updates of a group (`ScheduledUpdateConfig`).

    Args:
        cron: `cron(Minutes Hours Day-of-month Month Day-of-week Year)`, UTC.
        maximum_batch: Nodes taken at once, in `batch_unit`.
        batch_unit: `INSTANCE_COUNT` or `CAPACITY_PERCENTAGE`.
        wait_seconds: Pause between batches.
        rollback_alarm_names: CloudWatch alarms that roll the update back.
    """

    cron: str
    maximum_batch: int
    batch_unit: str
    wait_seconds: int
    rollback_alarm_names: Sequence[str] = ()


class Orchestrator(Protocol):
    """What gives the nodes their work."""

    @property
    def script_setting(self) -> str:
        """The argument of `ClusterLifeCycleConfigProperty` that names the lifecycle script."""

    def config(self) -> sagemaker.CfnCluster.OrchestratorProperty:
        """Member `Orchestrator` of the cluster."""


@dataclass(frozen=True, kw_only=True)
class EksOrchestrator:
    """EKS as the orchestrator, by the ARN of the EKS cluster."""

    cluster_arn: str
    script_setting = "on_create"

    def config(self) -> sagemaker.CfnCluster.OrchestratorProperty:
        """The EKS cluster."""
        return Cluster.OrchestratorProperty(
            eks=Cluster.ClusterOrchestratorEksConfigProperty(cluster_arn=self.cluster_arn)
        )


@dataclass(frozen=True, kw_only=True)
class SlurmOrchestrator:
    """Slurm as the orchestrator (`ClusterOrchestratorSlurmConfig`).

    Args:
        config_strategy: `Managed`, `Overwrite` or `Merge`.
        database_endpoint: Host name of an accounting database. None: it is on the controller.
        database_secret_arn: Secret with its user name and password.
        database_port: None: the service's default.
        database_name: None: the service's default.
    """

    config_strategy: str
    database_endpoint: str | None = None
    database_secret_arn: str | None = None
    database_port: int | None = None
    database_name: str | None = None
    script_setting = "on_init_complete"

    def config(self) -> sagemaker.CfnCluster.OrchestratorProperty:
        """Slurm's configuration, and its accounting database."""
        database = None
        if self.database_endpoint is not None and self.database_secret_arn is not None:
            database = Cluster.ClusterAccountingDatabaseProperty(
                endpoint=self.database_endpoint,
                secret_arn=self.database_secret_arn,
                port=self.database_port,
                name=self.database_name,
            )
        return Cluster.OrchestratorProperty(
            slurm=Cluster.ClusterOrchestratorSlurmConfigProperty(
                slurm_config_strategy=self.config_strategy, accounting_database=database
            )
        )


@dataclass(frozen=True, kw_only=True)
class LustreMount:
    """An FSx for Lustre file system that HyperPod mounts on each node (`FsxLustreConfig`)."""

    dns_name: str
    mount_name: str
    path: str


@dataclass(frozen=True, kw_only=True)
class OpenZfsMount:
    """An FSx for OpenZFS file system that HyperPod mounts on each node (`FsxOpenZfsConfig`)."""

    dns_name: str
    path: str


@dataclass(frozen=True, kw_only=True)
class InstanceGroup:
    """Nodes of one type with one purpose (`ClusterInstanceGroup`).

    Args:
        name: Renaming deletes the nodes and creates new ones.
        type: With its `ml.` prefix; a change deletes the nodes and creates new ones.
        fallback_types: Types that HyperPod takes where `type` has no capacity (`InstanceRequirements`).
        count: Nodes that you ask for.
        min_count: Nodes from which the group counts as created; for provisioning mode `Continuous`.
        zone: Availability zone ID.
        deep_health_checks: Checks that nodes pass before they take work.
        threads_per_core: 1 or 2.
        labels: Kubernetes labels of the nodes.
        taints: Kubernetes taints of the nodes.
        data_volume_gib: Additional EBS volume. None: none.
        volume_kms_key_arn: Key of the group's volumes. None: the service's.
        training_plan_arn: Plan whose capacity the group takes.
        spot: Whether the group takes spot capacity.
        image_release_version: HyperPod AMI release. None: the newest.
        image_id: AMI of your own. None: the HyperPod AMI.
        network_interface: `efa` or `efa-only`, for types with EFA. None: the service's choice.
        update_schedule: Scheduled AMI updates. None: none.
        auto_patch: `WhenIdle` or `WhenAllIdle`: when idle nodes get security patches of the AMI. None: never.
        slurm_role: `Controller`, `Login` or `Compute`, where Slurm is the orchestrator.
        partitions: Slurm partition of a compute group.
    """

    name: str
    type: str
    count: int
    zone: str
    fallback_types: Sequence[str] = ()
    min_count: int | None = None
    deep_health_checks: Sequence[str] = ()
    threads_per_core: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    data_volume_gib: int | None = None
    volume_kms_key_arn: str | None = None
    training_plan_arn: str | None = None
    spot: bool = False
    image_release_version: str | None = None
    image_id: str | None = None
    network_interface: str | None = None
    update_schedule: UpdateSchedule | None = None
    auto_patch: str | None = None
    slurm_role: str | None = None
    partitions: Sequence[str] = ()


class HyperPodCluster(Construct):
    """A HyperPod cluster orchestrated by EKS or by Slurm (`AWS::SageMaker::Cluster`).

    The L1, because there is no L2. `ClusterName`, `VpcConfig` and `Orchestrator` are create-only: a change to one of
    them replaces the cluster. Groups are changed in place, but a renamed or retyped group loses its nodes.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-sagemaker-cluster.html

    Args:
        cluster_name: Create-only; another name is another cluster.
        instance_groups: One to a hundred groups.
        home_zone: Zone of the cluster's own network configuration; a group in another zone overrides it.
        node_recovery: `Automatic`: the service reboots or replaces faulty nodes. `None` leaves them to you.
        node_provisioning_mode: `Continuous`: in service with the capacity there is. None: all or nothing.
        managed_autoscaling: Whether HyperPod's managed Karpenter scales groups.
        tiered_memory_percent: Share of the nodes' memory for tiered checkpoints. None: off.
        orchestrator: `EksOrchestrator` or `SlurmOrchestrator`.
        execution_role: Role of the nodes.
        group_roles: Role of a group's nodes, by the group's name. Default: `execution_role`.
        lifecycle_uri: `s3://sagemaker-…/prefix` that holds the script. None: no script.
        lifecycle_script: Its name: with EKS `OnCreate`, with Slurm `OnInitComplete`.
        file_system: Mounted on each node by HyperPod, where Slurm is the orchestrator. None: none.
        homes: Likewise. None: none.
        subnets: Node subnet per availability zone ID.
        security_group: Of the nodes.

    With EKS the HyperPod dependencies chart, the scripts, the access entry, the CNI and its policies must exist first.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        instance_groups: Sequence[InstanceGroup],
        home_zone: str,
        node_recovery: str = "Automatic",
        node_provisioning_mode: str | None = "Continuous",
        managed_autoscaling: bool = False,
        tiered_memory_percent: int | None = None,
        orchestrator: Orchestrator,
        execution_role: iam.IRole,
        group_roles: Mapping[str, iam.IRole] | None = None,
        lifecycle_uri: str | None,
        lifecycle_script: str = "on_create.sh",
        file_system: LustreMount | None = None,
        homes: OpenZfsMount | None = None,
        subnets: Mapping[str, ec2.ISubnet],
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        self._role, self._file_system, self._homes = execution_role, file_system, homes
        self._group_roles = group_roles or {}
        script = {orchestrator.script_setting: lifecycle_script}
        self._scripts = (
            Cluster.ClusterLifeCycleConfigProperty(source_s3_uri=lifecycle_uri, **script) if lifecycle_uri else None
        )
        self._subnets, self._security_group, self._home_zone = subnets, security_group, home_zone
        self._continuous = node_provisioning_mode == "Continuous"
        self.cluster = Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name,
            node_recovery=node_recovery,
            node_provisioning_mode=node_provisioning_mode,
            orchestrator=orchestrator.config(),
            vpc_config=self._vpc_config(self._home_zone),
            instance_groups=[self._group(group) for group in instance_groups],
            auto_scaling=Cluster.ClusterAutoScalingConfigProperty(mode="Enable", auto_scaler_type="Karpenter")
            if managed_autoscaling
            else None,
            cluster_role=self._autoscaling_role().role_arn if managed_autoscaling else None,
            tiered_storage_config=Cluster.TieredStorageConfigProperty(
                mode="Enable", instance_memory_allocation_percentage=tiered_memory_percent
            )
            if tiered_memory_percent is not None
            else None,
        )
        if any(group.image_release_version for group in instance_groups):
            Validations.of(self.cluster).acknowledge(
                Acknowledgment(
                    id="CloudFormation-Validate::F3002",
                    reason="the schema in aws-cdk-lib 2.275.0 lacks ImageReleaseVersion; cfn-lint's newer has it",
                )
            )
        # The rule `type_is_in_the_region` judges every group by cfn-lint's list. The list in aws-cdk-lib is older: it
        # refuses ml.p6-b200.48xlarge in us-east-1, and every pair that it alone refuses is one that `check` accepts.
        Validations.of(self.cluster).acknowledge(
            Acknowledgment(
                id="CloudFormation-Validate::E3644",
                reason="the list of types by region in aws-cdk-lib 2.275.0 is older than the one that `check` goes by",
            )
        )

    def _vpc_config(self, zone: str) -> sagemaker.CfnCluster.VpcConfigProperty:
        return Cluster.VpcConfigProperty(
            security_group_ids=[self._security_group.security_group_id], subnets=[self._subnets[zone].subnet_id]
        )

    def _group(self, group: InstanceGroup) -> sagemaker.CfnCluster.ClusterInstanceGroupProperty:
        capacity = None
        if group.spot:
            capacity = Cluster.ClusterCapacityRequirementsProperty(spot={})
        return Cluster.ClusterInstanceGroupProperty(
            instance_group_name=group.name,
            instance_type=None if group.fallback_types else group.type,
            instance_requirements=Cluster.InstanceRequirementsProperty(
                instance_types=[group.type, *group.fallback_types]
            )
            if group.fallback_types
            else None,
            instance_count=group.count,
            min_instance_count=group.min_count if self._continuous else None,
            execution_role=self._group_roles.get(group.name, self._role).role_arn,
            life_cycle_config=self._scripts,
            threads_per_core=group.threads_per_core,
            on_start_deep_health_checks=list(group.deep_health_checks) or None,
            kubernetes_config=_kubernetes_config(group),
            capacity_requirements=capacity,
            training_plan_arn=group.training_plan_arn,
            override_vpc_config=self._vpc_config(group.zone) if group.zone != self._home_zone else None,
            instance_storage_configs=[*_volumes(group), *self._mounts()] or None,
            slurm_config=Cluster.ClusterSlurmConfigProperty(
                node_type=group.slurm_role, partition_names=list(group.partitions) or None
            )
            if group.slurm_role
            else None,
            image_release_version=group.image_release_version,
            image_id=group.image_id,
            network_interface=Cluster.ClusterNetworkInterfaceProperty(interface_type=group.network_interface)
            if group.network_interface
            else None,
            scheduled_update_config=_schedule(group.update_schedule) if group.update_schedule else None,
            auto_patch_config=Cluster.AutoPatchConfigProperty(patching_strategy=group.auto_patch)
            if group.auto_patch
            else None,
        )

    def _mounts(self) -> list[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
        config, mounts = Cluster.ClusterInstanceStorageConfigProperty, []
        if (lustre := self._file_system) is not None:
            mount = Cluster.ClusterFsxLustreConfigProperty(
                dns_name=lustre.dns_name, mount_name=lustre.mount_name, mount_path=lustre.path
            )
            mounts.append(config(fsx_lustre_config=mount))
        if (homes := self._homes) is not None:
            open_zfs = Cluster.ClusterFsxOpenZfsConfigProperty(dns_name=homes.dns_name, mount_path=homes.path)
            mounts.append(config(fsx_open_zfs_config=open_zfs))
        return mounts

    def _autoscaling_role(self) -> iam.Role:
        """Role that HyperPod's managed Karpenter acts with: it adds and removes nodes of this account's clusters.

        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html
        """
        role = iam.Role(self, "AutoscalingRole", assumed_by=iam.ServicePrincipal("hyperpod.sagemaker.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"],
                resources=["*"],
                conditions={"StringEquals": {"aws:ResourceAccount": Stack.of(self).account}},
            )
        )
        return role


def _kubernetes_config(group: InstanceGroup) -> sagemaker.CfnCluster.ClusterKubernetesConfigProperty | None:
    if not group.labels and not group.taints:
        return None
    # an empty value is none: the service requires one character
    taints = [
        Cluster.ClusterKubernetesTaintProperty(key=t.key, value=t.value or None, effect=t.effect) for t in group.taints
    ]
    return Cluster.ClusterKubernetesConfigProperty(labels=dict(group.labels) or None, taints=taints or None)


def _volumes(group: InstanceGroup) -> list[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty]:
    key = group.volume_kms_key_arn
    volumes = []
    if key is not None:
        # The root volume takes a key but no size: the service refuses both together.
        volumes.append(Cluster.ClusterEbsVolumeConfigProperty(root_volume=True, volume_kms_key_id=key))
    if group.data_volume_gib is not None:
        volumes.append(
            Cluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=group.data_volume_gib, volume_kms_key_id=key)
        )
    return [Cluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=volume) for volume in volumes]


def _schedule(schedule: UpdateSchedule) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty:
    batch = Cluster.CapacitySizeConfigProperty(type=schedule.batch_unit, value=schedule.maximum_batch)
    return Cluster.ScheduledUpdateConfigProperty(
        schedule_expression=schedule.cron,
        deployment_config=Cluster.DeploymentConfigProperty(
            rolling_update_policy=Cluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            wait_interval_in_seconds=schedule.wait_seconds,
            auto_rollback_configuration=[
                Cluster.AlarmDetailsProperty(alarm_name=name) for name in schedule.rollback_alarm_names
            ]
            or None,
        ),
    )

"""The figures that follow from an environment's settings: subnets, checks and pod resources. No AWS call, no guess."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import METRICS, CommonPlan, SettingPath
from hyperpod_ray.core.model import (
    Environment,
    ExistingEks,
    ExistingEksCluster,
    ExistingNetwork,
    ExistingVpc,
    InstanceGroup,
    ManagedMetrics,
    MlflowApp,
    NewEks,
    NodeGroup,
    RayWorkerGroup,
    S3Access,
    Team,
    Training,
)
from hyperpod_ray_rules import data_file

MEMORY_OVERHEAD_SHARE = 0.075
"""Share of an instance's memory that the hypervisor, firmware and kernel keep, so that the kubelet never sees it:
the default with which Karpenter plans (`VM_MEMORY_OVERHEAD_PERCENT`)."""
EVICTION_MIB = 100
"""`evictionHard.memory.available` of the EKS AMI."""
DAEMON_SETS = ("aws-node", names.PROXY_ADDON, names.POD_IDENTITY_ADDON, "fsx-csi-node", "health-monitoring-agent")
"""Pods that every node carries besides Ray's; accelerators and EFA each bring a device plugin more, and a head's state
on a volume the EBS CSI driver's."""
DAEMON_SET_CPU_MILLIS = 750
"""CPU set aside for the daemon sets of a node: a reserve of this project, above the sum of the charts' requests."""
DAEMON_SET_MEMORY_MIB = 1024
"""Memory set aside for the daemon sets of a node, likewise."""


@functools.cache
def read_data(name: str) -> Any:
    """Parse a data file of this package, once in a process: every check of a file asks for some."""
    return data_file.read(Path(__file__).parent / "catalogue" / name)


@dataclass(frozen=True, kw_only=True)
class PodResources:
    """What one Ray pod requests and is limited to."""

    cpu: int
    memory_gib: int
    gpus: int
    gpu_resource: str
    efa: int
    shared_memory_gib: int


@dataclass(frozen=True, kw_only=True)
class Allocatable:
    """What one node can give to Ray pods, after the kubelet's reserve and the daemon sets."""

    cpu: int
    """Whole vCPUs."""
    memory_gib: int
    """Whole GiB."""
    gpus: int
    """GPUs or Neuron devices."""
    efa: int
    """EFA interfaces."""
    pods: int
    """Pods beside the daemon sets' (one network interface per node holds the addresses)."""


@dataclass(frozen=True, kw_only=True)
class Plan(CommonPlan):
    """An environment's settings with what follows from them; its orchestrator is EKS."""

    name: str
    settings: Environment

    # --- what is new and what exists ---------------------------------------------------------------------------------

    @property
    def existing_vpc(self) -> ExistingVpc | None:
        """The VPC that the file names; None where the stack creates one."""
        network = self.settings.network
        return network.existing if isinstance(network, ExistingNetwork) else None

    @property
    def existing_eks(self) -> ExistingEksCluster | None:
        """The EKS cluster that the file names; None where the stack creates one."""
        eks = self.settings.eks
        return eks.existing if isinstance(eks, ExistingEks) else None

    @property
    def training(self) -> Training | None:
        """What a run is planned for; None where the file does not say."""
        return self.settings.training

    @property
    def observability(self) -> ManagedMetrics | None:
        """The workspace for metrics; None without one."""
        return self.settings.observability

    @property
    def own_roles(self) -> list[str]:
        """Teams: each has a role where it has anything in AWS."""
        return [team.name for team in self.settings.teams]

    @property
    def teams(self) -> list[Team]:
        """Teams that share the cluster."""
        return self.settings.teams

    @property
    def ray_groups(self) -> list[str]:
        """Names of the groups of Ray's workers, in the order of the file."""
        return [worker.instance_group for worker in self.settings.ray.workers]

    @property
    def new_eks(self) -> NewEks | None:
        """The EKS cluster that the stacks create; None where one exists."""
        eks = self.settings.eks
        return eks if isinstance(eks, NewEks) else None

    @property
    def kms_keys(self) -> list[tuple[SettingPath, str]]:
        """KMS keys that the file names, by their settings."""
        access = self.settings.ray.access
        named = enumerate(access.kms_key_arns if access else [])
        return [*super().kms_keys, *((("ray", "access", "kms_key_arns", index), arn) for index, arn in named)]

    @property
    def buckets(self) -> list[tuple[SettingPath, str]]:
        """S3 buckets that the file names, by their settings."""
        access, tiered = self.settings.ray.access, self.settings.hyperpod.tiered_storage
        grants = enumerate(access.s3 if access else [])
        named: list[tuple[SettingPath, str]] = [
            (("ray", "access", "s3", index, "bucket"), grant.bucket) for index, grant in grants
        ]
        if tiered is not None and tiered.bucket is not None:
            named.append((("hyperpod", "tiered_storage", "bucket"), tiered.bucket))
        return [*super().buckets, *named]

    @property
    def images(self) -> list[tuple[SettingPath, str | None]]:
        """Images that the file may name, by their settings; None where it does not."""
        tolerance = self.settings.ray.gcs_fault_tolerance
        redis = tolerance.redis_image if tolerance else None
        return [*super().images, (("ray", "gcs_fault_tolerance", "redis_image"), redis)]

    @property
    def head_volume_gib(self) -> int | None:
        """Size of the EBS volume that keeps the head's state; None without one."""
        tolerance = self.settings.ray.gcs_fault_tolerance
        return tolerance.volume_gib if tolerance else None

    @property
    def head_volume_key_arn(self) -> str | None:
        """KMS key of that volume: the one of the head's own group. None: the key that AWS manages for EBS."""
        return self.group(self.settings.ray.head.instance_group).volume_kms_key_arn

    @property
    def trainers(self) -> list[tuple[str, NodeGroup]]:
        """Workers, and the group that each is in; none while the first one's group is not in the file."""
        groups = {group.name: group for group in self.groups}
        workers = self.settings.ray.workers
        if workers[0].instance_group not in groups:
            return []
        known = [worker for worker in workers if worker.instance_group in groups]
        return [(f"workers '{worker.name}'", groups[worker.instance_group]) for worker in known]

    @property
    def alarm_publishers(self) -> list[str]:
        """Services that publish to the topics of alarms."""
        return [*super().alarm_publishers, *([METRICS] if self.settings.observability is not None else [])]

    # --- instance types and groups ---------------------------------------------------------------------------------

    def group(self, name: str) -> InstanceGroup:
        """The instance group called `name`. KeyError when there is none."""
        return {group.name: group for group in self.settings.hyperpod.instance_groups}[name]

    def daemon_sets(self, group: NodeGroup) -> int:
        """Pods that a node of the group carries before any of Ray's."""
        spec, volumes = self.type_spec(group.type), self.head_volume_gib is not None
        return len(DAEMON_SETS) + volumes + (spec.accelerators > 0) + (spec.efa > 0) + self._pulls_early(group)

    def allocatable(self, group: NodeGroup) -> Allocatable:
        """What one node of the group can give to Ray pods.

        The kubelet's reserve is the EKS AMI's (255 MiB and 11 MiB per pod; 6 %, 1 %, 0.5 %, 0.5 % and then 0.25 % of
        the cores): https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
        """
        spec = self.type_spec(group.type)
        vcpus = self.vcpus(group)
        cpu_reserve: int = sum((60, 10, 5, 5)[:vcpus]) + math.ceil(2.5 * max(0, vcpus - 4))
        cpu = vcpus * 1000 - cpu_reserve - DAEMON_SET_CPU_MILLIS
        tiered = self.settings.hyperpod.tiered_storage
        checkpoints = tiered.memory_percent if tiered else 0
        memory = spec.memory_gib * 1024 * (1 - MEMORY_OVERHEAD_SHARE - checkpoints / 100)
        memory -= 255 + 11 * spec.pods + EVICTION_MIB + DAEMON_SET_MEMORY_MIB
        return Allocatable(
            cpu=max(0, cpu // 1000),
            memory_gib=max(0, math.floor(memory / 1024)),
            gpus=spec.accelerators,
            efa=spec.efa,
            pods=max(0, spec.pods - self.daemon_sets(group)),
        )

    @property
    def scaled_groups(self) -> list[InstanceGroup]:
        """Groups that HyperPod's managed Karpenter scales: with `managed_autoscaling`, those with a count of 0."""
        hyperpod = self.settings.hyperpod
        return [group for group in hyperpod.instance_groups if hyperpod.managed_autoscaling and group.count == 0]

    def most_nodes(self, group: NodeGroup) -> int:
        """Nodes that a group can come to have: its count, or what the largest Ray cluster needs of a scaled one."""
        if group not in self.scaled_groups:
            return group.count
        bound = [worker for worker in self.settings.ray.workers if worker.instance_group == group.name]
        room = self.allocatable(group)
        nodes = 0
        for worker in bound:
            pod = self.worker_resources(worker)
            amounts = (
                (pod.gpus, room.gpus),
                (pod.efa, room.efa),
                (pod.cpu, room.cpu),
                (pod.memory_gib, room.memory_gib),
            )
            per_node = min([room.pods, *(has // wants for wants, has in amounts if wants)])
            replicas = worker.replicas if worker.max_replicas is None else worker.max_replicas
            nodes += -(-replicas // max(1, per_node))
        return nodes

    @property
    def training_groups(self) -> list[InstanceGroup]:
        """Groups of Ray's workers, in the order of the file; all while it names none that there is."""
        groups = {group.name: group for group in self.settings.hyperpod.instance_groups}
        named = [worker.instance_group for worker in self.settings.ray.workers]
        return [groups[name] for name in named if name in groups] or list(groups.values())

    @property
    def checked_worker_groups(self) -> list[InstanceGroup]:
        """Groups of Ray's workers with deep health checks: their nodes pull the image while they are checked."""
        return [group for group in self.settings.hyperpod.instance_groups if self._pulls_early(group)]

    def _pulls_early(self, group: NodeGroup) -> bool:
        used = any(worker.instance_group == group.name for worker in self.settings.ray.workers)
        return used and bool(self.deep_health_checks(group))

    # --- zones and addresses ---------------------------------------------------------------------------------------

    @property
    def eks_cluster_name(self) -> str:
        """Name of the EKS cluster: the existing one's, else the HyperPod cluster's with `-eks`."""
        existing = self.existing_eks
        return existing.cluster_name if existing else f"{self.settings.hyperpod.cluster_name}-eks"

    @property
    def strict_network_policies(self) -> bool:
        """Whether the CNI lets a pod that no policy selects neither send nor receive."""
        eks = self.settings.eks
        return isinstance(eks, NewEks) and eks.network_policy_mode == "strict"

    @property
    def control_plane_log_group(self) -> str:
        """Log group of the EKS control plane; EKS gives it its name."""
        return names.control_plane_log_group(self.eks_cluster_name)

    @property
    def tier_bucket_name(self) -> str | None:
        """Bucket of the second tier of checkpoints: the existing one, else the one that the Ray stack creates.

        Its name is shorter than that of the lifecycle scripts. None without tiered storage.
        """
        settings, tiered = self.settings, self.settings.hyperpod.tiered_storage
        if tiered is None:
            return None
        default_name = f"tier-{settings.hyperpod.cluster_name.lower()}-{settings.account}-{settings.region}"
        return tiered.bucket or default_name

    @property
    def new_tier_bucket(self) -> str | None:
        """That bucket where the Ray stack creates it; None where it exists, and without tiered storage."""
        tiered = self.settings.hyperpod.tiered_storage
        return self.tier_bucket_name if tiered is not None and tiered.bucket is None else None

    @property
    def pods_have_roles(self) -> bool:
        """Whether Ray's pods have a role in AWS."""
        ray = self.settings.ray
        named = ray.access is not None or any(team.access is not None for team in self.settings.teams)
        return named or self.tier_bucket_name is not None or self.mlflow_app is not None

    @property
    def mlflow_app(self) -> MlflowApp | None:
        """The MLflow app that the Ray stack creates; None without one."""
        tracking = self.settings.ray.tracking
        return tracking.mlflow_app if tracking else None

    @property
    def bucket_access(self) -> list[S3Access]:
        """Buckets that Ray's pods use and that may be of another account: those of `ray.access`, and a tier's own."""
        access, tiered = self.settings.ray.access, self.settings.hyperpod.tiered_storage
        named = [S3Access(bucket=tiered.bucket, mode="write")] if tiered and tiered.bucket else []
        return [*(access.s3 if access else []), *named]

    # --- pods ------------------------------------------------------------------------------------------------------

    @property
    def head_resources(self) -> PodResources:
        """Resources of the head pod."""
        head = self.settings.ray.head
        return self._resources(
            head.instance_group, cpu=head.cpu, memory_gib=head.memory_gib, gpus=0, efa=0, shared=None
        )

    def worker_resources(self, worker: RayWorkerGroup) -> PodResources:
        """Resources of one worker pod."""
        return self._resources(
            worker.instance_group,
            cpu=worker.cpu,
            memory_gib=worker.memory_gib,
            gpus=worker.gpus,
            efa=worker.efa,
            shared=worker.shared_memory_gib,
        )

    def _resources(
        self,
        group_name: str,
        *,
        cpu: int | None,
        memory_gib: int | None,
        gpus: int | None,
        efa: int | None,
        shared: int | None,
    ) -> PodResources:
        group = self.group(group_name)
        spec = self.type_spec(group.type)
        room = self.allocatable(group)
        gpus = spec.accelerators if gpus is None else gpus
        # several pods of a node share it by GPUs; a pod without GPUs is the only one of its kind on its node
        parts = min(gpus, spec.accelerators), spec.accelerators
        part = parts if parts[0] > 0 else (1, 1)
        if efa is None:
            efa = spec.efa * part[0] // part[1] if gpus or not spec.accelerators else 0
        memory = memory_gib or max(1, room.memory_gib * part[0] // part[1])
        return PodResources(
            cpu=cpu or max(1, room.cpu * part[0] // part[1]),
            memory_gib=memory,
            gpus=gpus,
            gpu_resource=names.NEURON_RESOURCE if spec.accelerator == "neuron" else names.GPU_RESOURCE,
            efa=efa,
            shared_memory_gib=shared or max(1, memory // 4),
        )

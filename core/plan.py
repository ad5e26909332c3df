"""The figures that follow from an environment's settings: subnets, checks and pod resources. No AWS call, no guess."""

from __future__ import annotations

import functools
import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core import names
from core.model import (
    BuiltImage,
    DataRepository,
    DeepHealthCheck,
    Environment,
    ExistingEks,
    ExistingEksCluster,
    ExistingFileSystem,
    ExistingImage,
    ExistingNetwork,
    ExistingStorage,
    ExistingVpc,
    InstanceGroup,
    InstanceTypeSpec,
    NewEks,
    NewFileSystem,
    NewNetwork,
    RayWorkerGroup,
    S3Access,
    StaticStorage,
)
from service_rules import data

MEMORY_OVERHEAD_SHARE = 0.075
"""Share of an instance's memory that the hypervisor, firmware and kernel keep, so that the kubelet never sees it:
the default with which Karpenter plans (`VM_MEMORY_OVERHEAD_PERCENT`)."""
EVICTION_MIB = 100
"""`evictionHard.memory.available` of the EKS AMI."""
DAEMON_SETS = ("aws-node", names.PROXY_ADDON, names.POD_IDENTITY_ADDON, "fsx-csi-node", "health-monitoring-agent")
"""Pods that every node carries besides Ray's; accelerators and EFA each bring a device plugin more."""
DAEMON_SET_CPU_MILLIS = 750
"""CPU set aside for the daemon sets of a node: a reserve of this project, above the sum of the charts' requests."""
DAEMON_SET_MEMORY_MIB = 1024
"""Memory set aside for the daemon sets of a node, likewise."""
SMALL_SUBNET_PREFIX = 27
"""Prefix length of the control plane's and the public subnets, which hold few interfaces."""


def read_data(name: str) -> Any:
    """Parse a data file of this package (libyaml where it is built in, for a fast start)."""
    text = (Path(__file__).parent / "catalogue" / name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # safe loaders, both


@functools.cache
def catalogue() -> dict[str, InstanceTypeSpec]:
    """Figures of the known instance types (`service_rules/data/instance_types.yaml`)."""
    return {name: InstanceTypeSpec.model_validate(row) for name, row in data.instance_types().items()}


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
class Plan:
    """An environment's settings with what follows from them."""

    name: str
    settings: Environment

    # --- what is new and what exists ---------------------------------------------------------------------------------

    @property
    def new_network(self) -> NewNetwork | None:
        """The VPC that the Network stack creates; None where one exists."""
        network = self.settings.network
        return network if isinstance(network, NewNetwork) else None

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
    def new_file_system(self) -> NewFileSystem | None:
        """What the stack or a claim creates a file system with; None where one exists."""
        storage = self.settings.storage
        return storage if isinstance(storage, NewFileSystem) else None

    @property
    def efa_storage(self) -> bool:
        """Whether the file system that the stack creates is EFA-enabled."""
        storage = self.settings.storage
        return isinstance(storage, StaticStorage) and storage.efa

    @property
    def data_repositories(self) -> list[DataRepository]:
        """Links of the stack's file system to S3."""
        storage = self.settings.storage
        return list(storage.data_repositories) if isinstance(storage, StaticStorage) else []

    @property
    def existing_file_system(self) -> ExistingFileSystem | None:
        """The file system that the file names; None where one is created."""
        storage = self.settings.storage
        return storage.existing if isinstance(storage, ExistingStorage) else None

    @property
    def built_image(self) -> BuiltImage | None:
        """How the Image stack builds the image; None where one exists."""
        image = self.settings.image
        return image if isinstance(image, BuiltImage) else None

    @property
    def image_repository(self) -> str:
        """The ECR repository of the image that the stack builds; empty where the file names an image."""
        if self.built_image is None:
            return ""
        return self.built_image.repository_name or names.image_repository(self.name)

    @property
    def existing_image(self) -> str | None:
        """The image that the file names, by digest; None where the stack builds one."""
        image = self.settings.image
        return image.uri if isinstance(image, ExistingImage) else None

    # --- instance types and groups ---------------------------------------------------------------------------------

    def type_spec(self, instance_type: str) -> InstanceTypeSpec:
        """Figures of an instance type: the file's own first, then the catalogue's. KeyError when neither has it."""
        return self.settings.instance_types.get(instance_type) or catalogue()[instance_type]

    def known(self, instance_type: str) -> bool:
        """Whether `type_spec` has an answer; a file that was loaded without errors names no unknown type."""
        return instance_type in self.settings.instance_types or instance_type in catalogue()

    def group(self, name: str) -> InstanceGroup:
        """The instance group called `name`. KeyError when there is none."""
        return {group.name: group for group in self.settings.hyperpod.instance_groups}[name]

    def accelerated(self, group: InstanceGroup) -> bool:
        """Whether a group's nodes have GPUs or Neuron devices."""
        return self.type_spec(group.type).accelerators > 0

    def vcpus(self, group: InstanceGroup) -> int:
        """Number of vCPUs of one node of a group, with the threads per core it asks for."""
        spec = self.type_spec(group.type)
        return max(1, spec.vcpus * min(group.threads_per_core, spec.threads) // spec.threads)

    def daemon_sets(self, group: InstanceGroup) -> int:
        """Pods that a node of the group carries before any of Ray's."""
        spec = self.type_spec(group.type)
        return len(DAEMON_SETS) + (spec.accelerators > 0) + (spec.efa > 0) + self._pulls_early(group)

    def allocatable(self, group: InstanceGroup) -> Allocatable:
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

    def most_nodes(self, group: InstanceGroup) -> int:
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
            each = min([room.pods, *(has // wants for wants, has in amounts if wants)])
            most = worker.replicas if worker.max_replicas is None else worker.max_replicas
            nodes += -(-most // max(1, each))
        return nodes

    def deep_health_checks(self, group: InstanceGroup) -> list[DeepHealthCheck]:
        """Checks a group's nodes pass before they take work; see `InstanceGroup.deep_health_checks` for the default."""
        if group.deep_health_checks is not None:
            return list(group.deep_health_checks)
        if not self.accelerated(group) or group in self.scaled_groups:
            return []
        return ["InstanceStress", "InstanceConnectivity"] if group.count >= 2 else ["InstanceStress"]

    @property
    def checked_worker_groups(self) -> list[InstanceGroup]:
        """Groups of Ray's workers with deep health checks: their nodes pull the image while they are checked."""
        return [group for group in self.settings.hyperpod.instance_groups if self._pulls_early(group)]

    def _pulls_early(self, group: InstanceGroup) -> bool:
        used = any(worker.instance_group == group.name for worker in self.settings.ray.workers)
        return used and bool(self.deep_health_checks(group))

    # --- zones and addresses ---------------------------------------------------------------------------------------

    def zone(self, group: InstanceGroup) -> str:
        """Availability zone ID of a group."""
        return group.availability_zone_id or self.settings.network.availability_zone_ids[0]

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
    def lifecycle_bucket_name(self) -> str:
        """Name of the lifecycle scripts' bucket; it must begin with `sagemaker-`, and bucket names are global.

        A check refuses a cluster name that makes it too long: cut short, two clusters could mean one bucket.
        """
        settings = self.settings
        return f"sagemaker-{settings.hyperpod.cluster_name.lower()}-{settings.account}-{settings.region}"

    @property
    def tier_bucket_name(self) -> str | None:
        """Bucket of the second tier of checkpoints: the existing one, else the one that the Ray stack creates.

        Its name is shorter than that of the lifecycle scripts. None without tiered storage.
        """
        settings, tiered = self.settings, self.settings.hyperpod.tiered_storage
        if tiered is None:
            return None
        made = f"tier-{settings.hyperpod.cluster_name.lower()}-{settings.account}-{settings.region}"
        return tiered.bucket or made

    @property
    def bucket_access(self) -> list[S3Access]:
        """Buckets that Ray's pods use and that may be of another account: those of `ray.access`, and a tier's own."""
        access, tiered = self.settings.ray.access, self.settings.hyperpod.tiered_storage
        named = [S3Access(bucket=tiered.bucket, mode="write")] if tiered and tiered.bucket else []
        return [*(access.s3 if access else []), *named]

    @property
    def node_zones(self) -> list[str]:
        """Zones that hold nodes, in the order of `network.availability_zone_ids`."""
        used = {self.zone(group) for group in self.settings.hyperpod.instance_groups}
        return [zone for zone in self.settings.network.availability_zone_ids if zone in used]

    @property
    def network_outlives_destroy(self) -> bool:
        """Whether destroy leaves the VPC: a file system that is kept has its network interface there."""
        kept = self.new_file_system is not None and self.new_file_system.on_destroy == "retain"
        return kept and self.new_network is not None

    @property
    def storage_zone(self) -> str:
        """Zone of the file system: as set, else where the first Ray worker group is."""
        if self.existing_file_system is not None:
            return self.existing_file_system.availability_zone_id
        zone = self.new_file_system.availability_zone_id if self.new_file_system else None
        return zone or self.zone(self.group(self.settings.ray.workers[0].instance_group))

    def node_addresses(self, zone: str) -> int:
        """IP addresses the nodes of a zone take from its subnet at full count, those that Karpenter adds included."""
        return sum(
            self.most_nodes(group) * self.type_spec(group.type).ips
            for group in self.settings.hyperpod.instance_groups
            if self.zone(group) == zone
        )

    @property
    def node_subnet_prefix(self) -> int:
        """Prefix length of every node subnet: as set, else an eighth of the VPC each (a quarter with 2 or 3 slots).

        0 for an existing VPC, whose subnets have sizes of their own.

        It must follow neither the groups' counts nor the number of zones: a subnet's CIDR is create-only, so that
        scaling a group or adding a zone would replace the subnets under a running cluster. The checks compare counts
        and size.
        """
        network = self.new_network
        if network is None:
            return 0
        vpc_prefix = int(network.cidr.rpartition("/")[2])
        return network.node_subnet_prefix or vpc_prefix + (2 if network.zone_slots <= 3 else 3)

    @property
    def node_subnet_cidrs(self) -> list[str]:
        """Range of each subnet that holds nodes: of a new VPC the first slots of its range, one for each zone."""
        vpc, network = self.existing_vpc, self.new_network
        if vpc is not None or network is None:
            return [vpc.node_subnet_cidrs[zone] for zone in self.node_zones] if vpc else []
        prefix = self.node_subnet_prefix
        start = ipaddress.IPv4Network(network.cidr).network_address
        slots = [network.availability_zone_ids.index(zone) for zone in self.node_zones]
        return [f"{start + slot * (1 << (32 - prefix))}/{prefix}" for slot in slots]

    @property
    def vpc_addresses_needed(self) -> int:
        """Addresses that the new VPC's slots span.

        Each slot has one subnet for nodes, one for the control plane and, with NAT gateways, a public one. The large
        ones are laid out first, so that nothing is lost to alignment.
        """
        network = self.new_network
        if network is None:
            return 0
        small = (1 << (32 - SMALL_SUBNET_PREFIX)) * (1 if network.closed else 2)
        return network.zone_slots * ((1 << (32 - self.node_subnet_prefix)) + small)

    @property
    def public_subnet_cidrs(self) -> list[str]:
        """Range of each zone's public subnet, which holds a NAT gateway: behind the slots of nodes and control plane.

        Empty for a closed and for an existing network.
        """
        network = self.new_network
        if network is None or network.closed:
            return []
        small = 1 << (32 - SMALL_SUBNET_PREFIX)
        start = ipaddress.IPv4Network(network.cidr).network_address
        start += network.zone_slots * ((1 << (32 - self.node_subnet_prefix)) + small)
        return [f"{start + index * small}/{SMALL_SUBNET_PREFIX}" for index in range(len(network.availability_zone_ids))]

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

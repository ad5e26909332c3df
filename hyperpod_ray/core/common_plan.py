"""The figures that follow from an environment's settings under every orchestrator: names, zones, addresses, types."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.model import (
    BuiltImage,
    CommonEnvironment,
    DataRepository,
    DeepHealthCheck,
    ElasticStorage,
    ExistingEksCluster,
    ExistingFileSystem,
    ExistingImage,
    ExistingNodeNetwork,
    ExistingStorage,
    ExistingSubnets,
    InstanceTypeSpec,
    ManagedMetrics,
    MlflowApp,
    NewEks,
    NewFileSystem,
    NewHomes,
    NewNetwork,
    NodeGroup,
    S3Access,
    SsdFileSystem,
    StaticStorage,
    Team,
    Training,
)
from hyperpod_ray_rules import data

SettingPath = tuple[str | int, ...]
ALARMS, EVENTS, METRICS = "cloudwatch.amazonaws.com", "events.amazonaws.com", "aps.amazonaws.com"
"""Services that publish to topics: CloudWatch, EventBridge, the alert manager."""
SMALL_SUBNET_PREFIX = 27
"""Prefix length of the control plane's and the public subnets, which hold few interfaces."""


@functools.cache
def catalogue() -> dict[str, InstanceTypeSpec]:
    """Figures of the known instance types (`hyperpod_ray_rules/data/instance_types.yaml`)."""
    return {name: InstanceTypeSpec.model_validate(row) for name, row in data.instance_types().items()}


@dataclass(frozen=True, kw_only=True)
class CommonPlan:
    """What follows from the settings of an environment, whatever orchestrates it."""

    name: str
    settings: CommonEnvironment
    project: Path | None = None
    """The user's project, whose lock files and scripts come first. None: those that the product ships."""

    @property
    def groups(self) -> Sequence[NodeGroup]:
        """Instance groups of the cluster."""
        return self.settings.hyperpod.instance_groups

    @property
    def new_network(self) -> NewNetwork | None:
        """The VPC that the Network stack creates; None where one exists."""
        network = self.settings.network
        return network if isinstance(network, NewNetwork) else None

    @property
    def fixed_log_groups(self) -> bool:
        """Whether the log groups of flow logs and events have names that a later deploy finds again."""
        return self.settings.log_group_names == "fixed"

    @property
    def existing_vpc(self) -> ExistingSubnets | None:
        """The VPC that the file names; None where the stack creates one."""
        network = self.settings.network
        return network.existing if isinstance(network, ExistingNodeNetwork) else None

    @property
    def new_file_system(self) -> NewFileSystem | None:
        """What the stack or a claim creates a file system with; None where one exists."""
        storage = self.settings.storage
        return storage if isinstance(storage, NewFileSystem) else None

    @property
    def ssd_file_system(self) -> SsdFileSystem | None:
        """The new file system where it has a size; None where it has none, and where one exists."""
        storage = self.settings.storage
        return storage if isinstance(storage, SsdFileSystem) else None

    @property
    def elastic_file_system(self) -> ElasticStorage | None:
        """The new file system where it is of FSx Intelligent-Tiering, without a size."""
        storage = self.settings.storage
        return storage if isinstance(storage, ElasticStorage) else None

    @property
    def stack_file_system(self) -> StaticStorage | ElasticStorage | None:
        """What the Storage stack creates the shared file system with; None where a claim does, or where it exists."""
        storage = self.settings.storage
        return storage if isinstance(storage, StaticStorage | ElasticStorage) else None

    @property
    def efa_storage(self) -> bool:
        """Whether the file system that the stack creates is EFA-enabled."""
        return self.stack_file_system is not None and self.stack_file_system.efa

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
    def new_homes(self) -> NewHomes | None:
        """The file system of home folders that the stack creates; None without one, and where one exists."""
        return None

    @property
    def existing_homes(self) -> str | None:
        """`FileSystemId` of the home folders' file system that the file names; None without one."""
        return None

    @property
    def new_storage(self) -> Sequence[NewFileSystem | NewHomes]:
        """What is created with data of yours: the shared file system, and that of home folders."""
        return [settings for settings in (self.new_file_system, self.new_homes) if settings is not None]

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

    def type_spec(self, instance_type: str) -> InstanceTypeSpec:
        """Figures of an instance type: the file's own first, then the catalogue's. KeyError when neither has it."""
        return self.settings.instance_types.get(instance_type) or catalogue()[instance_type]

    def known(self, instance_type: str) -> bool:
        """Whether `type_spec` has an answer; a file that was loaded without errors names no unknown type."""
        return instance_type in self.settings.instance_types or instance_type in catalogue()

    def group(self, name: str) -> NodeGroup:
        """The instance group called `name`. KeyError when there is none."""
        return {group.name: group for group in self.groups}[name]

    def accelerated(self, group: NodeGroup) -> bool:
        """Whether a group's nodes have GPUs or Neuron devices."""
        return self.type_spec(group.type).accelerators > 0

    def vcpus(self, group: NodeGroup) -> int:
        """Number of vCPUs of one node of a group, with the threads per core it asks for."""
        spec = self.type_spec(group.type)
        return max(1, spec.vcpus * min(group.threads_per_core, spec.threads) // spec.threads)

    def role(self, name: str) -> str:
        """A group's part in the scheduler; empty where groups have none, and for a group that is not in the file."""
        return ""

    @property
    def eks_cluster_name(self) -> str:
        """Name of the EKS cluster; empty without one."""
        return ""

    @property
    def new_eks(self) -> NewEks | None:
        """The EKS cluster that the stacks create; None where one exists, and without one."""
        return None

    @property
    def existing_eks(self) -> ExistingEksCluster | None:
        """The EKS cluster that the file names; None where the stack creates one, and without one."""
        return None

    @property
    def small_subnets(self) -> str | None:
        """What the small subnets of a new VPC are for, as their names say it; None: there are none."""
        return "ControlPlane"

    @property
    def absent_stacks(self) -> frozenset[str]:
        """Stacks that its orchestrator has no use for, as `names` has them."""
        return frozenset()

    @property
    def event_stack(self) -> str:
        """The stack that creates the log group of events."""
        return names.PLATFORM_STACK

    @property
    def kms_keys(self) -> list[tuple[SettingPath, str]]:
        """KMS keys that the file names, by their settings."""
        return [
            (("hyperpod", "instance_groups", index, "volume_kms_key_arn"), group.volume_kms_key_arn)
            for index, group in enumerate(self.groups)
            if group.volume_kms_key_arn
        ]

    @property
    def buckets(self) -> list[tuple[SettingPath, str]]:
        """S3 buckets that the file names, by their settings."""
        return [
            (("storage", "data_repositories", index, "bucket"), link.bucket)
            for index, link in enumerate(self.data_repositories)
        ]

    @property
    def images(self) -> list[tuple[SettingPath, str | None]]:
        """Images that the file may name, by their settings; None where it does not."""
        return [
            (("image", "uri"), self.existing_image),
            (("image", "base"), self.built_image.base if self.built_image else None),
        ]

    @property
    def alarm_publishers(self) -> list[str]:
        """Services that publish to the topics of alarms."""
        return [ALARMS, EVENTS]

    @property
    def orchestrator_request(self) -> dict[str, Any]:
        """Member `Orchestrator` of a CreateCluster request. The ARN of an EKS cluster is known after its deployment."""
        return {"Eks": {}}

    def scheduler_request(self, group: NodeGroup) -> dict[str, Any]:
        """Members of a group in a CreateCluster request that only a scheduler on the nodes has."""
        return {}

    @property
    def training(self) -> Training | None:
        """What a run is planned for; None where the file does not say."""
        return None

    @property
    def observability(self) -> ManagedMetrics | None:
        """Where metrics go; None without a workspace."""
        return None

    @property
    def mlflow_app(self) -> MlflowApp | None:
        """The MLflow app that the stacks create; None without one."""
        return None

    @property
    def mlflow_bucket_name(self) -> str:
        """Bucket of that app's artifacts. Its name is shorter than that of the lifecycle scripts."""
        settings = self.settings
        return f"mlflow-{settings.hyperpod.cluster_name.lower()}-{settings.account}-{settings.region}"

    @property
    def new_tier_bucket(self) -> str | None:
        """Bucket of the second tier of checkpoints that the stacks create; None without one."""
        return None

    @property
    def own_roles(self) -> Sequence[str]:
        """Teams and groups of nodes whose work has a role of its own in AWS."""
        return []

    @property
    def teams(self) -> Sequence[Team]:
        """Teams that share the cluster."""
        return []

    @property
    def ray_groups(self) -> Sequence[str]:
        """Names of the groups of Ray's workers, in the order of the file; none without a RayCluster."""
        return []

    @property
    def scaled_groups(self) -> Sequence[NodeGroup]:
        """Groups that the service scales by itself."""
        return []

    def most_nodes(self, group: NodeGroup) -> int:
        """Nodes that a group can come to have."""
        return group.count

    @property
    def training_groups(self) -> Sequence[NodeGroup]:
        """Groups that train, the first of them first; the file system is beside it."""
        raise NotImplementedError

    @property
    def trainers(self) -> Sequence[tuple[str, NodeGroup]]:
        """What trains, as messages call it, and the group that it is in."""
        return [(f"nodes '{group.name}'", group) for group in self.training_groups]

    def deep_health_checks(self, group: NodeGroup) -> list[DeepHealthCheck]:
        """Checks a group's nodes pass before they take work; see `NodeGroup.deep_health_checks` for the default."""
        if group.deep_health_checks is not None:
            return list(group.deep_health_checks)
        if not self.accelerated(group) or group in self.scaled_groups:
            return []
        return ["InstanceStress", "InstanceConnectivity"] if group.count >= 2 else ["InstanceStress"]

    def zone(self, group: NodeGroup) -> str:
        """Availability zone ID of a group."""
        return group.availability_zone_id or self.settings.network.availability_zone_ids[0]

    @property
    def uploads_scripts(self) -> bool:
        """Whether the stacks upload scripts that run on nodes."""
        return True

    @property
    def lifecycle_bucket_name(self) -> str:
        """Name of the lifecycle scripts' bucket; it must begin with `sagemaker-`, and bucket names are global.

        A check refuses a cluster name that makes it too long: cut short, two clusters could mean one bucket.
        """
        settings = self.settings
        return f"sagemaker-{settings.hyperpod.cluster_name.lower()}-{settings.account}-{settings.region}"

    @property
    def bucket_access(self) -> Sequence[S3Access]:
        """Buckets that jobs use and that may be of another account."""
        return []

    @property
    def node_zones(self) -> list[str]:
        """Zones that hold nodes, in the order of `network.availability_zone_ids`."""
        used = {self.zone(group) for group in self.groups}
        return [zone for zone in self.settings.network.availability_zone_ids if zone in used]

    @property
    def head_volume_gib(self) -> int | None:
        """Size of the EBS volume that keeps the Ray head's state; None without one."""
        return None

    @property
    def network_outlives_destroy(self) -> bool:
        """Whether destroy leaves the VPC: a file system that is kept has its network interface there."""
        kept = any(settings.on_destroy == "retain" for settings in self.new_storage)
        return kept and self.new_network is not None

    @property
    def storage_zone(self) -> str:
        """Zone of the file system: as set, else where the first group that trains is."""
        if self.existing_file_system is not None:
            return self.existing_file_system.availability_zone_id
        zone = self.new_file_system.availability_zone_id if self.new_file_system else None
        return zone or self.zone(self.training_groups[0])

    def addresses(self, group: NodeGroup) -> int:
        """IP addresses that one node of a group takes from its subnet.

        The first interface carries pods and is filled. Each further network card has an address too, unless it is an
        EFA-only interface, which has none.
        https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
        """
        specs = [self.type_spec(name) for name in group.types if self.known(name)]
        return max(spec.pods + 1 if group.network_interface == "efa-only" else spec.ips for spec in specs)

    def node_addresses(self, zone: str) -> int:
        """IP addresses the nodes of a zone take from its subnet at full count, those that Karpenter adds included."""
        return sum(self.most_nodes(group) * self.addresses(group) for group in self.groups if self.zone(group) == zone)

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

"""The figures that follow from an environment's settings: subnets, checks and pod resources. No AWS call, no guess."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import yaml

from environments.model import DeepHealthCheck, Environment, InstanceGroup, InstanceTypeFigures, RayWorkerGroup

SYSTEM_VCPUS = 1
"""vCPUs left to the kubelet and the daemon sets of a node."""
SYSTEM_MEMORY_SHARE = 0.08
"""Share of a node's memory left to the system, the kubelet and the daemon sets."""


@functools.cache
def catalogue() -> dict[str, InstanceTypeFigures]:
    """Figures of the known instance types (`environments/instance_types.yaml`)."""
    text = (Path(__file__).parent / "instance_types.yaml").read_text(encoding="utf-8")
    return {name: InstanceTypeFigures.model_validate(row) for name, row in yaml.safe_load(text).items()}


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
class Plan:
    """An environment's settings with what follows from them."""

    name: str
    settings: Environment

    def figures(self, instance_type: str) -> InstanceTypeFigures:
        """Figures of an instance type: the file's own first, then the catalogue's. KeyError when neither has it."""
        return self.settings.instance_types.get(instance_type) or catalogue()[instance_type]

    def group(self, name: str) -> InstanceGroup:
        """The instance group called `name`. KeyError when there is none."""
        return {group.name: group for group in self.settings.hyperpod.instance_groups}[name]

    def zone(self, group: InstanceGroup) -> str:
        """Availability zone ID of a group."""
        return group.availability_zone_id or self.settings.network.availability_zone_ids[0]

    @property
    def node_zones(self) -> list[str]:
        """Zones that hold nodes, in the order of `network.availability_zone_ids`."""
        used = {self.zone(group) for group in self.settings.hyperpod.instance_groups}
        return [zone for zone in self.settings.network.availability_zone_ids if zone in used]

    @property
    def storage_zone(self) -> str:
        """Zone of the file system: as set, else where the first Ray worker group is."""
        storage = self.settings.storage
        if storage.existing is not None:
            return storage.existing.availability_zone_id
        return storage.availability_zone_id or self.zone(self.group(self.settings.ray.workers[0].instance_group))

    def node_addresses(self, zone: str) -> int:
        """IP addresses the nodes of a zone take from its subnet at full count."""
        return sum(
            group.count * self.figures(group.type).ips
            for group in self.settings.hyperpod.instance_groups
            if self.zone(group) == zone
        )

    @property
    def node_subnet_prefix(self) -> int:
        """Prefix length of every node subnet: as set, else a quarter of the VPC each (an eighth with four zones).

        It must not follow the groups' counts: a subnet's CIDR is create-only, so that scaling a group would replace the
        subnets under a running cluster. The checks hold the counts against the size instead.
        """
        network = self.settings.network
        vpc_prefix = int(network.cidr.rpartition("/")[2])
        return network.node_subnet_prefix or vpc_prefix + (2 if len(network.availability_zone_ids) <= 3 else 3)

    def deep_health_checks(self, group: InstanceGroup) -> list[DeepHealthCheck]:
        """Checks a group's nodes pass before they take work; see `InstanceGroup.deep_health_checks` for the default."""
        if group.deep_health_checks is not None:
            return list(group.deep_health_checks)
        if self.figures(group.type).accelerators == 0:
            return []
        return ["InstanceStress", "InstanceConnectivity"] if group.count >= 2 else ["InstanceStress"]

    @property
    def head_resources(self) -> PodResources:
        """Resources of the head pod."""
        head = self.settings.ray.head
        return self._resources(head.instance_group, cpu=head.cpu, memory_gib=head.memory_gib, gpus=0, efa=0, shared=None)

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
        self, group_name: str, *, cpu: int | None, memory_gib: int | None, gpus: int | None, efa: int | None, shared: int | None
    ) -> PodResources:
        group = self.group(group_name)
        figures = self.figures(group.type)
        vcpus = figures.vcpus * group.threads_per_core // 2
        memory = memory_gib or max(1, math.floor(figures.memory_gib * (1 - SYSTEM_MEMORY_SHARE)))
        return PodResources(
            cpu=cpu or max(1, vcpus - SYSTEM_VCPUS),
            memory_gib=memory,
            gpus=figures.accelerators if gpus is None else gpus,
            gpu_resource="aws.amazon.com/neuron" if figures.accelerator == "neuron" else "nvidia.com/gpu",
            efa=figures.efa if efa is None else efa,
            shared_memory_gib=shared or max(1, memory // 4),
        )

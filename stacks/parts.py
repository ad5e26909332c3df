"""The Stage of one environment with its stacks, and those of them that every orchestrator has."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk

from constructs import Construct
from hyperpod_ray.constructs.storage import LustreFileSystem
from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.eks import EksStack
from hyperpod_ray.stacks.hyperpod import HyperPodStack
from hyperpod_ray.stacks.image import ImageStack
from hyperpod_ray.stacks.mirror import MirrorStack
from hyperpod_ray.stacks.network import NetworkStack
from hyperpod_ray.stacks.platform import PlatformStack
from hyperpod_ray.stacks.ray import RayStack
from hyperpod_ray.stacks.slurm import SlurmStack
from hyperpod_ray.stacks.storage import StorageStack


class Parts(cdk.Stage):
    """A Stage with the environment's network. `build` of the orchestrator's module adds the other stacks.

    Args:
        plan: The environment.
        project: Folder of the project.
    """

    network: NetworkStack
    """VPC, subnets, security groups."""
    storage: StorageStack | None = None
    """The file systems; None where a claim makes them, or where they exist."""
    image: ImageStack | None = None
    """The image's repository and build; None where the file names an image."""
    mirror: MirrorStack | None = None
    """Copies of other registries' images; None without `registries.mirror`."""
    control: EksStack | None = None
    """The control plane; None on Slurm."""
    hyperpod: HyperPodStack | SlurmStack
    """The HyperPod cluster."""
    platform: PlatformStack | None = None
    """What runs on nodes for everyone; None on Slurm."""
    ray: RayStack | None = None
    """The RayCluster; None on Slurm."""
    nodes: EksStack | SlurmStack
    """The stack with the role of the nodes and their scripts."""
    watching: PlatformStack | SlurmStack
    """The stack with alarms and dashboard."""

    def __init__(self, scope: Construct, *, plan: CommonPlan, project: Path) -> None:
        settings = plan.settings
        super().__init__(scope, plan.name, env=cdk.Environment(account=settings.account, region=settings.region))
        self.plan = plan
        self.project = project
        self.network = NetworkStack(self, names.NETWORK_STACK, plan=plan)

    def add_file_system(self) -> LustreFileSystem | None:
        """The Storage stack, where the file asks for one; its shared file system."""
        if self.plan.stack_file_system is None and self.plan.new_homes is None:
            return None
        self.storage = StorageStack(self, names.STORAGE_STACK, plan=self.plan, network=self.network.network)
        return self.storage.file_system

    def add_image(self, *, way_out: EnvironmentStack) -> ImageStack | None:
        """The Image stack, where the image is built."""
        built = self.plan.built_image
        if built is None:
            return None
        image = self.image = ImageStack(
            self, names.IMAGE_STACK, plan=self.plan, project=self.project, network=self.network.network
        )
        if built.in_vpc:
            image.add_stack_dependency(way_out, reason="its build runs inside the network")
        return image

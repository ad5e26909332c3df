"""One environment: a CDK Stage with its stacks, in the order of their creation."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk

from constructs import Construct
from hyperpod_ray.constructs.logs import own_function_logs
from hyperpod_ray.constructs.roles import harden_roles
from hyperpod_ray.constructs.storage import LustreFileSystem
from hyperpod_ray.core import names, needs
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import StaticStorage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
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


class EnvironmentStage(cdk.Stage):
    """`cdk deploy "NAME/*"`: the stacks of `hyperpod_ray.core.plan_names.stacks`, in the order of their creation."""

    def __init__(self, scope: Construct, *, plan: CommonPlan, project: Path) -> None:
        settings = plan.settings
        super().__init__(scope, plan.name, env=cdk.Environment(account=settings.account, region=settings.region))
        base = NetworkStack(self, names.NETWORK_STACK, plan=plan)
        if isinstance(plan, SlurmPlan):
            self._on_slurm(plan, base, project)
        elif isinstance(plan, Plan):
            self._on_eks(plan, base, project)
        for stack in self.node.children:
            if isinstance(stack, EnvironmentStack):
                own_function_logs(stack)
                harden_roles(stack)
        for key, value in {**settings.tags, names.ENVIRONMENT_TAG: plan.name}.items():
            cdk.Tags.of(self).add(key, value)

    def _file_system(self, plan: CommonPlan, base: NetworkStack) -> LustreFileSystem | None:
        if not isinstance(plan.settings.storage, StaticStorage):
            return None
        return StorageStack(self, names.STORAGE_STACK, plan=plan, network=base.network).file_system

    def _image(
        self, plan: CommonPlan, base: NetworkStack, project: Path, *, way_out: EnvironmentStack
    ) -> ImageStack | None:
        if plan.built_image is None:
            return None
        image = ImageStack(self, names.IMAGE_STACK, plan=plan, project=project, network=base.network)
        if plan.built_image.in_vpc:
            image.add_stack_dependency(way_out, reason="its build runs inside the network")
        return image

    def _on_slurm(self, plan: SlurmPlan, base: NetworkStack, project: Path) -> None:
        """Network with its way out, storage and image, HyperPod: Slurm needs nothing more."""
        base.open(plan)
        file_system = self._file_system(plan, base)
        image = self._image(plan, base, project, way_out=base)
        hyperpod = SlurmStack(
            self, names.HYPERPOD_STACK, plan=plan, network=base.network, file_system=file_system, project=project
        )
        hyperpod.add_stack_dependency(base, reason="nodes need the way out")
        if image is not None:
            hyperpod.add_stack_dependency(image, reason="the nodes' role names its repository")

    def _on_eks(self, plan: Plan, base: NetworkStack, project: Path) -> None:
        """Network, EKS, storage and image, HyperPod with its nodes, what runs on nodes, Ray."""
        network = base.network
        control = EksStack(self, names.EKS_STACK, plan=plan, network=network, ground=base.ground, project=project)
        control.add_stack_dependency(base, reason="EKS writes into a log group of ours, whose name alone it knows")
        file_system = self._file_system(plan, base)
        built = self._image(plan, base, project, way_out=control)
        image = built.image if built else None
        hyperpod = HyperPodStack(self, names.HYPERPOD_STACK, plan=plan, network=network, control=control)
        hyperpod.add_stack_dependency(control, reason="add-ons, chart, scripts and access entry come first")
        platform = PlatformStack(
            self,
            names.PLATFORM_STACK,
            plan=plan,
            network=network,
            control=control,
            cluster_arn=hyperpod.hyperpod.cluster.attr_cluster_arn,
            file_system=file_system,
        )
        platform.add_stack_dependency(hyperpod, reason="its pods need nodes")
        if needs.copies(plan):
            mirror = MirrorStack(self, names.MIRROR_STACK, plan=plan)
            hyperpod.add_stack_dependency(mirror, reason="device plugins pull from it as soon as there are nodes")
        ray = RayStack(
            self,
            names.RAY_STACK,
            plan=plan,
            network=network,
            eks=control.eks,
            image=image,
            file_system=file_system,
            claim_waiter=hyperpod.claim_waiter,
            cluster_arn=hyperpod.hyperpod.cluster.attr_cluster_arn,
        )
        ray.add_stack_dependency(
            platform, reason="the operator makes the cluster, the driver its volume; on destroy they go last"
        )

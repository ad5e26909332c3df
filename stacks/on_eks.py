"""The stacks of an environment on EKS."""

from __future__ import annotations

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.stacks.eks import EksStack
from hyperpod_ray.stacks.hyperpod import HyperPodStack
from hyperpod_ray.stacks.mirror import MirrorStack
from hyperpod_ray.stacks.parts import Parts
from hyperpod_ray.stacks.platform import PlatformStack
from hyperpod_ray.stacks.ray import RayStack


def build(stage: Parts, plan: Plan) -> None:
    """Network, EKS, storage and image, HyperPod with its nodes, what runs on nodes, Ray."""
    base, network = stage.network, stage.network.network
    control = stage.control = stage.nodes = EksStack(
        stage,
        names.EKS_STACK,
        plan=plan,
        network=network,
        prerequisites=base.prerequisites,
        project=stage.project,
    )
    control.add_stack_dependency(base, reason="EKS writes into a log group of ours, whose name alone it knows")
    file_system = stage.add_file_system()
    built = stage.add_image(way_out=control)
    hyperpod = stage.hyperpod = HyperPodStack(stage, names.HYPERPOD_STACK, plan=plan, network=network, control=control)
    hyperpod.add_stack_dependency(control, reason="add-ons, chart, scripts and access entry come first")
    cluster_arn = hyperpod.hyperpod.cluster.attr_cluster_arn
    platform = stage.platform = stage.watching = PlatformStack(
        stage,
        names.PLATFORM_STACK,
        plan=plan,
        network=network,
        control=control,
        cluster_arn=cluster_arn,
        file_system=file_system,
    )
    platform.add_stack_dependency(hyperpod, reason="its pods need nodes")
    if needs.copies(plan):
        mirror = stage.mirror = MirrorStack(stage, names.MIRROR_STACK, plan=plan)
        hyperpod.add_stack_dependency(mirror, reason="device plugins pull from it as soon as there are nodes")
    ray = stage.ray = RayStack(
        stage,
        names.RAY_STACK,
        plan=plan,
        network=network,
        eks=control.eks,
        image=built.image if built else None,
        file_system=file_system,
        claim_waiter=hyperpod.claim_waiter,
        cluster_arn=cluster_arn,
    )
    ray.add_stack_dependency(
        platform, reason="the operator makes the cluster, the driver its volume; on destroy they go last"
    )

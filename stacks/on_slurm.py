"""The stacks of an environment on Slurm."""

from __future__ import annotations

from hyperpod_ray.core import names
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.stacks.parts import Parts
from hyperpod_ray.stacks.slurm import SlurmStack


def build(stage: Parts, plan: SlurmPlan) -> None:
    """Network with its way out, storage and image, HyperPod: Slurm needs nothing more."""
    base = stage.network
    base.open(plan)
    file_system = stage.add_file_system()
    image = stage.add_image(way_out=base)
    hyperpod = stage.hyperpod = stage.nodes = stage.watching = SlurmStack(
        stage,
        names.HYPERPOD_STACK,
        plan=plan,
        network=base.network,
        file_system=file_system,
        homes=stage.storage.homes if stage.storage else None,
        project=stage.project,
    )
    hyperpod.add_stack_dependency(base, reason="nodes need the way out")
    if image is not None:
        hyperpod.add_stack_dependency(image, reason="the nodes' role names its repository")

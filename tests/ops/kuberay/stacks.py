"""The stacks of the third orchestrator: a network with its way out, which `Parts` made, is all that it stands on."""

from __future__ import annotations

from hyperpod_ray.stacks.parts import Parts
from tests.ops.kuberay import KubeRayPlan


def build(stage: Parts, plan: KubeRayPlan) -> None:
    stage.network.open(plan)

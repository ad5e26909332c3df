"""What a snapshot of an environment on EKS asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray.ops.observe import account, hyperpod, kube, training
from hyperpod_ray.ops.observe.snapshot import CONTROLLERS, EKS, HANGS, NODES, TRAINING, Unseen
from hyperpod_ray.ops.orchestrators.interface import Noted
from hyperpod_ray.ops.reach.clients import Target


class EksSources:
    """Sources of one environment."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def tasks(self, unseen: list[Unseen], noted: Noted) -> dict[str, Callable[[], dict[str, Any]]]:
        """CloudFormation, EKS, HyperPod and FSx, and what Kubernetes and Ray say."""
        target = self.target
        return {
            "CloudFormation": lambda: account.stacks_part(target),
            EKS: lambda: account.control_plane_part(target, unseen),
            "HyperPod": lambda: hyperpod.cluster_part(target),
            "HyperPod events": lambda: hyperpod.events_part(target),
            "FSx": lambda: account.file_systems_part(target),
            "Kubernetes": lambda: kube.kubernetes_part(target, unseen),
            NODES: lambda: {"nodes": kube.nodes(target)},
            CONTROLLERS: lambda: kube.controllers_part(target, unseen),
            TRAINING: lambda: training.gathered(target, noted=lambda: noted(TRAINING)),
            HANGS: lambda: hyperpod.hangs_part(target),
        }

    def identity(self) -> dict[str, Any]:
        """Names of what is in Kubernetes."""
        ray = self.target.plan.settings.ray
        return {
            "namespace": ray.namespace,
            "ray_cluster": ray.cluster_name,
            "eks_cluster": self.target.plan.eks_cluster_name,
            "idle_hours": ray.idle_hours,
        }

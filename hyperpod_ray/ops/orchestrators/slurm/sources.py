"""What a snapshot of an environment on Slurm asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray.ops.observe import account, hyperpod, slurm
from hyperpod_ray.ops.observe.snapshot import SLURM, Unseen
from hyperpod_ray.ops.orchestrators.interface import Noted
from hyperpod_ray.ops.reach.clients import SlurmTarget


class SlurmSources:
    """Sources of one environment."""

    def __init__(self, target: SlurmTarget) -> None:
        self.target = target

    def tasks(self, unseen: list[Unseen], noted: Noted) -> dict[str, Callable[[], dict[str, Any]]]:
        """CloudFormation, HyperPod and FSx, and what the Slurm controller says."""
        del unseen, noted
        target = self.target
        return {
            "CloudFormation": lambda: account.stacks_part(target),
            "HyperPod": lambda: hyperpod.cluster_part(target),
            "HyperPod events": lambda: hyperpod.events_part(target),
            "FSx": lambda: account.file_systems_part(target),
            SLURM: lambda: {"slurm": slurm.look(target, hyperpod.cluster(target), hyperpod.instances(target))},
        }

    def identity(self) -> dict[str, Any]:
        """Nothing is in Kubernetes."""
        return {}

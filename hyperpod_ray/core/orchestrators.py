"""The kinds of environments: each orchestrator with its settings and the plan that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import CommonEnvironment, Environment
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan

DEFAULT = "eks"
"""What an environment file without the setting `orchestrator` has."""


@dataclass(frozen=True, kw_only=True)
class Orchestrator:
    """One kind of environments."""

    settings: type[CommonEnvironment]
    """The model of its files."""
    plan: Callable[..., CommonPlan]
    """What follows from them: called with `name` and `settings`."""
    stacks: str
    """The module of its stacks: `build(stage, plan)` adds to a Stage what stands on the network."""
    operations: str
    """The package that operates such an environment: `hyperpod_ray.ops.orchestrators.interface` says what it has."""


ORCHESTRATORS: dict[str, Orchestrator] = {
    "eks": Orchestrator(
        settings=Environment,
        plan=Plan,
        stacks="hyperpod_ray.stacks.on_eks",
        operations="hyperpod_ray.ops.orchestrators.eks",
    ),
    "slurm": Orchestrator(
        settings=SlurmEnvironment,
        plan=SlurmPlan,
        stacks="hyperpod_ray.stacks.on_slurm",
        operations="hyperpod_ray.ops.orchestrators.slurm",
    ),
}
"""Every value of the setting `orchestrator`."""


def of_file(data: dict[str, Any]) -> str | None:
    """The orchestrator that a file names, or the default; None where it names something else."""
    named = data.get("orchestrator", DEFAULT)
    return named if isinstance(named, str) and named in ORCHESTRATORS else None

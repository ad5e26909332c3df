"""What differs between orchestrators. Each is a package of its own; this is the one place that asks which it is.

`hyperpod_ray.core.orchestrators` names the package of each. Every command asks `of(target)` for its parts and knows
nothing else of the orchestrator. `interface.py` says what a package has to have.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hyperpod_ray import core
from hyperpod_ray.core.orchestrators import ORCHESTRATORS
from hyperpod_ray.ops.errors import guarded

if TYPE_CHECKING:
    from hyperpod_ray.ops.orchestrators.interface import AnyOrchestrator, Operations
    from hyperpod_ray.ops.reach.clients import AnyTarget
    from hyperpod_ray.ops.reach.tunnel import Mode


def named(name: str) -> AnyOrchestrator:
    """The orchestrator that an environment file calls `name`."""
    return cast("AnyOrchestrator", importlib.import_module(ORCHESTRATORS[name].operations).ORCHESTRATOR)


def of(target: AnyTarget) -> Operations:
    """The operations of an environment."""
    return named(target.plan.settings.orchestrator).operations(target)


def any_target(name: str, *, folder: Path | None = None, mode: Mode = "auto") -> AnyTarget:
    """The environment called `name`, whatever orchestrates it."""
    with guarded(name):
        file = core.load_any(name, folder=folder) if folder else core.load_any(name)
    return named(file.settings.orchestrator).target(file, folder=folder, mode=mode)

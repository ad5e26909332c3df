"""Commands that Slurm has no use for."""

from __future__ import annotations

from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.core.orchestrator_support import Instead, instead
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.reach.clients import AnyTarget


def refused_command(target: AnyTarget, words: str) -> OpsError:
    """The error of a command that has nothing to do here; it names what to use in its place."""
    decided = instead(target.plan.settings.orchestrator, words, [])
    other = decided[1] if decided else Instead(why="it has no such command", use="hyperpod-ray --help")
    return OpsError(
        f"{PROGRAM} {words}: environment '{target.name}' is on Slurm: {other.why}",
        expected="an environment with orchestrator eks",
        fix=other.use.format(env=target.name),
        code=BAD_USE,
    )

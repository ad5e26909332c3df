"""What reading the environment file has said."""

from __future__ import annotations

from hyperpod_ray.ops.orchestrators.check import Outcome, ok, warning
from hyperpod_ray.ops.reach.clients import AnyTarget


def environment_file(target: AnyTarget) -> list[Outcome]:
    """The file has been read without errors by now; what remains are its warnings."""
    warnings = [
        warning(f"line {problem.line}, {problem.path}: {problem.what}", expected=problem.expected, fix=problem.fix)
        for problem in target.file.warnings
    ]
    groups = target.plan.groups
    return warnings or [ok(f"{sum(group.count for group in groups)} nodes in {len(groups)} groups")]

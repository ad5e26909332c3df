"""What a change of the file system does to the run that an environment trains: goodput and the end."""

from __future__ import annotations

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.planner import PlanError, checks
from hyperpod_ray.planner.ranges import DAY
from hyperpod_ray.planner.storage import FileSystem


def storage_sentence(plan: CommonPlan, before: FileSystem, after: FileSystem) -> str:
    """One sentence with central figures, each side at its best interval; empty where nothing is planned or changes."""
    try:
        outlook = checks.outlook(plan)
        if outlook is None or before == after:
            return ""
        sides = [outlook.on(system) for system in (before, after)]
        shares = [side.interval.goodput for side in sides]
        words = f"goodput {shares[0]:.1%} → {shares[1]:.1%}".replace("%", " %")
        if outlook.work_seconds is not None and min(shares) > 0:
            days = outlook.work_seconds.central / DAY * (1 / shares[1] - 1 / shares[0])
            words += f", {days:+.1f} days to the end"
    except PlanError:
        return ""  # `env check` says why
    run = outlook.job
    return f"training ({run.model.name}, {run.save}hronous saves, central figures of `hyperpod-ray plan`): {words}"

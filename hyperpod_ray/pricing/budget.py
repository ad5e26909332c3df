"""What an environment costs beside the budget of its own file."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, warning
from hyperpod_ray.pricing.prices import HOURS_PER_MONTH, Cost

PATH = ("budget", "usd_per_month")


def findings(plan: CommonPlan, cost: Cost) -> Iterator[Finding]:
    """A warning where the environment at full count costs more than its budget, or may by autoscaling.

    Args:
        plan: The environment.
        cost: What it costs, at known prices. Unknown ones are not in the sums, so that it may cost more.
    """
    budget = plan.settings.budget
    if budget is None:
        return
    limit, month = budget.usd_per_month, cost.usd_per_month
    mark = "~" if cost.estimated else ""
    if month > limit:
        yield warning(
            *PATH,
            what=f"{limit:,.0f} $ per month, and the environment costs {mark}{month:,.0f} at full count",
            expected=f"{month:,.0f} or more, or a smaller environment",
            fix=f"set budget.usd_per_month: {_rounded(month)}, or lower the count of a group",
        )
        return
    highest = cost.most_usd_per_hour * HOURS_PER_MONTH
    if cost.unbounded or highest > limit:
        names = ", ".join(line.name for line in cost.unbounded)
        yield warning(
            *PATH,
            what=f"{limit:,.0f} $ per month, and with what autoscaling may add the environment costs "
            + (f"as much as quota and capacity allow ({names})" if names else f"{mark}{highest:,.0f}"),
            expected="autoscaling that ends within the budget",
            fix="give ray.workers of the group a smaller max_replicas, or raise the budget",
        )


def _rounded(usd: float) -> int:
    """The next whole thousand, above a thousand the next of its third digit."""
    step = max(100, 10 ** (len(str(int(usd))) - 3))
    return int(-(-usd // step) * step)

"""Rules about mails: an alarm or a budget that reaches nobody."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, rule, warning
from hyperpod_ray.core.plan import Plan


@rule("hyperpod", "budget")
def somebody_gets_the_budgets_mails(plan: CommonPlan) -> Iterator[Finding]:
    """A budget publishes to the topic of all alarms, and `hyperpod.alarm_emails` are its subscribers.

    https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
    """
    if plan.settings.budget is not None and not plan.settings.hyperpod.alarm_emails:
        yield warning(
            "budget",
            what="its mails go to nobody: hyperpod.alarm_emails is empty",
            expected="an address",
            fix="set hyperpod.alarm_emails: [name@example.com], or subscribe to the topic yourself",
        )


@rule("hyperpod", "observability")
def somebody_gets_the_alerts(plan: Plan) -> Iterator[Finding]:
    """The alert manager publishes to the same topic."""
    if plan.settings.observability is not None and not plan.settings.hyperpod.alarm_emails:
        yield warning(
            "observability",
            what="its alerts go to nobody: hyperpod.alarm_emails is empty",
            expected="an address",
            fix="set hyperpod.alarm_emails: [name@example.com], or subscribe to the topic yourself",
        )

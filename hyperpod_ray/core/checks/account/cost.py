"""Rules about money in the account: whether AWS counts what the budget is about."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, code
from hyperpod_ray.core.findings import Finding, fine, rule, skipped, unknown, warning
from hyperpod_ray.core.names import ENVIRONMENT_TAG

ACTIVATE = f"activate {ENVIRONMENT_TAG} under Cost allocation tags of the Billing console, in the payer's account"


@rule("budget", needs="account", title="cost allocation tag")
def the_budgets_tag_is_active(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """AWS Budgets counts by a tag from the day on which it is active as a cost allocation tag. No template can do that.

    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html
    """
    if plan.settings.budget is None:
        yield skipped("the file has no budget")
        return
    try:
        listed = account.call("ce", "list_cost_allocation_tags", TagKeys=[ENVIRONMENT_TAG])["CostAllocationTags"]
    except Exception as bad:
        if code(bad) not in ("AccessDeniedException", "UnauthorizedException"):
            raise
        yield unknown(
            "budget",
            what="these credentials may not list cost allocation tags, which in an organization only the payer may",
            expected=f"{ENVIRONMENT_TAG} to be active, else the budget counts nothing",
            fix=ACTIVATE,
        )
        return
    if any(tag["Status"] == "Active" for tag in listed):
        yield fine(what=f"{ENVIRONMENT_TAG} is active")
        return
    yield warning(
        "budget",
        what=f"{ENVIRONMENT_TAG} is no active cost allocation tag, so that the budget counts nothing",
        expected="an active cost allocation tag. AWS lists a tag within a day of its first use",
        fix=ACTIVATE,
    )

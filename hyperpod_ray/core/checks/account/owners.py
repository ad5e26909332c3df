"""Which CloudFormation stack a name that is taken belongs to."""

from __future__ import annotations

from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, absent, code


def owner(account: Account, physical_id: str) -> str | None:
    """Name of the stack that has a resource of that physical ID in this Region; None where none does.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResources.html
    """
    try:
        answer = account.call("cloudformation", "describe_stack_resources", PhysicalResourceId=physical_id)
    except Exception as bad:
        if code(bad) == "ValidationError" or absent(bad):
            return None
        raise
    resources = answer.get("StackResources") or []
    matches = [resource for resource in resources if resource.get("PhysicalResourceId") == physical_id]
    return str(matches[0]["StackName"]) if matches else None


def ours(plan: CommonPlan, stack: str) -> bool:
    """Whether a stack is one of this environment's."""
    return stack in {names.stack_name(plan.name, short_name) for short_name in names.STACKS}

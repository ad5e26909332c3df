"""Each number of days that an environment file may keep logs for is that number in the template."""

from __future__ import annotations

from typing import get_args

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from hyperpod_ray.constructs.logs import named_log_group
from hyperpod_ray.core.model.words import LogRetentionDays


def test_every_retention_is_the_number_of_its_days() -> None:
    """CloudFormation's `RetentionInDays` of AWS::Logs::LogGroup, by way of the CDK's names for it."""
    stack = Stack(App(), "Test")
    for days in get_args(LogRetentionDays):
        named_log_group(
            stack, f"Group{days}", name=f"kept-{days}", retention_days=days, protected=days > 365, exists=False
        )
    named_log_group(stack, "There", name="there", retention_days=30, protected=False, exists=True)
    groups = Template.from_stack(stack).find_resources("AWS::Logs::LogGroup").values()
    kept = {group["Properties"]["LogGroupName"]: group for group in groups}
    assert set(kept) == {f"kept-{days}" for days in get_args(LogRetentionDays)}
    for days in get_args(LogRetentionDays):
        group = kept[f"kept-{days}"]
        assert group["Properties"]["RetentionInDays"] == days
        assert group["DeletionPolicy"] == ("RetainExceptOnCreate" if days > 365 else "Delete")

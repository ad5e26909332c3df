"""Log groups that belong to their stack: with retention, and gone when it is."""

from __future__ import annotations

from aws_cdk import CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

from constructs import Construct

_DAYS = {
    1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
    90: "THREE_MONTHS", 120: "FOUR_MONTHS", 150: "FIVE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS", 545: "EIGHTEEN_MONTHS", 731: "TWO_YEARS", 1096: "THREE_YEARS", 1827: "FIVE_YEARS",
    2192: "SIX_YEARS", 2557: "SEVEN_YEARS", 3653: "TEN_YEARS",
}  # fmt: skip


def retention(days: int) -> logs.RetentionDays:
    """The enumeration's member for a number of days that CloudWatch Logs allows. KeyError for any other number."""
    return logs.RetentionDays[_DAYS[days]]


def named_log_group(
    scope: Construct, construct_id: str, *, name: str | None, retention_days: int, protected: bool, exists: bool
) -> logs.ILogGroup:
    """A log group (`AWS::Logs::LogGroup`), or the one of a fixed name that is there, used as it is.

    Args:
        scope: Parent of the construct.
        construct_id: Its id.
        name: Physical name, by which a later deployment finds the group that an earlier one kept. None:
            CloudFormation generates it.
        retention_days: How long a new group keeps its lines.
        protected: Keep a new group when its stack goes.
        exists: Whether the group is there already: it is then neither created, changed nor deleted.
    """
    if exists and name is not None:
        return logs.LogGroup.from_log_group_name(scope, construct_id, name)
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=retention(retention_days),
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protected else RemovalPolicy.DESTROY,
    )


def own_function_logs(stack: Stack) -> None:
    """Give every function of a stack that has none a log group of the stack (`AWS::Logs::LogGroup`, one month).

    Otherwise Lambda makes `/aws/lambda/<function>` at the first call: without retention, and left behind on destroy.
    The functions of the CDK's own providers are reached by property override, as they are no `CfnFunction`.
    """
    for resource in stack.node.find_all():
        if isinstance(resource, lambda_.CfnFunction):
            if _has_group(resource):
                continue
        # only of plain resources the type is asked for: each question crosses over to Node.js
        elif type(resource) is not CfnResource or resource.cfn_resource_type != "AWS::Lambda::Function":
            continue
        scope = resource.node.scope
        assert isinstance(scope, Construct)  # noqa: S101  (narrowing only: a resource is never the root)
        group = logs.LogGroup(
            scope, "OwnLogs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        resource.add_property_override("LoggingConfig.LogGroup", group.log_group_name)


def _has_group(function: lambda_.CfnFunction) -> bool:
    # the provider framework sets a log level and no group
    config = function.logging_config
    return isinstance(config, lambda_.CfnFunction.LoggingConfigProperty) and config.log_group is not None

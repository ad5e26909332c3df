"""A custom resource that waits: the CDK's provider framework around a handler with `on_event` and `is_complete`."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Duration, RemovalPolicy, custom_resources
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions

from constructs import Construct

HANDLERS = Path(__file__).parent / "handlers"


def waiter(
    scope: Construct,
    *,
    handler: str,
    asks: iam.PolicyStatement,
    query_interval: Duration,
    total_timeout: Duration,
) -> custom_resources.Provider:
    """Make the provider of a custom resource that waits until its handler says that it is complete.

    Args:
        scope: Where its two functions, their log groups and the framework's state machine belong.
        handler: Folder in `handlers/` with `index.py`.
        asks: What `is_complete` may ask.
        query_interval: Time between two questions.
        total_timeout: After which the resource fails. CloudFormation itself gives up after an hour.
    """
    code = lambda_.Code.from_asset(str(HANDLERS / handler))

    def log_group(name: str) -> logs.LogGroup:
        return logs.LogGroup(
            scope, f"{name}Logs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )

    def function(name: str, entry_point: str) -> lambda_.Function:
        return lambda_.Function(
            scope,
            name,
            runtime=lambda_.Runtime.PYTHON_3_14,
            handler=f"index.{entry_point}",
            code=code,
            timeout=Duration.minutes(1),
            log_group=log_group(name),
        )

    is_complete = function("IsComplete", "is_complete")
    is_complete.add_to_role_policy(asks)
    return custom_resources.Provider(
        scope,
        "Provider",
        on_event_handler=function("OnEvent", "on_event"),
        is_complete_handler=is_complete,
        query_interval=query_interval,
        total_timeout=total_timeout,
        disable_waiter_state_machine_logging=False,
        waiter_state_machine_log_options=custom_resources.LogOptions(
            destination=log_group("Waiter"), level=stepfunctions.LogLevel.ALL
        ),
    )

"""No file system of a claim is left behind."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import CustomResource, Duration, RemovalPolicy, custom_resources
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions

from constructs import Construct
from core.names import ENVIRONMENT_TAG


class ClaimGuard(Construct):
    """Holds a destroy until file systems that claims made are really gone.

    Kubernetes answers a claim's deletion long before FSx is done, and the kubectl handler swallows errors of a delete;
    when the driver or its role go first, the file system stays, costs money, and its network interface blocks the
    VPC's deletion. The claim's manifest depends on this resource, so on destroy the claim goes first, then this waits,
    and only then the driver's stack may go. After `total_timeout` the destroy fails instead of orphaning anything.

    Creates a custom resource with two functions and the waiter state machine of the CDK's provider framework.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment_name: str, total_timeout: Duration | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        code = lambda_.Code.from_asset(str(Path(__file__).parent / "handlers" / "file_systems_gone"))

        def log_group(name: str) -> logs.LogGroup:
            return logs.LogGroup(
                self, f"{name}Logs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
            )

        def function(name: str, handler: str) -> lambda_.Function:
            return lambda_.Function(
                self,
                name,
                runtime=lambda_.Runtime.PYTHON_3_14,
                handler=f"index.{handler}",
                code=code,
                timeout=Duration.minutes(1),
                log_group=log_group(name),
            )

        is_complete = function("IsComplete", "is_complete")
        is_complete.add_to_role_policy(iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"]))
        provider = custom_resources.Provider(
            self,
            "Provider",
            on_event_handler=function("OnEvent", "on_event"),
            is_complete_handler=is_complete,
            query_interval=Duration.seconds(20),
            total_timeout=total_timeout or Duration.hours(1),
            disable_waiter_state_machine_logging=False,
            waiter_state_machine_log_options=custom_resources.LogOptions(
                destination=log_group("Waiter"), level=stepfunctions.LogLevel.ALL
            ),
        )
        self.resource = CustomResource(
            self,
            "FileSystems",
            service_token=provider.service_token,
            resource_type="Custom::FileSystemsOfClaims",
            properties={"TagKey": ENVIRONMENT_TAG, "TagValue": environment_name},
        )

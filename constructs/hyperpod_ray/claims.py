"""No file system of a claim is left behind."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam

from constructs import Construct
from core.names import ENVIRONMENT_TAG
from hyperpod_ray.waiter import waiter


class ClaimWaiter(Construct):
    """The functions that `ClaimGuard` waits with: apart, so that they are created beside what takes longer.

    Creates two functions and the waiter state machine of the CDK's provider framework.

    Args:
        total_timeout: After which a destroy fails instead of orphaning a file system. Default: 1 hour.
    """

    def __init__(self, scope: Construct, construct_id: str, *, total_timeout: Duration | None = None) -> None:
        super().__init__(scope, construct_id)
        self.service_token = waiter(
            self,
            handler="file_systems_gone",
            asks=iam.PolicyStatement(actions=["fsx:DescribeFileSystems"], resources=["*"]),
            query_interval=Duration.seconds(20),
            total_timeout=total_timeout or Duration.hours(1),
        ).service_token


class ClaimGuard(Construct):
    """Holds a destroy until file systems that claims created are really gone.

    Kubernetes answers a claim's deletion long before FSx is done, and the kubectl handler swallows errors of a delete;
    when the driver or its role go first, the file system stays, costs money, and its network interface blocks the
    VPC's deletion. The claim's manifest depends on this resource, so on destroy the claim goes first, then this waits,
    and only then the driver's stack may go.

    Creates one custom resource.

    Args:
        environment_name: Its file systems carry this in their tag.
        waiter: `ClaimWaiter`, of a stack that is there before this one and goes after it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment_name: str, waiter: ClaimWaiter) -> None:
        super().__init__(scope, construct_id)
        self.resource = CustomResource(
            self,
            "FileSystems",
            service_token=waiter.service_token,
            resource_type="Custom::FileSystemsOfClaims",
            properties={"TagKey": ENVIRONMENT_TAG, "TagValue": environment_name},
        )

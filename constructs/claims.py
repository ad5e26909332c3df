"""File systems that claims make: what waits until one is there, and until all are gone."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.waiter import waiter
from hyperpod_ray.core.names import ENVIRONMENT_TAG


class ClaimWaiter(Construct):
    """What `ClaimGuard` and `ClaimedFileSystem` wait with: apart, so that it is created beside what takes longer.

    Creates two functions and the waiter state machine of the CDK's provider framework.

    Args:
        total_timeout: After which a deploy fails, and a destroy fails instead of orphaning a file system. Default: 1
            hour.
    """

    def __init__(self, scope: Construct, construct_id: str, *, total_timeout: Duration | None = None) -> None:
        super().__init__(scope, construct_id)
        self.service_token = waiter(
            self,
            handler="file_systems_of_claims",
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


class ClaimedFileSystem(Construct):
    """The file system that a claim makes, for a volume of it in another namespace: a claim mounts in its own only.

    A new file system takes about ten minutes, and the kubectl function ends after 15: so a waiter waits until FSx has
    created it, and the function reads its identifiers then. They depend on `ready`; make `ready` depend on the claim.

    Creates four custom resources.

    Args:
        cluster: Where the claim is.
        namespace: The claim's namespace.
        claim: Its name.
        environment_name: The claim's file system carries this in its tag.
        waiter: `ClaimWaiter`, of a stack that is there before this one and goes after it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        namespace: str,
        claim: str,
        environment_name: str,
        waiter: ClaimWaiter,
    ) -> None:
        super().__init__(scope, construct_id)
        self.ready = CustomResource(
            self,
            "Ready",
            service_token=waiter.service_token,
            resource_type="Custom::FileSystemOfClaim",
            properties={"TagKey": ENVIRONMENT_TAG, "TagValue": environment_name},
        )

        def value(name: str, object_type: str, object_name: str, path: str, *, inside: str | None = None) -> str:
            lookup = eks.KubernetesObjectValue(
                self,
                name,
                cluster=cluster,
                object_type=object_type,
                object_name=object_name,
                object_namespace=inside,
                json_path=path,
            )
            lookup.node.add_dependency(self.ready)
            return lookup.value

        volume = value("Volume", "persistentvolumeclaim", claim, ".spec.volumeName", inside=namespace)
        self.file_system_id = value("Id", "persistentvolume", volume, ".spec.csi.volumeHandle")
        stack = Stack.of(self)
        self.dns_name = f"{self.file_system_id}.fsx.{stack.region}.{stack.url_suffix}"
        self.mount_name = value("MountName", "persistentvolume", volume, ".spec.csi.volumeAttributes.mountname")

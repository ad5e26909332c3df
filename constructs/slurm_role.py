"""The role of HyperPod nodes that Slurm orchestrates."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs import Construct
from hyperpod_ray.constructs.access import BucketAccess
from hyperpod_ray.constructs.access import statements as access

_DESCRIPTIONS = [
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
]


class SlurmExecutionRole(Construct):
    """The IAM role that HyperPod gives the nodes of a Slurm cluster (`AWS::IAM::Role`, `AWS::IAM::ManagedPolicy`).

    Managed policy `AmazonSageMakerClusterInstanceRolePolicy`, and the network interfaces that a cluster in a VPC needs.
    Jobs take the role of their node through instance metadata, as Slurm has no identities of its own: it may read the
    image's repositories and the script's bucket where the environment has them, and of other data what its group's
    `access` names. The accounting database's secret is for the controller's role, on whose node no job runs.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html#sagemaker-hyperpod-prerequisites-iam-role-for-hyperpod

    Args:
        vpc_id: The cluster's VPC; interfaces of another one are out of reach.
        scripts: Bucket with the script that extends AWS's set-up. None: there is none.
        repository: The one that the Image stack makes. None: no image is built.
        pull_from: ARNs of other repositories that jobs pull from.
        secret_arn: Secret of the accounting database. None: the database is on the controller.
        secret_key_arn: Customer managed key of that secret. None: the service's own.
        buckets: Buckets and prefixes that the group's jobs may use. Default: none.
        kms_key_arns: Keys of these buckets and secrets. Default: none.
        secret_arns: Secrets in AWS Secrets Manager that the group's jobs may read. Default: none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        scripts: s3.IBucket | None,
        repository: ecr.IRepository | None,
        pull_from: Sequence[str],
        secret_arn: str | None,
        secret_key_arn: str | None = None,
        buckets: Sequence[BucketAccess] = (),
        kms_key_arns: Sequence[str] = (),
        secret_arns: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        managed = iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
        self.role = iam.Role(
            self, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"), managed_policies=[managed]
        )
        ec2_arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
        images = [*([repository.repository_arn] if repository else []), *pull_from]
        statements = [*_networking(ec2_arn, vpc_id), *_images(images)]
        if secret_arn is not None:
            statements.append(
                iam.PolicyStatement(
                    sid="AccountingSecret", actions=["secretsmanager:GetSecretValue"], resources=[secret_arn]
                )
            )
        if secret_key_arn is not None:
            through = {"kms:ViaService": f"secretsmanager.{stack.region}.amazonaws.com"}
            statements.append(
                iam.PolicyStatement(
                    sid="AccountingSecretKey",
                    actions=["kms:Decrypt"],
                    resources=[secret_key_arn],
                    conditions={"StringEquals": through},
                )
            )
        iam.ManagedPolicy(
            self,
            "Policy",
            description="HyperPod nodes on Slurm: network interfaces, images, accounting",
            roles=[self.role],
            statements=statements,
        )
        for statement in access(
            stack, buckets=buckets, kms_key_arns=kms_key_arns, secret_arns=secret_arns, uploads=False
        ):
            self.role.add_to_policy(statement)
        if scripts is not None:
            scripts.grant_read(self.role)


def _networking(ec2_arn: str, vpc_id: str) -> list[iam.PolicyStatement]:
    """Network interfaces of this VPC only; a new one is limited by the subnet and groups that it is created with.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    in_vpc = {"ArnEquals": {"ec2:Vpc": f"{ec2_arn}:vpc/{vpc_id}"}}
    interfaces = f"{ec2_arn}:network-interface/*"
    return [
        iam.PolicyStatement(sid="NewInterfaces", actions=["ec2:CreateNetworkInterface"], resources=[interfaces]),
        iam.PolicyStatement(
            sid="Interfaces",
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DetachNetworkInterface",
            ],
            resources=[
                f"{ec2_arn}:{resource_type}/*" for resource_type in ("network-interface", "subnet", "security-group")
            ],
            conditions=in_vpc,
        ),
        iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces]),
        # these know no resources
        iam.PolicyStatement(
            sid="TakeBackInterfaces", actions=["ec2:DeleteNetworkInterfacePermission"], resources=["*"]
        ),
        iam.PolicyStatement(sid="Describe", actions=_DESCRIPTIONS, resources=["*"]),
    ]


def _images(repositories: Sequence[str]) -> list[iam.PolicyStatement]:
    """Pulling by Enroot; the registry's token knows no resources."""
    if not repositories:
        return []
    pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    return [
        iam.PolicyStatement(sid="RegistryToken", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(sid="PullImages", actions=pull, resources=list(repositories)),
    ]

"""The role of HyperPod nodes."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from constructs import Construct

_INTERFACE_CHANGES = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
]
_DESCRIPTIONS = [
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcs",
]


class ExecutionRole(Construct):
    """The IAM role that HyperPod gives its nodes (`AWS::IAM::Role`), and its way into the cluster.

    Managed policy `AmazonSageMakerClusterInstanceRolePolicy`; network interfaces as the VPC CNI needs them; pulling
    images from this account's registry; Pod Identity for this cluster. No S3 but the lifecycle bucket: training reads
    and writes with the pods' own identities. Also creates the access entry of type `HYPERPOD_LINUX`.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html#sagemaker-hyperpod-prerequisites-iam-role-for-hyperpod

    Args:
        repository: The one that the Image stack makes; None: no image is built.
        pull_from: ARNs of all other repositories that nodes pull from; `hyperpod_ray.core.needs.repositories`.
        caches: Those among them that pull-through caches fill; `hyperpod_ray.core.needs.cache_repositories`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        vpc_id: str,
        lifecycle: s3.IBucket,
        repository: ecr.IRepository | None,
        pull_from: Sequence[str],
        caches: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
            ],
        )
        ec2_arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description="HyperPod nodes on EKS: network interfaces, images, pod identity",
            roles=[self.role],
            statements=[
                *_networking(ec2_arn, vpc_id),
                iam.PolicyStatement(
                    sid="TagNetworkInterfaces", actions=["ec2:CreateTags"], resources=[f"{ec2_arn}:network-interface/*"]
                ),
                # EC2's Describe actions and the registry's token know no resources.
                iam.PolicyStatement(sid="Describe", actions=_DESCRIPTIONS, resources=["*"]),
                iam.PolicyStatement(sid="RegistryToken", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
                iam.PolicyStatement(
                    sid="PullImages",
                    actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
                    resources=[*([repository.repository_arn] if repository else []), *pull_from],
                ),
                *_filling(caches),
                iam.PolicyStatement(
                    sid="PodIdentity", actions=["eks-auth:AssumeRoleForPodIdentity"], resources=[cluster.cluster_arn]
                ),
            ],
        )
        lifecycle.grant_read(self.role)
        self.access_entry = eks.CfnAccessEntry(
            self,
            "AccessEntry",
            cluster_name=cluster.cluster_name,
            principal_arn=self.role.role_arn,
            type="HYPERPOD_LINUX",
        )
        self.access_entry.node.add_dependency(policy)


def _networking(ec2_arn: str, vpc_id: str) -> list[iam.PolicyStatement]:
    """Network interfaces of this VPC only, as HyperPod and the VPC CNI make, attach and address them.

    A new interface is limited by the subnet and the security groups that it is created with.
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    in_vpc = {"ArnEquals": {"ec2:Vpc": f"{ec2_arn}:vpc/{vpc_id}"}}
    return [
        iam.PolicyStatement(
            sid="NewInterfaces", actions=["ec2:CreateNetworkInterface"], resources=[f"{ec2_arn}:network-interface/*"]
        ),
        iam.PolicyStatement(
            sid="PodNetworking",
            actions=_INTERFACE_CHANGES,
            resources=[
                f"{ec2_arn}:{resource_type}/*" for resource_type in ("network-interface", "subnet", "security-group")
            ],
            conditions=in_vpc,
        ),
        iam.PolicyStatement(
            sid="Instances",
            actions=["ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute"],
            resources=[f"{ec2_arn}:instance/*"],
        ),
        # knows no resources
        iam.PolicyStatement(
            sid="TakeBackInterfaces", actions=["ec2:DeleteNetworkInterfacePermission"], resources=["*"]
        ),
    ]


def _filling(caches: Sequence[str]) -> list[iam.PolicyStatement]:
    """The first pull of an image through a cache makes its repository.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
    """
    actions = ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"]
    return [iam.PolicyStatement(sid="FillCaches", actions=actions, resources=list(caches))] if caches else []

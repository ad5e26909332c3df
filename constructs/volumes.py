"""EBS volumes on HyperPod nodes: their driver, and what waits until all of an environment are gone."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.cluster import addon
from hyperpod_ray.constructs.identity import service_account_role
from hyperpod_ray.constructs.storage import controller_placement
from hyperpod_ray.constructs.waiter import waiter
from hyperpod_ray.core.names import EBS_CSI_ADDON, EBS_CSI_SERVICE_ACCOUNT, ENVIRONMENT_TAG, KUBE_SYSTEM

DESCRIBE = [
    f"ec2:Describe{subject}"
    for subject in (
        "AvailabilityZones", "InstanceTypes", "Instances", "VolumeStatus", "Volumes", "VolumesModifications",
    )
]  # fmt: skip
KEY_ACTIONS = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"]
"""https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"""


class EbsCsiDriver(Construct):
    """The Amazon EBS CSI driver as an EKS add-on (`AWS::EKS::Addon`), with the role of its controller (IRSA).

    The controller creates volumes that carry the environment's tag, deletes those alone, and attaches them to nodes of
    this HyperPod cluster alone. AWS's AmazonEBSCSIDriverPolicyV2 allows those of each driver in the account.
    It makes no snapshot and changes no volume. Needs running nodes: the controller is a Deployment.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-ebs.html

    Args:
        cluster: Where it runs.
        oidc_provider: Of that cluster.
        oidc_issuer: Its URL without `https://`.
        environment_name: Value of the tag that the StorageClass puts on every volume.
        nodes_of: ARN of the HyperPod cluster.
        key_arn: KMS key of the volumes. Default: the key that AWS manages for EBS, which needs no right.
        node_selector: Node labels of a CPU group, so that the controller keeps off accelerated nodes.
        tolerations: Of that group's taints. Default: those of the add-on only.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        oidc_provider: iam.IOpenIdConnectProvider,
        oidc_issuer: str,
        environment_name: str,
        nodes_of: str,
        key_arn: str | None = None,
        node_selector: dict[str, str],
        tolerations: Sequence[dict[str, object]] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        role = service_account_role(
            self,
            service_account=f"system:serviceaccount:{KUBE_SYSTEM}:{EBS_CSI_SERVICE_ACCOUNT}",
            oidc_provider=oidc_provider,
            oidc_issuer=oidc_issuer,
        )
        for statement in _statements(
            Stack.of(self), environment_name, nodes_of=nodes_of, eks_cluster=cluster.cluster_arn, key_arn=key_arn
        ):
            role.add_to_policy(statement)
        self.addon = addon(
            self,
            EBS_CSI_ADDON,
            cluster=cluster,
            configuration={"controller": controller_placement(node_selector, tolerations)},
            role_arn=role.role_arn,
        )
        # on destroy the add-on goes while its controller may still act
        self.addon.node.add_dependency(role)


def _statements(
    stack: Stack, environment_name: str, *, nodes_of: str, eks_cluster: str, key_arn: str | None
) -> list[iam.PolicyStatement]:
    arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
    of_request = {"StringEquals": {f"aws:RequestTag/{ENVIRONMENT_TAG}": environment_name}}
    owned = {"StringEquals": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment_name}}
    statements = [
        iam.PolicyStatement(sid="Describe", actions=DESCRIBE, resources=["*"]),
        iam.PolicyStatement(
            sid="Create", actions=["ec2:CreateVolume"], resources=[f"{arn}:volume/*"], conditions=of_request
        ),
        iam.PolicyStatement(
            sid="TagNew",
            actions=["ec2:CreateTags"],
            resources=[f"{arn}:volume/*"],
            conditions={"StringEquals": {**of_request["StringEquals"], "ec2:CreateAction": "CreateVolume"}},
        ),
        iam.PolicyStatement(
            sid="OwnVolumes",
            actions=["ec2:AttachVolume", "ec2:DeleteVolume", "ec2:DetachVolume"],
            resources=[f"{arn}:volume/*"],
            conditions=owned,
        ),
        iam.PolicyStatement(
            sid="NodesOfThisCluster",
            actions=["sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume"],
            resources=[nodes_of],
        ),
        # AttachClusterNodeVolume looks up whose nodes these are with the rights of its caller
        iam.PolicyStatement(sid="ClusterOfTheNodes", actions=["eks:DescribeCluster"], resources=[eks_cluster]),
    ]
    if key_arn is not None:
        statements.append(
            iam.PolicyStatement(
                sid="Key",
                actions=KEY_ACTIONS,
                resources=[key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"ec2.{stack.region}.amazonaws.com"}},
            )
        )
    return statements


class VolumeGuard(Construct):
    """Holds a destroy until the volumes of an environment are really gone.

    Kubernetes answers the deletion of a RayCluster long before its claim and volume go. When the driver goes first, the
    volume stays and costs money. The RayCluster's manifest depends on this resource, so on destroy it goes first, then
    this waits, and only then the driver's stack may go.

    Creates one custom resource, two functions and the waiter state machine of the CDK's provider framework.

    Args:
        environment_name: Its volumes carry this in their tag.
        total_timeout: After which a destroy fails instead of orphaning a volume. Default: 30 minutes.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment_name: str, total_timeout: Duration | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        provider = waiter(
            self,
            handler="volumes_of_claims",
            asks=iam.PolicyStatement(actions=["ec2:DescribeVolumes"], resources=["*"]),
            query_interval=Duration.seconds(10),
            total_timeout=total_timeout or Duration.minutes(30),
        )
        self.resource = CustomResource(
            self,
            "Volumes",
            service_token=provider.service_token,
            resource_type="Custom::VolumesOfClaims",
            properties={"TagKey": ENVIRONMENT_TAG, "TagValue": environment_name},
        )

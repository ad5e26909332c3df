"""The EKS control plane that orchestrates HyperPod."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import cast

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

from constructs import Construct
from core import names
from core.model import Eks, ExistingEks, NewEks, RayUser
from core.service_limits import kubectl_for, minor_of
from hyperpod_ray.logs import retention

CONTROL_PLANE_LOGS = [
    eks.ClusterLoggingTypes.API,
    eks.ClusterLoggingTypes.AUDIT,
    eks.ClusterLoggingTypes.AUTHENTICATOR,
    eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
    eks.ClusterLoggingTypes.SCHEDULER,
]

BOOTSTRAP_ADDONS: dict[str, dict[str, object]] = {
    # Without enableNetworkPolicy the CNI ignores every NetworkPolicy.
    names.CNI_ADDON: {"enableNetworkPolicy": "true"},
    names.PROXY_ADDON: {},
    names.POD_IDENTITY_ADDON: {},
}
"""Add-ons that run on nodes but wait for none: they must be there before the first HyperPod node joins."""


class ControlPlaneGround(Construct):
    """What the control plane stands on and what it does not have to wait for: it is made beside the network.

    Creates its role (`AWS::IAM::Role`), its log group with retention, the KMS key of the Kubernetes secrets, and the
    security group of its network interfaces.

    Args:
        cluster_name: The log group's name derives from it.
        protected: Keep key and log group when the cluster is destroyed.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: NewEks,
        cluster_name: str,
        vpc: ec2.IVpc,
        protected: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protected else RemovalPolicy.DESTROY
        logs.LogGroup(
            self,
            "Logs",
            log_group_name=names.control_plane_log_group(cluster_name),
            retention=retention(settings.log_retention_days),
            removal_policy=policy,
        )
        self.key = kms.Key(
            self, "SecretsKey", description=f"Kubernetes secrets of {cluster_name}", enable_key_rotation=True
        )
        self.key.apply_removal_policy(policy)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("eks.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
        )
        self.security_group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="EKS Control Plane Security Group"
        )


class EksCluster(Construct):
    """An EKS cluster without nodes of its own, ready for HyperPod, or an existing one.

    Creates `AWS::EKS::Cluster` (authentication mode API, secrets encrypted by a KMS key of its own, all control-plane
    logs), `AWS::EKS::AccessEntry` for admins and Ray users, the add-ons `vpc-cni`,
    `kube-proxy` and `eks-pod-identity-agent`, the IAM OIDC provider, and the function that applies manifests.
    HyperPod accepts no Auto Mode and no self-managed nodes here:
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html

    Args:
        cluster_name: Physical name; the log group's name derives from it and `kubectl` needs it.
        subnets: At least two private subnets in different zones.
        node_security_group: Gets free passage to and from the cluster security group.
        ray_user_groups: Role ARN of a Ray user to the Kubernetes groups that the namespaces' roles are bound to.
        ground: What a new cluster stands on; None with an existing one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Eks,
        cluster_name: str,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        node_security_group: ec2.ISecurityGroup,
        ray_user_groups: Mapping[str, Sequence[str]],
        ground: ControlPlaneGround | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.addons: list[eks.CfnAddon] = []
        self.cluster: eks.ICluster
        if isinstance(settings, ExistingEks):
            self._import(settings, vpc, subnets)
        else:
            self._create(
                settings=settings,
                cluster_name=cluster_name,
                vpc=vpc,
                subnets=subnets,
                ground=ground,
            )
        for index, arn in enumerate(settings.admin_role_arns, start=1):
            self._admin(f"Admin{index}", arn)
        for index, user in enumerate(settings.ray_users, start=1):
            self._user(f"RayUser{index}", user, ray_user_groups.get(user.role_arn, ()))
        _open_between(self, self.cluster_security_group_id, node_security_group)

    oidc_provider: iam.IOpenIdConnectProvider
    oidc_issuer: str
    """Issuer without `https://`, as IAM condition keys want it."""
    cluster_security_group_id: str

    def _create(
        self,
        *,
        settings: NewEks,
        cluster_name: str,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        ground: ControlPlaneGround | None,
    ) -> None:
        assert ground is not None  # noqa: S101  (narrowing only)
        access = eks.EndpointAccess.PRIVATE
        if settings.endpoint.public:
            access = eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*settings.endpoint.public_cidrs)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name,
            # Upgrade policy left at EXTENDED: with STANDARD, EKS updates the cluster by itself when standard support
            # ends, also to a version that HyperPod does not support yet.
            version=eks.KubernetesVersion.of(settings.version),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=list(subnets))],
            endpoint_access=access,
            # NODEGROUP with none: the default of this class is Auto Mode, which HyperPod does not support.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_cluster_creator_admin_permissions=False,
            bootstrap_self_managed_addons=False,
            cluster_logging=CONTROL_PLANE_LOGS,
            secrets_encryption_key=ground.key,
            role=ground.role,
            security_group=ground.security_group,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=_kubectl_layer(self, settings.version), private_subnets=list(subnets)
            ),
            core_dns_compute_type=eks.CoreDnsComputeType.EC2,
        )
        _know_by_name(cluster, cluster_name)
        # its interface declares a member that the class lacks in Python (aws-cdk-lib 2.275.0)
        self.cluster = cast("eks.ICluster", cluster)
        # the cluster's own `open_id_connect_provider` is a deprecated custom resource
        self.oidc_provider = eks.OidcProviderNative(
            self, "OidcProvider", url=cluster.cluster_open_id_connect_issuer_url
        )
        self.oidc_issuer = self.oidc_provider.open_id_connect_provider_issuer
        self.cluster_security_group_id = cluster.cluster_security_group_id
        mode = {"env": {"NETWORK_POLICY_ENFORCING_MODE": settings.network_policy_mode}}
        for name, bootstrap in BOOTSTRAP_ADDONS.items():
            configuration = {**bootstrap, **mode} if name == names.CNI_ADDON else bootstrap
            self.addons.append(addon(self, name, cluster=self.cluster, configuration=configuration))

    def _import(self, settings: ExistingEks, vpc: ec2.IVpc, subnets: Sequence[ec2.ISubnet]) -> None:
        existing = settings.existing
        self.oidc_issuer = existing.oidc_issuer_url.removeprefix("https://")
        self.oidc_provider = iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
            self,
            "OidcProvider",
            f"arn:{Stack.of(self).partition}:iam::{Stack.of(self).account}:oidc-provider/{self.oidc_issuer}",
        )
        self.cluster_security_group_id = existing.security_group_id
        # Twice: the function that applies manifests needs a cluster, and the cluster needs that function.
        bare = self._existing("ForKubectl", settings, vpc, kubectl_provider=None)
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            cluster=bare,
            kubectl_layer=_kubectl_layer(self, settings.version),
            private_subnets=list(subnets),
            role=iam.Role.from_role_arn(self, "KubectlRole", existing.kubectl_role_arn),
        )
        self.cluster = self._existing("Cluster", settings, vpc, kubectl_provider=provider)

    def _existing(
        self, construct_id: str, settings: ExistingEks, vpc: ec2.IVpc, *, kubectl_provider: eks.IKubectlProvider | None
    ) -> eks.ICluster:
        existing = settings.existing
        return eks.Cluster.from_cluster_attributes(
            self,
            construct_id,
            cluster_name=existing.cluster_name,
            vpc=vpc,
            cluster_security_group_id=existing.security_group_id,
            open_id_connect_provider=self.oidc_provider,
            kubectl_provider=kubectl_provider,
        )

    def _admin(self, name: str, role_arn: str) -> None:
        policy = f"arn:{Stack.of(self).partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        everywhere = eks.CfnAccessEntry.AccessScopeProperty(type="cluster")
        eks.CfnAccessEntry(
            self,
            name,
            cluster_name=self.cluster.cluster_name,
            principal_arn=role_arn,
            access_policies=[eks.CfnAccessEntry.AccessPolicyProperty(policy_arn=policy, access_scope=everywhere)],
        )

    def _user(self, name: str, user: RayUser, groups: Sequence[str]) -> None:
        """Groups and no EKS policy: those let a user read every Secret, change policies and use service accounts."""
        eks.CfnAccessEntry(
            self,
            name,
            cluster_name=self.cluster.cluster_name,
            principal_arn=user.role_arn,
            kubernetes_groups=list(groups),
        )


def _kubectl_layer(scope: Construct, version: str) -> lambda_.ILayerVersion:
    """The Lambda layer with the kubectl that fits a cluster of that version, and its helm."""
    number = f"V{minor_of(kubectl_for(version))}"
    # one of the packages in requirements.in; each is loaded only where it is used
    package = importlib.import_module(f"aws_cdk.lambda_layer_kubectl_{number.lower()}")
    return cast("lambda_.ILayerVersion", getattr(package, f"Kubectl{number}Layer")(scope, "Kubectl"))


def _know_by_name(cluster: eks.Cluster, cluster_name: str) -> None:
    """The kubectl function's policy has the cluster's ARN by name: it is made beside the cluster, not after it."""
    role = cluster.node.find_child("KubectlProvider").node.find_child("Handler").node.find_child("ServiceRole")
    policy = cast("iam.CfnPolicy", role.node.find_child("DefaultPolicy").node.default_child)
    arn = Stack.of(cluster).format_arn(service="eks", resource="cluster", resource_name=cluster_name)
    policy.add_property_override("PolicyDocument.Statement.0.Resource", arn)


def addon(
    scope: Construct,
    name: str,
    *,
    cluster: eks.ICluster,
    configuration: dict[str, object] | None = None,
    role_arn: str | None = None,
) -> eks.CfnAddon:
    """An EKS add-on (`AWS::EKS::Addon`) that wins conflicts with what is already in the cluster.

    The L1, because the L2 lacks the role and the conflict setting. EKS picks the default version for the cluster's.
    """
    construct_id = "".join(word.capitalize() for word in name.split("-"))
    return eks.CfnAddon(
        scope,
        construct_id,
        addon_name=name,
        cluster_name=cluster.cluster_name,
        configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
        service_account_role_arn=role_arn,
        resolve_conflicts="OVERWRITE",
    )


def _open_between(scope: Construct, cluster_security_group_id: str, nodes: ec2.ISecurityGroup) -> None:
    """Free passage between nodes and the control plane's network interfaces, both ways."""
    pairs = {
        "Nodes": (nodes.security_group_id, cluster_security_group_id),
        "Cluster": (cluster_security_group_id, nodes.security_group_id),
    }
    for name, (to, source) in pairs.items():
        ec2.CfnSecurityGroupIngress(
            scope,
            f"{name}Ingress",
            group_id=to,
            source_security_group_id=source,
            ip_protocol="-1",
            description="control plane and nodes",
        )
    ec2.CfnSecurityGroupEgress(
        scope,
        "NodesEgress",
        group_id=nodes.security_group_id,
        destination_security_group_id=cluster_security_group_id,
        ip_protocol="-1",
        description="nodes to the control plane",
    )

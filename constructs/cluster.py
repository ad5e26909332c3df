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

from constructs import Construct
from hyperpod_ray.constructs.logs import named_log_group
from hyperpod_ray.core import names

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


class ControlPlanePrerequisites(Construct):
    """What the control plane stands on and what it does not have to wait for: it is created beside the network.

    Creates its role (`AWS::IAM::Role`), its log group with retention, the KMS key of the Kubernetes secrets, and the
    security group of its network interfaces.

    Args:
        cluster_name: The log group's name derives from it.
        log_retention_days: How long the control plane's logs are kept.
        protected: Keep key and log group when the cluster is destroyed.
        log_group_exists: Whether the log group is there already: it is used as it is, and stays.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        vpc: ec2.IVpc,
        log_retention_days: int,
        protected: bool,
        log_group_exists: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protected else RemovalPolicy.DESTROY
        named_log_group(
            self,
            "Logs",
            name=names.control_plane_log_group(cluster_name),
            retention_days=log_retention_days,
            protected=protected,
            exists=log_group_exists,
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


class ControlPlane(Construct):
    """What the other constructs need of an EKS cluster, and who may use it.

    Creates `AWS::EKS::AccessEntry` for admins and Ray users, and the rules between nodes and control plane. Make one by
    `EksCluster`, or by `EksCluster.from_existing`.
    """

    cluster: eks.ICluster
    oidc_provider: iam.IOpenIdConnectProvider
    oidc_issuer: str
    """Issuer without `https://`, as IAM condition keys need it."""
    cluster_security_group_id: str

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.addons: list[eks.CfnAddon] = []

    def _admit(
        self,
        *,
        node_security_group: ec2.ISecurityGroup,
        admin_role_arns: Sequence[str],
        ray_user_groups: Mapping[str, Sequence[str]],
    ) -> None:
        for index, arn in enumerate(admin_role_arns, start=1):
            self._admin(f"Admin{index}", arn)
        for index, (arn, groups) in enumerate(ray_user_groups.items(), start=1):
            self._user(f"RayUser{index}", arn, groups)
        _open_between(self, self.cluster_security_group_id, node_security_group)

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

    def _user(self, name: str, role_arn: str, groups: Sequence[str]) -> None:
        """Groups and no EKS policy: those let a user read every Secret, change policies and use service accounts."""
        eks.CfnAccessEntry(
            self,
            name,
            cluster_name=self.cluster.cluster_name,
            principal_arn=role_arn,
            kubernetes_groups=list(groups),
        )


class EksCluster(ControlPlane):
    """A new EKS cluster without nodes of its own, ready for HyperPod.

    Creates `AWS::EKS::Cluster` (authentication mode API, secrets encrypted by a KMS key of its own, all control-plane
    logs), `AWS::EKS::AccessEntry` for admins and Ray users, the add-ons `vpc-cni`,
    `kube-proxy` and `eks-pod-identity-agent`, the IAM OIDC provider, and the function that applies manifests.
    HyperPod accepts no Auto Mode and no self-managed nodes here:
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html

    Args:
        cluster_name: Physical name; the log group's name derives from it and `kubectl` needs it.
        version: Kubernetes version.
        kubectl_version: Kubernetes version of the kubectl that applies manifests, at most one minor version apart.
        vpc: The VPC of the nodes.
        subnets: At least two private subnets in different zones.
        node_security_group: Gets free passage to and from the cluster security group.
        prerequisites: What the cluster stands on.
        admin_role_arns: Roles with the policy AmazonEKSClusterAdminPolicy.
        ray_user_groups: Role ARN of a Ray user to the Kubernetes groups that the namespaces' roles are bound to.
        public_cidrs: Ranges that reach the API server over its public endpoint. None: the endpoint is private.
        network_policy_mode: Of the VPC CNI: `standard`, or `strict`: a pod that no policy selects is cut off.
        deletion_protection: EKS refuses to delete the cluster while it is on, also for a stack that rolls back.
        support_type: `EXTENDED`, or `STANDARD`: EKS updates the cluster by itself when standard support ends.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        version: str,
        kubectl_version: str,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        node_security_group: ec2.ISecurityGroup,
        prerequisites: ControlPlanePrerequisites,
        admin_role_arns: Sequence[str] = (),
        ray_user_groups: Mapping[str, Sequence[str]] | None = None,
        public_cidrs: Sequence[str] | None = None,
        network_policy_mode: str = "standard",
        deletion_protection: bool = False,
        support_type: str = "EXTENDED",
    ) -> None:
        super().__init__(scope, construct_id)
        access = eks.EndpointAccess.PRIVATE
        if public_cidrs is not None:
            access = eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_cidrs)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name,
            version=eks.KubernetesVersion.of(version),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=list(subnets))],
            endpoint_access=access,
            # NODEGROUP with none: the default of this class is Auto Mode, which HyperPod does not support.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_cluster_creator_admin_permissions=False,
            bootstrap_self_managed_addons=False,
            cluster_logging=CONTROL_PLANE_LOGS,
            secrets_encryption_key=prerequisites.key,
            role=prerequisites.role,
            security_group=prerequisites.security_group,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=_kubectl_layer(self, kubectl_version), private_subnets=list(subnets)
            ),
            core_dns_compute_type=eks.CoreDnsComputeType.EC2,
        )
        # the L2 lacks both; named also where they are the service's defaults, as an update keeps what it does not name
        resource = cast("eks.CfnCluster", cluster.node.default_child)
        resource.deletion_protection = deletion_protection
        resource.upgrade_policy = eks.CfnCluster.UpgradePolicyProperty(support_type=support_type)
        _know_by_name(cluster, cluster_name)
        # its interface declares a member that the class lacks in Python (aws-cdk-lib 2.275.0)
        self.cluster = cast("eks.ICluster", cluster)
        # the cluster's own `open_id_connect_provider` is a deprecated custom resource
        self.oidc_provider = eks.OidcProviderNative(
            self, "OidcProvider", url=cluster.cluster_open_id_connect_issuer_url
        )
        self.oidc_issuer = self.oidc_provider.open_id_connect_provider_issuer
        self.cluster_security_group_id = cluster.cluster_security_group_id
        mode = {"env": {"NETWORK_POLICY_ENFORCING_MODE": network_policy_mode}}
        for name, bootstrap in BOOTSTRAP_ADDONS.items():
            configuration = {**bootstrap, **mode} if name == names.CNI_ADDON else bootstrap
            self.addons.append(addon(self, name, cluster=self.cluster, configuration=configuration))
        self._admit(
            node_security_group=node_security_group,
            admin_role_arns=admin_role_arns,
            ray_user_groups=ray_user_groups or {},
        )

    @staticmethod
    def from_existing(
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        security_group_id: str,
        oidc_issuer_url: str,
        kubectl_role_arn: str,
        kubectl_version: str,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        node_security_group: ec2.ISecurityGroup,
        admin_role_arns: Sequence[str] = (),
        ray_user_groups: Mapping[str, Sequence[str]] | None = None,
    ) -> ControlPlane:
        """An EKS cluster that exists; only access entries, rules and the function that applies manifests are created.

        Args:
            scope: Parent of the construct.
            construct_id: Its id.
            cluster_name: Name of the cluster.
            security_group_id: Its cluster security group.
            oidc_issuer_url: Its issuer, for which IAM has a provider.
            kubectl_role_arn: Role that the function applies manifests with.
            kubectl_version: As for a new cluster, and so are the arguments that follow.
            vpc: The VPC of cluster and nodes.
            subnets: Private subnets of the function.
            node_security_group: Gets free passage to and from the cluster security group.
            admin_role_arns: Roles with the policy AmazonEKSClusterAdminPolicy.
            ray_user_groups: Role ARN of a Ray user to the Kubernetes groups that the namespaces' roles are bound to.
        """
        control_plane = ControlPlane(scope, construct_id)
        control_plane.oidc_issuer = oidc_issuer_url.removeprefix("https://")
        control_plane.oidc_provider = iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
            control_plane,
            "OidcProvider",
            f"arn:{Stack.of(control_plane).partition}:iam::{Stack.of(control_plane).account}:oidc-provider/{control_plane.oidc_issuer}",
        )
        control_plane.cluster_security_group_id = security_group_id

        def existing(name: str, kubectl_provider: eks.IKubectlProvider | None) -> eks.ICluster:
            return eks.Cluster.from_cluster_attributes(
                control_plane,
                name,
                cluster_name=cluster_name,
                vpc=vpc,
                cluster_security_group_id=security_group_id,
                open_id_connect_provider=control_plane.oidc_provider,
                kubectl_provider=kubectl_provider,
            )

        # Twice: the function that applies manifests needs a cluster, and the cluster needs that function.
        provider = eks.KubectlProvider(
            control_plane,
            "KubectlProvider",
            cluster=existing("ForKubectl", None),
            kubectl_layer=_kubectl_layer(control_plane, kubectl_version),
            private_subnets=list(subnets),
            role=iam.Role.from_role_arn(control_plane, "KubectlRole", kubectl_role_arn),
        )
        control_plane.cluster = existing("Cluster", provider)
        control_plane._admit(
            node_security_group=node_security_group,
            admin_role_arns=admin_role_arns,
            ray_user_groups=ray_user_groups or {},
        )
        return control_plane


def _kubectl_layer(scope: Construct, version: str) -> lambda_.ILayerVersion:
    """The Lambda layer with kubectl of a Kubernetes version such as `1.35`, and its helm."""
    number = f"V{version.split('.')[1]}"
    # one of the packages in requirements/requirements.in; each is loaded only where it is used
    package = importlib.import_module(f"aws_cdk.lambda_layer_kubectl_{number.lower()}")
    return cast("lambda_.ILayerVersion", getattr(package, f"Kubectl{number}Layer")(scope, "Kubectl"))


def _know_by_name(cluster: eks.Cluster, cluster_name: str) -> None:
    """The kubectl function's policy has the cluster's ARN by name: it is created beside the cluster, not after it."""
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

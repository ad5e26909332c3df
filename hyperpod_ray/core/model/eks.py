"""Section `eks`: a new EKS cluster, or one that exists, and who may use it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import Cidr, KubernetesName, LogRetentionDays, RoleArn, Settings, kind_of


class RayUser(Settings):
    """An IAM role that may use Ray in its own namespaces and nothing else of the cluster."""

    role_arn: RoleArn
    """Who: becomes an EKS access entry (`AWS::EKS::AccessEntry`)."""
    namespaces: Annotated[list[KubernetesName], Field(min_length=1)]
    """Where: each gives them the Role `ray-user` (Ray's objects, ConfigMaps, pods and logs to read, port-forward)."""


class Endpoint(Settings):
    """The Kubernetes API server's reachability."""

    public: bool = False
    """Reachable from the internet, limited to `public_cidrs`. Private access from the VPC is always on."""
    public_cidrs: list[Cidr] = []
    """Who may reach the public endpoint; required when it is public, and `0.0.0.0/0` is refused."""


class ExistingEksCluster(Settings):
    """An EKS cluster that exists (same VPC, authentication mode API or API_AND_CONFIG_MAP, VPC CNI ≥ 1.18.3)."""

    cluster_name: Annotated[str, shapes.EKS_NAME.field()]
    """Its name."""
    security_group_id: Annotated[str, shapes.SECURITY_GROUP_ID.field()]
    """Its cluster security group."""
    oidc_issuer_url: Annotated[str, shapes.OIDC_ISSUER.field()]
    """Its OIDC issuer; an IAM OIDC provider for it must exist."""
    kubectl_role_arn: RoleArn
    """Role of the function that applies manifests: trusted by lambda.amazonaws.com, with an access entry that has
    `AmazonEKSClusterAdminPolicy`."""


class EksAccess(Settings):
    """What a new and an existing cluster share."""

    version: Annotated[str, shapes.KUBERNETES_VERSION.field()] = "1.35"
    """Kubernetes version; HyperPod supports a range (`hyperpod_ray_rules/data/platform_versions.yaml`). Of an existing
    cluster: the version that it has."""
    admin_role_arns: list[RoleArn] = []
    """Roles with `AmazonEKSClusterAdminPolicy`. Default: only the deployment's own kubectl role."""
    ray_users: list[RayUser] = []
    """Roles limited to namespaces."""


class NewEks(EksAccess):
    """An EKS cluster that the Eks stack creates (the default): no EC2 node groups, authentication mode API."""

    kind: ClassVar = "new"

    endpoint: Endpoint = Endpoint.defaults()
    """API server endpoint. Default: private only."""
    log_retention_days: LogRetentionDays = 90
    """All five control-plane logs are on and kept this long."""
    log_group_exists: bool = False
    """Log into `/aws/eks/NAME/cluster` as it exists, such as the group that a protected environment left behind. The
    stack then neither creates, changes nor deletes it."""
    support_type: Literal["EXTENDED", "STANDARD"] = "EXTENDED"
    """When standard support of the version ends: `EXTENDED` keeps the version, and EKS charges more for the cluster.
    `STANDARD`: EKS updates it to the next version by itself, and pods run on."""
    network_policy_mode: Literal["strict", "standard"] = "strict"
    """`NETWORK_POLICY_ENFORCING_MODE` of the VPC CNI. `strict`: a pod sends and receives nothing until its policies are
    loaded, and each namespace that you add needs a NetworkPolicy. `standard`: it is open until then."""


class ExistingEks(EksAccess):
    """An EKS cluster that you name. Its endpoint, logs and version stay as they are."""

    kind: ClassVar = "existing"

    existing: ExistingEksCluster
    """The cluster."""


Eks = Annotated[Annotated[NewEks, Tag("new")] | Annotated[ExistingEks, Tag("existing")], kind_of("new")]
"""The EKS cluster that orchestrates HyperPod: new or existing."""

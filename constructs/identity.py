"""The AWS identities of pods: Ray's, the node guard's, and those of the storage drivers' controllers."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnJson, Stack
from aws_cdk import aws_eks as eks_l1
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.access import BucketAccess, s3_statements, statements

MLFLOW_ACTIONS = [
    f"sagemaker-mlflow:{action}"
    for action in (
        "CreateExperiment", "CreateRun", "GetExperiment", "GetExperimentByName", "GetMetricHistory", "GetRun",
        "ListArtifacts", "LogBatch", "LogInputs", "LogMetric", "LogModel", "LogOutputs", "LogParam",
        "SearchExperiments", "SearchRuns", "SetExperimentTag", "SetTag", "UpdateRun",
    )
]  # fmt: skip
"""What a training job calls: it records runs and deletes none.
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemakerwithmlflow.html"""

NODE_ACTIONS = ["sagemaker:DescribeClusterNode", "sagemaker:ListClusterNodes"]
"""What HyperPod says of a cluster's instances.
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemakerai.html"""


def service_account_role(
    scope: Construct, *, service_account: str, oidc_provider: iam.IOpenIdConnectProvider, oidc_issuer: str
) -> iam.Role:
    """A role for one service account of one cluster (`AWS::IAM::Role`, IRSA), without rights yet.

    https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html

    Args:
        scope: The construct whose role it is.
        service_account: As a token names it: `system:serviceaccount:NAMESPACE:NAME`.
        oidc_provider: Of the cluster.
        oidc_issuer: Its URL without `https://`.
    """
    # The keys hold a deploy-time value (the issuer), which only CfnJson can put into a map's keys.
    trust = CfnJson(
        scope, "Trust", value={f"{oidc_issuer}:aud": "sts.amazonaws.com", f"{oidc_issuer}:sub": service_account}
    )
    principal = iam.OpenIdConnectPrincipal(oidc_provider, conditions={"StringEquals": trust})
    return iam.Role(scope, "Role", assumed_by=principal)


class PodIdentity(Construct):
    """A role that one service account has by EKS Pod Identity, limited to what you name.

    Creates `AWS::IAM::Role` and one `AWS::EKS::PodIdentityAssociation` per namespace. The trust is limited to this
    cluster, these namespaces and this service account by the session tags that EKS sets for every pod. Pods get the
    credentials from the agent on their node (169.254.170.23:80); a pod that runs already gets none, so the association
    must be there before the pods.
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html

    Args:
        buckets: Buckets that the pods may use.
        kms_key_arns: Keys of these buckets and secrets.
        secret_arns: Secrets in AWS Secrets Manager that the pods may read. Default: none.
        mlflow_arn: MLflow tracking server or app. Default: none.
        artifacts: Name of the bucket of that app's artifacts, to which the pods add. Default: none.
        tier_bucket: Name of the bucket of tiered checkpoints, which the pods write to. Default: none.
        nodes_of: ARN of a HyperPod cluster whose instances the pods may ask about. Default: none.
        purpose: What it is for: the role's description.
        namespaces: Where the service account is.
        service_account: Its name.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        buckets: Sequence[BucketAccess] = (),
        kms_key_arns: Sequence[str] = (),
        secret_arns: Sequence[str] = (),
        mlflow_arn: str | None = None,
        artifacts: str | None = None,
        tier_bucket: str | None = None,
        nodes_of: str | None = None,
        purpose: str = "Ray's pods: ray.access of the environment",
        cluster: eks.ICluster,
        namespaces: Sequence[str],
        service_account: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cluster
        self._service_account = service_account
        self.role = self._role("Role", namespaces, purpose=purpose)
        for statement in [
            *statements(Stack.of(self), buckets=buckets, kms_key_arns=kms_key_arns, secret_arns=secret_arns),
            *(_mlflow(mlflow_arn, app=artifacts is not None or ":mlflow-app/" in mlflow_arn) if mlflow_arn else []),
            *(_artifacts(Stack.of(self).partition, artifacts) if artifacts else []),
            *(_tier(Stack.of(self).partition, tier_bucket) if tier_bucket else []),
            *([iam.PolicyStatement(actions=NODE_ACTIONS, resources=[nodes_of])] if nodes_of else []),
        ]:
            self.role.add_to_policy(statement)
        for namespace in namespaces:
            self._associate(namespace, self.role)

    def team(
        self,
        namespace: str,
        *,
        purpose: str,
        buckets: Sequence[BucketAccess],
        kms_key_arns: Sequence[str] = (),
        secret_arns: Sequence[str] = (),
        mlflow_arn: str | None = None,
        tier: BucketAccess | None = None,
    ) -> iam.Role:
        """A role of one namespace alone, for the same service account.

        Args:
            namespace: The team's.
            purpose: The role's description.
            buckets: Buckets and prefixes that its pods may use.
            kms_key_arns: Keys of these buckets and secrets.
            secret_arns: Secrets in AWS Secrets Manager that its pods may read.
            mlflow_arn: MLflow tracking server or app. Default: none.
            tier: Where its pods write tiered checkpoints. Default: nowhere.
        """
        partition = Stack.of(self).partition
        role = self._role(f"Role-{namespace}", [namespace], purpose=purpose)
        for statement in [
            *statements(
                Stack.of(self), buckets=buckets, kms_key_arns=kms_key_arns, secret_arns=secret_arns, uploads=False
            ),
            *(_mlflow(mlflow_arn, app=":mlflow-app/" in mlflow_arn) if mlflow_arn else []),
            *([*s3_statements(partition, tier, uploads=False), _metrics()] if tier else []),
        ]:
            role.add_to_policy(statement)
        # the ID that the namespace's association has had since it shared the other role: EKS has one per namespace and
        # account, and a second one would be refused before the first is gone
        self._associate(namespace, role)
        return role

    def _role(self, construct_id: str, namespaces: Sequence[str], *, purpose: str) -> iam.Role:
        tags = {
            "eks-cluster-arn": self._cluster.cluster_arn,
            "kubernetes-namespace": list(namespaces),
            "kubernetes-service-account": self._service_account,
        }
        principal = iam.ServicePrincipal(
            "pods.eks.amazonaws.com",
            conditions={"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        )
        return iam.Role(
            self,
            construct_id,
            # the principal's own tags become the session's; `with_session_tags` adds sts:TagSession to the trust
            assumed_by=principal.with_session_tags(),
            description=purpose,
        )

    def _associate(self, namespace: str, role: iam.Role) -> None:
        association = eks_l1.CfnPodIdentityAssociation(
            self,
            f"Association-{namespace}",
            cluster_name=self._cluster.cluster_name,
            namespace=namespace,
            service_account=self._service_account,
            role_arn=role.role_arn,
        )
        association.node.add_dependency(role)


def _mlflow(arn: str, *, app: bool) -> list[iam.PolicyStatement]:
    """Rights to one tracking server, or to one app: every call to an app needs the right to call it besides."""
    call = ["sagemaker:CallMlflowAppApi"] if app else []
    return [iam.PolicyStatement(actions=[*call, *MLFLOW_ACTIONS], resources=[arn])]


def _artifacts(partition: str, bucket: str) -> list[iam.PolicyStatement]:
    """A run adds artifacts, and deletes none."""
    return s3_statements(partition, BucketAccess(bucket=bucket, mode="write"), deletes=False)


METRICS_NAMESPACE = "/aws/sagemaker/Clusters"
"""CloudWatch namespace of HyperPod, as in AmazonSageMakerClusterInstanceRolePolicy."""


def _tier(partition: str, bucket: str) -> list[iam.PolicyStatement]:
    """Rights of the tiered writer: its bucket, and metrics in HyperPod's namespace.

    https://docs.aws.amazon.com/sagemaker/latest/dg/managed-tier-checkpointing-setup.html
    """
    return [*s3_statements(partition, BucketAccess(bucket=bucket, mode="write")), _metrics()]


def _metrics() -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": METRICS_NAMESPACE}},
    )

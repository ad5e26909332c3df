"""What Ray's pods may do in AWS, decided as IAM does: the role's trust, its policies, and how pods reach it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_eks_v2 as eks

from hyperpod_ray.constructs.identity import PodIdentity
from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.access import covers
from hyperpod_ray.core.names import GUARD, SERVICE_ACCOUNT
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.identity_helpers import VARIANTS, associations, role_of, s3
from tests.support.iam import Request, allows
from tests.support.references import References

CLUSTER = "arn:aws:eks:us-west-2:111122223333:cluster/everything-eks"
POD = {
    "aws:RequestTag/eks-cluster-arn": CLUSTER,
    "aws:RequestTag/kubernetes-namespace": "ray",
    "aws:RequestTag/kubernetes-service-account": "ray",
}


@pytest.fixture(scope="module")
def guard(everything: Assembly, references: References) -> tuple[str, list[Any], list[Any]]:
    """The same of the node guard's."""
    return role_of(GUARD, everything, references)


@pytest.mark.parametrize(
    ("tags", "allowed"),
    [
        ({}, True),
        ({"aws:RequestTag/eks-cluster-arn": f"{CLUSTER}-2"}, False),
        ({"aws:RequestTag/kubernetes-namespace": "kube-system"}, False),
        ({"aws:RequestTag/kubernetes-service-account": "default"}, False),
    ],
)
def test_only_the_service_account_ray_of_this_cluster_takes_the_role(
    role: tuple[str, list[Any], list[Any]], tags: dict[str, str], allowed: bool
) -> None:
    for action in ("sts:AssumeRole", "sts:TagSession"):
        asked = Request(action=action, service="pods.eks.amazonaws.com", context={**POD, **tags})
        assert allows(role[1], asked) is allowed
    assert not allows(role[1], Request(action="sts:AssumeRole", service="ec2.amazonaws.com", context=POD))


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (s3("GetObject", "research-data/datasets/a.parquet"), True),
        (s3("ListBucket", "research-data", prefix="datasets/"), True),
        (s3("ListBucket", "research-data", prefix="datasets"), True),
        (s3("ListBucket", "research-data", prefix="secrets/"), False),
        (s3("ListBucket", "research-data"), False),
        (s3("GetObject", "research-data/secrets/a"), False),
        (s3("GetObject", "research-data/datasets-of-others/a"), False),
        (s3("PutObject", "research-data/datasets/a"), False),
        (s3("DeleteObject", "research-data/datasets/a"), False),
        (s3("PutObject", "research-runs/first/checkpoint"), True),
        (s3("DeleteObject", "research-runs/first/checkpoint"), True),
        (s3("AbortMultipartUpload", "research-runs/first/checkpoint"), True),
        (s3("ListBucket", "research-runs"), True),
        (s3("PutBucketPolicy", "research-runs"), False),
        (s3("DeleteObjectVersion", "research-runs/a"), False),
        (s3("GetObject", "research-runs-2/a"), False),
    ],
)
def test_buckets_are_read_and_written_as_named(
    role: tuple[str, list[Any], list[Any]], asked: Request, allowed: bool
) -> None:
    assert allows(role[2], asked) is allowed


def test_keys_are_used_through_s3_and_secrets_of_this_region_only(role: tuple[str, list[Any], list[Any]]) -> None:
    key = "arn:aws:kms:us-west-2:111122223333:key/12345678-1234-1234-1234-123456789012"

    def used(via: str, arn: str = key, action: str = "kms:Decrypt") -> bool:
        return allows(role[2], Request(action=action, resource=arn, context={"kms:ViaService": via} if via else {}))

    assert used("s3.us-west-2.amazonaws.com")
    assert used("s3.us-west-2.amazonaws.com", action="kms:GenerateDataKey")
    assert not used("")
    assert used("secretsmanager.us-west-2.amazonaws.com"), "of the secrets that ray.access names"
    assert not used("secretsmanager.us-west-2.amazonaws.com", action="kms:GenerateDataKey")
    assert not used("s3.us-west-2.amazonaws.com", arn=f"{key}0")


def test_secrets_are_read_by_whole_arns(role: tuple[str, list[Any], list[Any]]) -> None:
    arn = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hugging-face-AbCdEf"
    for action, allowed in {"GetSecretValue": True, "PutSecretValue": False, "DescribeSecret": False}.items():
        assert allows(role[2], Request(action=f"secretsmanager:{action}", resource=arn)) is allowed
    for other in (f"{arn[:-6]}GhIjKl", arn[:-7], arn.replace("us-west-2", "us-east-1")):
        assert not allows(role[2], Request(action="secretsmanager:GetSecretValue", resource=other))


def test_mlflow_records_and_deletes_nothing() -> None:
    """A tracking server by its ARN; an app of the environment's own is in `test_mlflow_app.py`."""
    existing = synthesize("existing", folder=VARIANTS)
    known = References(existing.templates, account="111122223333", region="us-west-2")
    permissions = role_of(SERVICE_ACCOUNT, existing, known)[2]
    server = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/team"
    for action, allowed in {"LogBatch": True, "CreateRun": True, "DeleteRun": False, "DeleteExperiment": False}.items():
        assert allows(permissions, Request(action=f"sagemaker-mlflow:{action}", resource=server)) is allowed
    assert not allows(permissions, Request(action="sagemaker-mlflow:LogBatch", resource=f"{server}-2"))
    assert not allows(permissions, Request(action="sagemaker:CallMlflowAppApi", resource=server))


@pytest.mark.parametrize("action", ["sts:AssumeRole", "iam:PassRole", "eks:DescribeCluster", "ec2:DescribeInstances"])
def test_nothing_else_is_allowed(role: tuple[str, list[Any], list[Any]], action: str) -> None:
    assert not allows(role[2], Request(action=action, resource="arn:aws:iam::111122223333:role/x"))


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    "place",
    [
        "research-data/datasets/a",
        "research-data/datasets",
        "research-data/other",
        "research-data",
        "research-runs/x/y",
        "research-runs",
        "elsewhere/x",
    ],
)
def test_what_submit_lets_through_is_what_the_role_allows(
    role: tuple[str, list[Any], list[Any]], mode: Any, place: str
) -> None:
    """`hyperpod_ray.core.access.covers` and the policy are written twice, and must say the same."""
    plan = Plan(name="everything", settings=load("everything", folder=VARIANTS).settings)
    bucket, _, key = place.partition("/")
    below = f"{bucket}/{key.rstrip('/')}/x" if key else f"{bucket}/x"
    action = "PutObject" if mode == "write" else "GetObject"
    assert covers(plan, f"s3://{place}", mode) is allows(role[2], s3(action, below))


def test_the_role_is_there_before_the_pods(everything: Assembly) -> None:
    """Credentials come with a pod's admission: a pod that is older than the association never gets them."""
    template = everything.templates["everything-Ray"]["Resources"]
    found = {key.partition("/")[2] for name in (SERVICE_ACCOUNT, GUARD) for key in associations(everything, name)}
    assert len(found) == 2
    before: set[str] = set()
    for resource in template.values():
        if resource["Type"] == "Custom::AWSCDK-EKS-KubernetesResource":
            before |= found & set(resource.get("DependsOn", []))
    assert before == found


def test_without_access_there_is_no_identity(assemblies: dict[str, Assembly]) -> None:
    assert not associations(assemblies["local"], SERVICE_ACCOUNT)


def test_the_node_guard_may_ask_about_this_clusters_nodes_and_no_more(
    guard: tuple[str, list[Any], list[Any]], everything: Assembly, references: References
) -> None:
    _, trust, permissions = guard
    (key,) = everything.of_type("AWS::SageMaker::Cluster")
    own = references.arn(*key.split("/"))
    other = f"{own.rpartition('/')[0]}/other1234567"
    for action in ("DescribeClusterNode", "ListClusterNodes"):
        assert allows(permissions, Request(action=f"sagemaker:{action}", resource=own))
        assert not allows(permissions, Request(action=f"sagemaker:{action}", resource=other))
    for action in ("BatchDeleteClusterNodes", "BatchRebootClusterNodes", "DescribeCluster", "UpdateCluster"):
        assert not allows(permissions, Request(action=f"sagemaker:{action}", resource=own)), action
    (statement,) = permissions
    assert len(statement["Action"]) == 2
    for where, allowed in (("ray", False), (GUARD, True)):
        tags = {"eks-cluster-arn": CLUSTER, "kubernetes-namespace": where, "kubernetes-service-account": where}
        context = {f"aws:RequestTag/{name}": value for name, value in tags.items()}
        assert (
            allows(trust, Request(action="sts:AssumeRole", service="pods.eks.amazonaws.com", context=context))
            is allowed
        )


def test_metrics_go_to_hyperpods_namespace_only(role: tuple[str, list[Any], list[Any]]) -> None:
    def put(namespace: str) -> bool:
        context = {"cloudwatch:namespace": namespace}
        return allows(role[2], Request(action="cloudwatch:PutMetricData", resource="*", context=context))

    assert put("/aws/sagemaker/Clusters")
    assert not put("Custom")


@pytest.mark.parametrize("resource, called", [("mlflow-app/app-ABCDEF", True), ("mlflow-tracking-server/runs", False)])
def test_an_mlflow_app_is_called_by_a_right_of_its_own(resource: str, called: bool) -> None:
    """`CallMlflowAppApi` has the resource type mlflow-app, and no other one.

    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemakerai.html
    """
    arn = f"arn:aws:sagemaker:us-west-2:111122223333:{resource}"
    stack = cdk.Stack(cdk.App(builtin_cloud_formation_validation=False), "Pods")
    cluster = eks.Cluster.from_cluster_attributes(stack, "Cluster", cluster_name="ray")
    pods = PodIdentity(
        stack, "Identity", mlflow_arn=arn, cluster=cluster, namespaces=["ray"], service_account=SERVICE_ACCOUNT
    )
    pods.team("hyperpod-ns-vision", purpose="a team", buckets=[], mlflow_arn=arn)
    policies = assertions.Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    statements = [row for policy in policies for row in policy["Properties"]["PolicyDocument"]["Statement"]]
    of_server = [row["Action"] for row in statements if row["Resource"] == arn]
    assert len(of_server) == 2, "Ray's pods, and the team's"
    for actions in of_server:
        assert "sagemaker-mlflow:LogMetric" in actions
        assert ("sagemaker:CallMlflowAppApi" in actions) is called

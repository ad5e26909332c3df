"""What rules of the account say beside faults: what is fine, what they cannot see, and what they do not ask."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from tests.core.account.good import (
    ACCOUNT,
    CONTROL_1,
    CONTROL_2,
    EXISTING,
    FILE_SYSTEM,
    GONE,
    IMAGE,
    KEY,
    NEW,
    NODES_1,
    NODES_2,
    REGION,
    VPC,
    account,
)
from tests.core.account.recorded import RecordedAccount
from tests.core.account.sabotage import APP, ARN, GRAFANA, LINKED, Json
from tests.core.environment_files import plan

pytestmark = pytest.mark.usefixtures("day")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A rule, an account, and the one row that the rule has of it: severity and words."""

    title: str
    said: tuple[str, str]
    file: Json = field(default_factory=lambda: EXISTING)
    edits: Json = field(default_factory=dict)


BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
OF_APP = {**NEW, "ray/access": {"mlflow_arn": APP}}
OWN_TIER = {**NEW, "hyperpod/tiered_storage": {"memory_percent": 20, "bucket": "tier-own"}}
ELSEWHERE = {
    "workspace_name": "research",
    "workspace_arn": f"arn:aws:grafana:us-east-1:{ACCOUNT}:/workspaces/g-0123456789",
}
OF_OTHERS = {
    "ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService",
    "InstanceGroups": [
        {"InstanceGroupName": "a", "CurrentCount": 3}, {"InstanceGroupName": "b"},
        {"InstanceGroupName": "c", "CurrentCount": 2},
    ],
}  # fmt: skip
ANSWERS = [
    Answer(title="permissions", edits={"caller": f"arn:aws:iam::{ACCOUNT}:root"}, said=("warning", "root user, which may do everything")),
    Answer(title="permissions", edits={"caller": f"arn:aws:sts::{ACCOUNT}:federated-user/me"}, said=("unknown", "the caller is federated-user, which IAM does not simulate")),
    Answer(title="permissions", edits={"caller": f"arn:aws:iam::{ACCOUNT}:user/me"}, said=("fine", "actions simulated for user/me")),
    Answer(title="permissions", edits={"denied": ["sts:AssumeRole"]}, said=("error", "sts:AssumeRole")),
    Answer(title="bootstrap", edits={f"parameters > {BOOTSTRAP}": "5"}, said=("error", "bootstrap version 5. Expected version")),
    Answer(title="bootstrap", edits={f"parameters > {BOOTSTRAP}": "six"}, said=("error", "bootstrap version six")),
    Answer(title="KMS keys", edits={"errors": {"kms.describe_key": "AccessDeniedException"}}, said=("unknown", "these credentials may not see the key. Expected kms:DescribeKey on it")),
    Answer(title="roles", file={"eks/admin_role_arns": ["arn:aws:iam::999999999999:role/Admin"]}, said=("warning", "Admin is a role of 999999999999, which was not asked")),
    Answer(title="roles", edits={"roles > kubectl > trust": {"Statement": [{"Effect": "Deny", "Principal": {"Service": "lambda.amazonaws.com"}}]}}, said=("error", "kubectl does not trust lambda.amazonaws.com")),
    Answer(title="roles", edits={"roles > kubectl > trust": {"Statement": {"Effect": "Allow", "Principal": {"Service": ["ec2.amazonaws.com", "lambda.amazonaws.com"]}}}}, said=("fine", "kubectl is there")),
    Answer(title="roles", edits={"roles > kubectl > trust": {"Statement": [{"Effect": "Allow", "Principal": "*"}]}}, said=("error", "kubectl does not trust")),
    Answer(title="MLflow", file=OF_APP, edits={f"mlflow > {APP}": "Created"}, said=("fine", "is Created")),
    Answer(title="MLflow", file=OF_APP, edits={f"mlflow > {APP}": "CreateFailed"}, said=("error", "is CreateFailed. Expected one that works")),
    Answer(title="MLflow", file=OF_APP, edits={f"mlflow > {APP}": "Deleting"}, said=("error", "is Deleting. Expected one that works")),
    Answer(title="MLflow", file=OF_APP, said=("error", "no such server")),
    Answer(title="IAM quotas", edits={"summary > Roles": GONE}, said=("unknown", "IAM does not say how many roles there are")),
    Answer(title="IAM quotas", edits={"summary > RolesQuota": GONE}, said=("unknown", "IAM does not say how many roles there are")),
    Answer(title="function quota", file=NEW, edits={"lambda > UnreservedConcurrentExecutions": GONE}, said=("unknown", "Lambda does not say how many runs are unreserved")),
    Answer(title="linked buckets", file=LINKED, said=("fine", "FSx can use research-datasets")),
    Answer(title="repositories of jobs", file={**NEW, "registries/pull_from": [f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/team/x"]}, said=("skipped", "is of another account or Region: it was not asked")),
    Answer(title="repositories of jobs", file={**NEW, "registries/pull_from": [f"999999999999.dkr.ecr.{REGION}.amazonaws.com/team/x"]}, said=("skipped", "is of another account or Region: it was not asked")),
    Answer(title="repositories of jobs", file={**NEW, "registries/pull_from": [f"{REGISTRY}/team/*"]}, edits={"repositories": ["team/ray"]}, said=("fine", "team/* is there")),
    Answer(title="repositories of jobs", file={**NEW, "registries/pull_from": [f"{REGISTRY}/team/*"]}, edits={"repositories": ["teams/ray"]}, said=("warning", "team/*: no such repository")),
    Answer(title="Grafana workspace", file=GRAFANA, edits={"grafana": {"g-0123456789": "ACTIVE"}}, said=("fine", "g-0123456789 is ACTIVE")),
    Answer(title="Grafana workspace", file={**GRAFANA, "observability": {"grafana": ELSEWHERE}}, said=("skipped", "g-0123456789 is in us-east-1: it was not asked")),
    Answer(title="VPC", edits={f"vpcs > {VPC} > State": "pending"}, said=("error", f"{VPC} is pending. Expected available")),
    Answer(title="subnets", edits={f"subnets > {NODES_1} > State": "pending"}, said=("error", f"{NODES_1} is pending. Expected available")),
    Answer(title="subnets", edits={f"subnets > {CONTROL_2} > State": "pending"}, said=("error", f"{CONTROL_2} is pending. Expected available")),
    Answer(title="subnets", said=("fine", f"{CONTROL_1} in usw2-az1")),
    Answer(title="subnets", said=("fine", f"{NODES_2} in usw2-az2: 0 addresses needed, 4091 free")),
    Answer(title="tier bucket", file=OWN_TIER, edits={"errors": {"s3.head_bucket": "403"}}, said=("unknown", "tier-own exists, and these credentials may not see it")),
    Answer(title="image", file={**NEW, "image": {"uri": f"example.com/ray@{IMAGE.partition('@')[2]}"}}, said=("skipped", "example.com is not Amazon ECR: it cannot be asked")),
    Answer(title="image", file={**NEW, "image": {"uri": IMAGE.replace(REGION, "us-east-1")}}, said=("skipped", "is of another Region: it was not asked")),
    Answer(title="repository", file={**NEW, "image": {"repository_exists": True, "repository_name": "team/ray"}}, edits={"repositories": ["team/ray"]}, said=("fine", "team/ray")),
    Answer(title="cluster names", file=NEW, edits={"hyperpod > test": OF_OTHERS}, said=("error", "the cluster has 5 nodes, and deleting it ends them")),
    Answer(title="stack names", edits={"stacks > test-HyperPod": {"status": "DELETE_COMPLETE", "tags": {}}}, said=("fine", "none of test's stacks is there")),
    Answer(title="network ACLs", said=("fine", NODES_1)),
    Answer(title="file system's use", said=("fine", f"{FILE_SYSTEM}, PERSISTENT_2")),
    Answer(title="KMS keys", said=("fine", KEY.rpartition("/")[2])),
]  # fmt: skip
"""The one row with these words is of this severity."""


def case_id(answer: Answer) -> str:
    return f"{answer.title}: {answer.said[0]}: {answer.said[1][:50]}"


@pytest.mark.parametrize("answer", ANSWERS, ids=case_id)
def test_the_rule_answers(answer: Answer) -> None:
    evidence = Evidence(account=RecordedAccount(account(answer.edits)))
    (rule,) = [rule for rule in account_rules() if rule.title == answer.title]
    rows = [(found.severity, found.message) for found in rule(plan(answer.file), evidence)]
    severity, words = answer.said
    assert [row[0] for row in rows if words in row[1]] == [severity], rows

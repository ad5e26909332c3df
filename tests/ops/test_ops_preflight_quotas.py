"""The names of quotas that rules ask for, against those that Service Quotas itself lists; and who counts for which."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.plan import read_data
from tests.core.account.good import NEW, account
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan

# Names and codes as ListServiceQuotas gives them: github.com/hi-space/aws-physical-ai-recipes, a public list of quotas,
# the HyperPod workshop of AWS, and Terraform's documentation of aws_servicequotas_service_quota (names only).
LISTED = {
    "{type} for cluster usage",
    "{type} for cluster spot instance usage",
    "Maximum number instances allowed per SageMaker HyperPod cluster",  # L-2CE978FC
    "Total number of instances allowed across SageMaker HyperPod clusters",  # L-3308CCC7
    "Total number of Spot instances allowed across SageMaker HyperPod clusters",
    "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance",  # L-E13DF72A
    "Lustre Persistent_2 storage capacity",  # L-8F1B9C74
    "Lustre Persistent_2 file systems",  # L-FD6F2F22
    "Lustre Persistent Intelligent-Tiering SSD read cache storage capacity",
    "Lustre Persistent Intelligent-Tiering throughput capacity",
    "VPCs per Region",  # L-F678F1CE
    "Interface VPC endpoints per VPC",  # L-29B6F2EB
    "Gateway VPC endpoints per Region",  # L-1B52E74A
    "Internet gateways per Region",  # L-A4707A72
    "Workspaces per region per account",  # L-8873DB23, also in the quota lists of public AWS limit checkers
    "Stack count",  # L-0485CB21
    "Concurrently running builds for Linux/Small environment",  # L-9D07B6EF
    "NAT gateways per Availability Zone",  # L-FE5A380F
    "EC2-VPC Elastic IPs",  # L-0263D0A3
    "Clusters",  # L-1194D53C
}
RULE = {rule.title: rule for rule in account_rules()}
THEIRS = {"ClusterName": "theirs", "ClusterArn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/x",
          "ClusterStatus": "InService", "InstanceGroups": []}  # fmt: skip


def rows(file: dict[str, Any], edits: dict[str, Any]) -> dict[str, str]:
    evidence = Evidence(account=RecordedAccount(account(edits)))
    return {found.message.partition(":")[0]: found.severity for found in RULE["quotas"](plan(file), evidence)}


def test_every_name_is_one_that_the_service_has() -> None:
    data = read_data("quotas.yaml")
    named = {name for service, quotas in data.items() if service != "about" for name in quotas.values()}
    assert named == LISTED


def test_other_clusters_count_for_the_account_and_not_for_the_cluster() -> None:
    found = rows(NEW, {"hyperpod > theirs": THEIRS, "nodes": {"theirs": {"ml.c5.large": 38}}})
    assert found["Total number of instances allowed across SageMaker HyperPod clusters"] == "error"
    assert found["Maximum number instances allowed per SageMaker HyperPod cluster"] == "fine"


def test_spot_has_quotas_of_its_own() -> None:
    spot = {"hyperpod/instance_groups/1/capacity": "spot"}
    more = {
        "ml.p5.48xlarge for cluster spot instance usage": 4,
        "Total number of Spot instances allowed across SageMaker HyperPod clusters": 1,
    }
    found = rows(spot, {"quotas > sagemaker": more})
    assert found["ml.p5.48xlarge for cluster spot instance usage"] == "fine"
    assert found["Total number of Spot instances allowed across SageMaker HyperPod clusters"] == "error"
    assert "ml.p5.48xlarge for cluster usage" not in found

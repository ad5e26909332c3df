"""Rules of `hyperpod_ray/core/checks/account/quotas.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.checks.account.quotas import quota_values
from hyperpod_ray.core.evidence import Evidence
from tests.core.account.good import (
    EXISTING,
    FILE_SYSTEM,
    GONE,
    NEW,
    account,
)
from tests.core.account.recorded import RecordedAccount
from tests.core.account.sabotage import (
    CLOSED,
    METRICS,
    Json,
    Sabotage,
    assert_named_rules,
    assert_sabotage,
    case_id,
)
from tests.core.environment_files import plan

pytestmark = pytest.mark.usefixtures("day")
ELASTIC: Json = {**NEW, "storage": {"mode": "intelligent_tiering"}}
ELASTIC_BESIDE: Json = {
    f"file_systems > {FILE_SYSTEM}": {
        "StorageType": "INTELLIGENT_TIERING",
        "LustreConfiguration": {
            "DeploymentType": "PERSISTENT_2",
            "ThroughputCapacity": 4000,
            "DataReadCacheConfiguration": {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"},
        },
    }
}
"""Another environment's elastic file system."""
CASES = [
    Sabotage("no addresses left", {"addresses": 5}, (("network quotas", "error", "EC2-VPC Elastic IPs: 1 asked and 5 used by others, 5 allowed"),), file=NEW),
    Sabotage("no NAT gateways left", {"quotas > vpc": {"NAT gateways per Availability Zone": 0}}, (("network quotas", "error", "NAT gateways per Availability Zone"),), file=NEW),
    Sabotage("few endpoints", {"quotas > vpc": {"Interface VPC endpoints per VPC": 10}}, (("network quotas", "error", "Interface VPC endpoints per VPC"),), file=CLOSED),
    Sabotage("no EKS clusters left", {"quotas > eks": {"Clusters": 2}, "more_eks": ["one"]}, (("EKS quotas", "error", "Clusters: 1 asked and 2 used by others"),), file=NEW),
    Sabotage("no Lustre capacity left", {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 5000}}, (("FSx quotas", "error", "1200 asked and 4800 used by others"),), file=NEW),
    Sabotage("no elastic throughput left", {"quotas > fsx": {"Lustre Persistent Intelligent-Tiering throughput capacity": 7999}, **ELASTIC_BESIDE}, (("FSx quotas", "error", "throughput capacity: 4000 asked and 4000 used by others, 7999 allowed"),), file=ELASTIC),
    Sabotage("no read cache left", {"quotas > fsx": {"Lustre Persistent Intelligent-Tiering SSD read cache storage capacity": 39999}, **ELASTIC_BESIDE}, (("FSx quotas", "error", "storage capacity: 20000 asked and 20000 used by others, 39999 allowed"),), file=ELASTIC),
    Sabotage("few instances", {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 3}}, (("quotas", "error", "4 asked, 3 allowed"),), file=NEW),
    Sabotage("a quota of another name", {"quotas > eks": GONE, "quotas": {"eks": {"Something": 1}}}, (("EKS quotas", "unknown", "no quota is called 'Clusters'"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)


@pytest.mark.parametrize(
    ("title", "file", "edits", "says"),
    [
        ("EKS quotas", NEW, {"quotas > eks": {"Clusters": 3}, "more_eks": ["one"]}, "Clusters: 1 asked and 2 used by others, 3 allowed"),
        ("FSx quotas", NEW, {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 6000}}, "1200 asked and 4800 used by others, 6000 allowed"),
        ("FSx quotas", ELASTIC, {"quotas > fsx": {"Lustre Persistent Intelligent-Tiering throughput capacity": 8000, "Lustre Persistent Intelligent-Tiering SSD read cache storage capacity": 40000}, **ELASTIC_BESIDE}, "20000 asked and 20000 used by others, 40000 allowed"),
        ("FSx quotas", {**ELASTIC, "storage": {"mode": "intelligent_tiering", "read_cache_gib": 0}}, {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 1, "Lustre Persistent Intelligent-Tiering SSD read cache storage capacity": 1}}, "4000 asked, 100000 allowed"),
        ("network quotas", NEW, {"addresses": 4}, "EC2-VPC Elastic IPs: 1 asked and 4 used by others, 5 allowed"),
        ("metrics quota", METRICS, {"quotas > aps": {"Workspaces per region per account": 3}, "workspaces": [{}, {"team": "other"}]}, "1 asked and 2 used by others, 3 allowed"),
        ("quotas", NEW, {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 4}}, "4 asked, 4 allowed"),
        # a training plan brings its own capacity: https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html
        ("quotas", EXISTING, {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 0}}, "allowed"),
    ],
)  # fmt: skip
def test_the_last_that_a_quota_allows_is_fine(title: str, file: Json, edits: Json, says: str) -> None:
    made = plan(file)
    (rule,) = [rule for rule in account_rules() if rule.title == title]
    found = list(rule(made, Evidence(account=RecordedAccount(account(edits)))))
    assert [one.message for one in found if one.severity != "fine"] == []
    assert any(says in one.message for one in found), [one.message for one in found]


class Quotas:
    """An account of which AWS raised one quota, lowered another and left a third as it is."""

    def pages(self, service: str, operation: str, member: str, **asked: str) -> list[Json]:
        assert (service, member, asked) == ("service-quotas", "Quotas", {"ServiceCode": "sagemaker"})
        values = {
            "list_aws_default_service_quotas": {"raised": 1, "lowered": 8, "as it is": 3},
            "list_service_quotas": {"raised": 5, "lowered": 2},
        }[operation]
        return [{"QuotaName": name, "Value": float(value)} for name, value in values.items()]


def test_a_quota_is_the_one_that_is_applied_to_the_account() -> None:
    """AWS's default counts where nothing is applied: both calls are needed.

    https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_ListServiceQuotas.html
    """
    assert quota_values(Quotas(), "sagemaker") == {"raised": 5, "lowered": 2, "as it is": 3}  # type: ignore[arg-type]

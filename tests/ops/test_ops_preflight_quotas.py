"""`preflight`'s rows on quotas, against the names that Service Quotas itself lists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.loader import parse
from ops.clients import Target
from ops.preflight import capacity
from tests.ops.world import environment_text

# Names and codes as ListServiceQuotas gives them: github.com/hi-space/aws-physical-ai-recipes, a public list of quotas,
# and the HyperPod workshop of AWS (names only).
LISTED = {
    "sagemaker": {
        "ml.g5.8xlarge for cluster usage": 3.0,
        "ml.m5.2xlarge for cluster usage": 4.0,
        "ml.g5.8xlarge for cluster spot instance usage": 2.0,
        "Maximum number instances allowed per SageMaker HyperPod cluster": 20.0,  # L-2CE978FC
        "Total number of instances allowed across SageMaker HyperPod clusters": 30.0,  # L-3308CCC7
        "Total number of Spot instances allowed across SageMaker HyperPod clusters": 1.0,
        "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance": 1024.0,  # L-E13DF72A
    },
    "fsx": {"Lustre Persistent_2 storage capacity": 100800.0},  # L-8F1B9C74
    "vpc": {"VPCs per Region": 5.0},
}


class Account:
    """Answers of Service Quotas, and of an account with other clusters."""

    def __init__(self, *, others: dict[str, int] | None = None) -> None:
        self.others = Counter(others or {})

    def pages(self, service: str, operation: str, member: str, **options: Any) -> list[dict[str, Any]]:
        match operation:
            case "list_service_quotas":
                return [{"QuotaName": name, "Value": value} for name, value in LISTED[options["ServiceCode"]].items()]
            case "list_clusters":
                return [{"ClusterName": "theirs"}] if self.others else []
            case "list_cluster_nodes":
                return [{"InstanceType": kind} for kind in self.others.elements()]
        return []


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(capacity, "_network_stack", lambda target: type("Stack", (), {"status": ""}))
    return Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))


def rows(target: Target, account: Account) -> dict[str, str]:
    target.aws = account  # type: ignore[assignment]
    return {outcome.why.partition(":")[0]: outcome.result for outcome in capacity.quotas(target)}


def test_every_name_is_one_that_the_service_has(target: Target) -> None:
    found = rows(target, Account())
    assert "unknown" not in found.values(), found
    assert "skipped" not in found.values(), found
    assert set(found) >= {name for name in LISTED["sagemaker"] if "HyperPod cluster" in name and "Spot" not in name} - {
        "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance"
    }


def test_other_clusters_count_for_the_account_and_not_for_the_cluster(target: Target) -> None:
    found = rows(target, Account(others={"ml.c5.large": 28}))
    assert found["Total number of instances allowed across SageMaker HyperPod clusters"] == "failed"
    assert found["Maximum number instances allowed per SageMaker HyperPod cluster"] == "ok"


def test_spot_has_quotas_of_its_own(target: Target) -> None:
    hyperpod = target.plan.settings.hyperpod
    spot = [
        group.model_copy(update={"capacity": "spot", "count": 2}) if group.type == "ml.g5.8xlarge" else group
        for group in hyperpod.instance_groups
    ]
    settings = target.plan.settings.model_copy(
        update={"hyperpod": hyperpod.model_copy(update={"instance_groups": spot})}
    )
    target.plan = type(target.plan)(name="demo", settings=settings)
    found = rows(target, Account())
    assert found["ml.g5.8xlarge for cluster spot instance usage"] == "ok"
    assert found["Total number of Spot instances allowed across SageMaker HyperPod clusters"] == "failed"
    assert "ml.g5.8xlarge for cluster usage" not in found

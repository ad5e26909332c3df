"""What tests of `as_json` share."""

from __future__ import annotations

from typing import Any

from tests.review.small import resources


def nodes(count: int) -> dict[str, Any]:
    group = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
    limit = {"BudgetLimit": {"Amount": 50_000, "Unit": "USD"}, "TimeUnit": "MONTHLY"}
    budget = {"Type": "AWS::Budgets::Budget", "Properties": {"Budget": limit}}
    cluster = {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [group]}}
    return resources(Cluster=cluster, Budget=budget)

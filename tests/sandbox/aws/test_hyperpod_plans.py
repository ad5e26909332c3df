"""Training plans: what a cluster takes of its own, and what AWS offers."""

from __future__ import annotations

import pytest

from tests.sandbox.aws.clusters_helpers import Clusters, group

pytestmark = pytest.mark.emulator


def test_tags_and_training_plans(clusters: Clusters) -> None:
    plan = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/may"
    name = clusters.create(group(kind="ml.p5.48xlarge", TrainingPlanArn=plan), Tags=[{"Key": "team", "Value": "a"}])
    arn = clusters.api.describe_cluster(ClusterName=name)["ClusterArn"]
    clusters.api.add_tags(ResourceArn=arn, Tags=[{"Key": "cost", "Value": "b"}])
    tags = clusters.api.list_tags(ResourceArn=arn)["Tags"]
    assert {t["Key"]: t["Value"] for t in tags} == {"team": "a", "cost": "b"}
    assert clusters.api.describe_training_plan(TrainingPlanName="may")["InUseInstanceCount"] == 2
    offerings = clusters.api.search_training_plan_offerings(
        InstanceType="ml.p5.48xlarge", InstanceCount=4, DurationHours=48, TargetResources=["hyperpod-cluster"]
    )["TrainingPlanOfferings"]
    assert offerings[0]["ReservedCapacityOfferings"][0]["InstanceCount"] == 4

"""A cluster's policy and the quotas of teams in a template: one of each, changed in place, and gone with the stack."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.sandbox.aws.clusters_helpers import Clusters, group
from tests.sandbox.aws.stacks_helpers import Json, Stacks
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
TYPE = "ml.g5.8xlarge"


def quota(cluster: str, *, name: str = "vision", team: str = "vision", count: int = 1, kind: str = TYPE) -> Json:
    resources = [{"InstanceType": kind, "Count": str(count)}]
    properties = {
        "Name": name, "ClusterArn": cluster, "ComputeQuotaTarget": {"TeamName": team, "FairShareWeight": "50"},
        "ComputeQuotaConfig": {
            "ComputeQuotaResources": resources, "ResourceSharingConfig": {"Strategy": "DontLend"},
            "PreemptTeamTasks": "Never",
        },
    }  # fmt: skip
    return {"Type": "AWS::SageMaker::ComputeQuota", "Properties": properties}


def policy(cluster: str, *, weight: int) -> Json:
    scheduler = {"PriorityClasses": [{"Name": "deadline", "Weight": str(weight)}]}
    properties = {"Name": "policy", "ClusterArn": cluster, "SchedulerConfig": scheduler}
    return {"Type": "AWS::SageMaker::ClusterSchedulerConfig", "Properties": properties}


@pytest.fixture
def arn(emulator: Emulator, clusters: Clusters, subnets: list[str]) -> Iterator[str]:
    """A cluster on EKS, which has the add-on that quotas need."""
    eks, ec2, name = emulator.boto("eks"), emulator.boto("ec2"), f"teams-{uuid.uuid4().hex[:6]}"
    role = roles.cluster_role(emulator.boto("iam"))
    config = {"subnetIds": subnets}
    eks_arn = eks.create_cluster(name=name, roleArn=role, resourcesVpcConfig=config)["cluster"]["arn"]
    until(lambda: eks.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
    eks.create_addon(clusterName=name, addonName="amazon-sagemaker-hyperpod-taskgovernance")
    vpc = ec2.describe_subnets(SubnetIds=subnets[:1])["Subnets"][0]["VpcId"]
    nodes = ec2.create_security_group(GroupName=name, Description="nodes", VpcId=vpc)["GroupId"]
    network = {"SecurityGroupIds": [nodes], "Subnets": subnets[:1]}
    made = clusters.create(group(count=2), VpcConfig=network, Orchestrator={"Eks": {"ClusterArn": eks_arn}})
    yield str(clusters.api.describe_cluster(ClusterName=made)["ClusterArn"])
    clusters.api.delete_cluster(ClusterName=made)
    until(lambda: clusters.gone(made))
    ec2.delete_security_group(GroupId=nodes)
    eks.delete_cluster(name=name)
    until(lambda: name not in eks.list_clusters()["clusters"])


def test_both_come_change_in_place_and_go(emulator: Emulator, arn: str, stacks: Stacks) -> None:
    api = emulator.boto("sagemaker")
    name = stacks.create({"Quota": quota(arn, count=1), "Policy": policy(arn, weight=90)})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    before = stacks.ids(name)
    stacks.update(name, {"Quota": quota(arn, count=2), "Policy": policy(arn, weight=80)})
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert stacks.ids(name) == before
    (changed,) = api.list_compute_quotas(ClusterArn=arn)["ComputeQuotaSummaries"]
    assert changed["ComputeQuotaConfig"]["ComputeQuotaResources"] == [{"InstanceType": TYPE, "Count": 2}]
    assert changed["ComputeQuotaVersion"] == 2, "an update names the version that it saw"
    (summary,) = api.list_cluster_scheduler_configs(ClusterArn=arn)["ClusterSchedulerConfigSummaries"]
    described = api.describe_cluster_scheduler_config(ClusterSchedulerConfigId=summary["ClusterSchedulerConfigId"])
    assert described["SchedulerConfig"]["PriorityClasses"] == [{"Name": "deadline", "Weight": 80}]
    assert stacks.delete(name) == "DELETE_COMPLETE"
    assert api.list_compute_quotas(ClusterArn=arn)["ComputeQuotaSummaries"] == []
    assert api.list_cluster_scheduler_configs(ClusterArn=arn)["ClusterSchedulerConfigSummaries"] == []


def test_what_the_service_refuses_fails_the_stack_with_its_words(arn: str, stacks: Stacks) -> None:
    """A team has one quota in a cluster, and a quota is of types that the cluster has."""
    twice = stacks.create({"First": quota(arn), "Second": {**quota(arn, name="again"), "DependsOn": "First"}})
    assert stacks.status(twice) == "ROLLBACK_COMPLETE"
    assert "Team vision already has arn:" in stacks.reasons(twice)
    other = stacks.create({"Quota": quota(arn, kind="ml.p5.48xlarge")})
    assert stacks.status(other) == "ROLLBACK_COMPLETE"
    assert "Instance type ml.p5.48xlarge is not in the cluster" in stacks.reasons(other)


def test_a_cluster_without_the_add_on_has_no_quotas(clusters: Clusters, stacks: Stacks) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance.html"""
    made = clusters.create(group(count=2))
    plain = str(clusters.api.describe_cluster(ClusterName=made)["ClusterArn"])
    name = stacks.create({"Policy": policy(plain, weight=90)})
    assert stacks.status(name) == "ROLLBACK_COMPLETE"
    assert "The add-on amazon-sagemaker-hyperpod-taskgovernance is not installed" in stacks.reasons(name)

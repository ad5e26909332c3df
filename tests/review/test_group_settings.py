"""What a changed setting of an instance group does, on a cluster of one group: taints, schedules, networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.findings import Effect
from tests.review.small import Json, compared, of

EKS = {"Eks": {"ClusterArn": "arn:aws:eks:us-west-2:111122223333:cluster/c"}}


def cluster(more: Json | None = None, **group: Any) -> dict[str, Json]:
    own = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, **group}
    return {
        "Cluster": of("SageMaker::Cluster", ClusterName="c", Orchestrator=EKS, InstanceGroups=[own], **(more or {}))
    }


def taints(*effects: str, labels: dict[str, str] | None = None) -> Json:
    listed = [{"Key": f"t{index}", "Value": "x", "Effect": effect} for index, effect in enumerate(effects)]
    return {"KubernetesConfig": {"Taints": listed, "Labels": labels or {}}}


@pytest.mark.parametrize(
    ("after", "effect", "code", "words"),
    [
        # https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
        (taints("NoExecute"), Effect.INTERRUPTS, "taint-evicts", "pods that do not tolerate it are evicted at once"),
        (taints("NoExecute", "NoSchedule"), Effect.INTERRUPTS, "taint-evicts", "evicted at once"),
        (taints("PreferNoSchedule"), Effect.SAFE, "kubernetes-config", "running pods stay, new ones that do not"),
        (taints(labels={"a": "b"}), Effect.SAFE, "kubernetes-config", "Put on the nodes there are; running pods stay."),
    ],
)
def test_a_new_taint(after: Json, effect: Effect, code: str, words: str, tmp_path: Path) -> None:
    rows = compared(tmp_path, cluster(**taints()), cluster(**after)).rows
    assert [(row.effect, row.code, words in row.consequence) for row in rows] == [(effect, code, True)]


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        # a taint is key, value and effect: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
        ("NoSchedule", "NoExecute", "taint-evicts"),
        ("PreferNoSchedule", "NoExecute", "taint-evicts"),
        ("NoExecute", "NoSchedule", "kubernetes-config"),
    ],
)
def test_a_taint_of_the_same_key_with_another_effect(before: str, after: str, code: str, tmp_path: Path) -> None:
    rows = compared(tmp_path, cluster(**taints(before)), cluster(**taints(after))).rows
    assert [row.code for row in rows] == [code]


def schedule(size: int = 1, wait: int = 60, *, unit: str = "INSTANCE_COUNT", cron: str = "cron(0 6 ? * SUN *)") -> Json:
    rolling = {"MaximumBatchSize": {"Type": unit, "Value": size}}
    config = {"WaitIntervalInSeconds": wait, "RollingUpdatePolicy": rolling}
    return {"ScheduledUpdateConfig": {"ScheduleExpression": cron, "DeploymentConfig": config}}


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ({}, schedule(), Effect.INTERRUPTS),
        (schedule(), schedule(cron="cron(0 6 ? * SAT *)"), Effect.INTERRUPTS),
        (schedule(1), schedule(2), Effect.INTERRUPTS),
        (schedule(2), schedule(1), Effect.SAFE),
        (schedule(1), schedule(1, unit="CAPACITY_PERCENTAGE"), Effect.INTERRUPTS),
        (schedule(wait=60), schedule(wait=30), Effect.WEAKENS),
        (schedule(wait=30), schedule(wait=60), Effect.SAFE),
    ],
)
def test_a_schedule_that_changes(before: Json, after: Json, effect: Effect, tmp_path: Path) -> None:
    """Twice as many at once, or sooner, is more that ends at the next time of the schedule."""
    rows = [row for row in compared(tmp_path, cluster(**before), cluster(**after)).rows if row.code == "schedule"]
    assert [row.effect for row in rows] == [effect]
    assert "Nothing happens on deploy." in rows[0].consequence


def test_a_group_whose_subnet_is_replaced_is_refused(tmp_path: Path) -> None:
    def side(cidr: str) -> dict[str, Json]:
        subnet = of("EC2::Subnet", VpcId="vpc-1", CidrBlock=cidr, AvailabilityZone="us-west-2a")
        network = {"OverrideVpcConfig": {"Subnets": [{"Ref": "Subnet"}], "SecurityGroupIds": ["sg-1"]}}
        return {"Subnet": subnet, **cluster(**network)}

    rows = compared(tmp_path, side("10.0.0.0/24"), side("10.0.1.0/24")).rows
    (row,) = [row for row in rows if row.code == "group-immutable"]
    assert (row.effect, row.what) == (Effect.REJECTED, "group workers")
    assert "OverrideVpcConfig refers to" in row.change and "which is replaced" in row.change


def test_a_property_that_nobody_documents_may_interrupt(tmp_path: Path) -> None:
    rows = compared(tmp_path, cluster(), cluster({"Unheard": {"Of": 1}})).rows
    (row,) = [row for row in rows if row.code == "cluster-undocumented"]
    assert row.effect is Effect.INTERRUPTS
    assert row.change.startswith("Unheard ")

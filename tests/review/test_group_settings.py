"""What a changed setting of an instance group does, on a cluster of one group: taints, schedules, networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core.names import INSTANCE_GROUP_LABEL
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


def selecting(labels: Json, **objects: Json) -> Json:
    """A RayCluster whose head and workers select nodes by labels."""
    pod = {"template": {"spec": {"nodeSelector": labels, "containers": []}}}
    ray = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray", "namespace": "ray"},
        "spec": {"headGroupSpec": pod, "workerGroupSpecs": [{"groupName": "gpu", **pod}]},
    }  # fmt: skip
    return {"Manifest": {"Type": "Custom::AWSCDK-EKS-KubernetesResource",
                         "Properties": {"Manifest": json.dumps([ray]), "ClusterName": "c"}}}  # fmt: skip


@pytest.mark.parametrize(
    ("selected", "effect", "code", "words"),
    [
        ("workers", Effect.INTERRUPTS, "taint-closes", "On this group: Ray's head, Ray's workers gpu."),
        ("others", Effect.SAFE, "kubernetes-config", "new ones that do not tolerate it are not scheduled there"),
    ],
)
def test_a_taint_closes_a_group_to_what_is_on_it(
    selected: str, effect: Effect, code: str, words: str, tmp_path: Path
) -> None:
    ray = selecting({INSTANCE_GROUP_LABEL: selected})
    environment = compared(tmp_path, cluster(**taints()) | ray, cluster(**taints("NoSchedule")) | ray)
    assert [(row.effect, row.code, words in row.consequence) for row in environment.rows] == [(effect, code, True)]
    assert bool(environment.rows[0].unavailable) == (effect is Effect.INTERRUPTS)


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        # a node selector is matched when a pod is scheduled: https://kubernetes.io/docs/concepts/scheduling-eviction/
        ({"pool": "a"}, {}, Effect.INTERRUPTS),
        ({"pool": "a", "other": "b"}, {"pool": "a"}, Effect.SAFE),
        ({}, {"pool": "a"}, Effect.SAFE),
    ],
)
def test_a_label_that_pods_select_goes(before: Json, after: Json, effect: Effect, tmp_path: Path) -> None:
    ray = selecting({"pool": "a"})
    (row,) = compared(tmp_path, cluster(**taints(labels=before)) | ray, cluster(**taints(labels=after)) | ray).rows
    assert (row.effect, row.code) == (effect, "kubernetes-config")
    assert ("Pods that select pool find no node" in row.consequence) == (effect is Effect.INTERRUPTS)


def patches(strategy: str) -> Json:
    return {"AutoPatchConfig": {"PatchingStrategy": strategy}}


@pytest.mark.parametrize(
    ("before", "after", "code", "change", "words"),
    [
        ({}, patches("WhenIdle"), "patches", "AutoPatchConfig new: WhenIdle", "each node as it becomes idle"),
        (
            patches("WhenIdle"), patches("WhenAllIdle"), "patches", "AutoPatchConfig changed: WhenAllIdle",
            "the nodes once all are idle",
        ),
        (patches("WhenIdle"), {}, "patches-off", "AutoPatchConfig removed", "Idle nodes get no security patches"),
    ],
)  # fmt: skip
def test_patches(  # noqa: PLR0917
    before: Json, after: Json, code: str, change: str, words: str, tmp_path: Path
) -> None:
    environment = compared(tmp_path, cluster(**before), cluster(**after))
    assert [(row.code, row.change, words in row.consequence) for row in environment.rows] == [(code, change, True)]
    assert [remark.direction for remark in environment.remarks] == (["switched off"] if code == "patches-off" else [])


def stopped_by(*alarms: str) -> Json:
    config = schedule()["ScheduledUpdateConfig"]
    rollback = [{"AlarmName": alarm} for alarm in alarms]
    deployment = {**config["DeploymentConfig"], "AutoRollbackConfiguration": rollback}
    return {"ScheduledUpdateConfig": {**config, "DeploymentConfig": deployment}}


@pytest.mark.parametrize(
    ("before", "after", "effect", "words"),
    [
        (["a", "b"], ["a"], Effect.WEAKENS, "while b is in alarm"),
        (["a"], ["b"], Effect.WEAKENS, "while a is in alarm"),
        (["a"], ["a", "b"], Effect.SAFE, "stops and goes back"),
        (["a", "b"], ["b", "a"], None, ""),
    ],
)
def test_alarms_that_stop_an_update(
    before: list[str], after: list[str], effect: Effect | None, words: str, tmp_path: Path
) -> None:
    environment = compared(tmp_path, cluster(**stopped_by(*before)), cluster(**stopped_by(*after)))
    rows = [row for row in environment.rows if row.code == "rollback-alarms"]
    assert [(row.effect, words in row.consequence) for row in rows] == ([] if effect is None else [(effect, True)])
    assert len(environment.rows) == len(rows), "the schedule stays"
    assert len(environment.remarks) == (effect is Effect.WEAKENS)


@pytest.mark.parametrize(
    ("size", "unit", "batches", "at_once"),
    [
        # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CapacitySizeConfig.html: of 4 nodes
        (1, "INSTANCE_COUNT", "about 4 batches", "1 of 4 "),
        (3, "INSTANCE_COUNT", "about 2 batches", "3 of 4 "),
        (50, "CAPACITY_PERCENTAGE", "about 2 batches", "50 % of 4 "),
        (30, "CAPACITY_PERCENTAGE", "about 4 batches", "30 % of 4 "),
    ],
)
def test_another_image_rolls_the_nodes_in_batches(
    size: int, unit: str, batches: str, at_once: str, tmp_path: Path
) -> None:
    rolling = schedule(size, 60, unit=unit)
    before, after = (cluster(**rolling, ImageId=f"ami-0123456789abcdef{number}") for number in (0, 1))
    (row,) = compared(tmp_path, before, after).rows
    assert (row.effect, row.code) == (Effect.INTERRUPTS, "software-update")
    assert batches in row.consequence and ", 60 s apart" in row.consequence
    assert row.unavailable.startswith(at_once)


@pytest.mark.parametrize(
    ("number_before", "number_after", "code", "words"),
    [
        (4, 3, "count-down", "1 ml.p5.48xlarge node deleted"),
        (4, 6, "count-up", "2 ml.p5.48xlarge nodes created"),
        (0, 2, "count-up", "2 ml.p5.48xlarge nodes created"),
    ],
)
def test_a_count(number_before: int, number_after: int, code: str, words: str, tmp_path: Path) -> None:
    before, after = (cluster(InstanceCount=number) for number in (number_before, number_after))
    (row,) = compared(tmp_path, before, after).rows
    assert row.code == code and row.change == f"count {number_before} → {number_after}"
    assert row.consequence.startswith(words)
    assert row.effect is (Effect.LOSES_NODES if number_after < number_before else Effect.SAFE)


@pytest.mark.parametrize(("number", "effect"), [(4, Effect.LOSES_NODES), (0, Effect.SAFE)])
def test_another_type_loses_the_nodes_that_there_are(number: int, effect: Effect, tmp_path: Path) -> None:
    before, after = (cluster(InstanceCount=number, InstanceType=f"ml.p5{letter}.48xlarge") for letter in ("", "e"))
    (row,) = compared(tmp_path, before, after).rows
    assert (row.effect, row.code) == (effect, "group-type")


PLAN = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/"


@pytest.mark.parametrize(
    ("before", "after", "effect", "words"),
    [
        ("", "a", Effect.SAFE, "capacity comes from this plan"),
        ("a", "b", Effect.INTERRUPTS, "The capacity was the other plan's"),
        ("a", "", Effect.INTERRUPTS, "and the on-demand price"),
    ],
)
def test_a_training_plan(before: str, after: str, effect: Effect, words: str, tmp_path: Path) -> None:
    arns: list[Json] = [{"TrainingPlanArn": PLAN + plan} if plan else {} for plan in (before, after)]
    (row,) = compared(tmp_path, *(cluster(**arn) for arn in arns)).rows
    assert (row.effect, row.code, words in row.consequence) == (effect, "training-plan", True)

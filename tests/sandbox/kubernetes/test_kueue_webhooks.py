"""What Kueue's own webhooks refuse of a queue beyond its definition: v0.19.2's `clusterqueue_webhook_test.go`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray_sandbox.kubernetes.controllers import governance
from hyperpod_ray_sandbox.kubernetes.kueue import webhooks
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from tests.sandbox.kubernetes.test_hostile_team import queue_objects

Json = dict[str, Any]
GROUP = "kueue.x-k8s.io"


def resource(kind: str, plural: str) -> Resource:
    return Resource(group=GROUP, version="v1beta2", kind=kind, plural=plural, namespaced=False, crd="x")


QUEUES, COHORTS = resource("ClusterQueue", "clusterqueues"), resource("Cohort", "cohorts")


def queue() -> Json:
    """The queue that the stand-in makes of the first team of the example."""
    plan = load("teams", folder=FOLDER / "examples").plan
    return next(copy.deepcopy(body) for body in queue_objects(plan) if body["kind"] == "ClusterQueue")


def of_flavor(change: Callable[[list[Json]], Any]) -> Callable[[Json], Any]:
    return lambda spec: change(spec["resourceGroups"][0]["flavors"][0]["resources"])


def second_group(spec: Json) -> None:
    spec["resourceGroups"].append(copy.deepcopy(spec["resourceGroups"][0]))


def a_limit_alone(spec: Json) -> None:
    spec.pop("cohortName")
    for flavor in spec["resourceGroups"][0]["flavors"]:
        for quota in flavor["resources"]:
            quota.pop("borrowingLimit", None)
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "0"


def many_flavors(spec: Json) -> None:
    (group,) = spec["resourceGroups"]
    group["flavors"] = [{**group["flavors"][0], "name": f"f{number}"} for number in range(257)]


FIRST = "spec.resourceGroups[0].flavors[0]"
REFUSED: dict[str, tuple[Callable[[Json], Any], str]] = {
    "resources in another order": (
        of_flavor(list.reverse),
        f'{FIRST}.resources[0].name: Invalid value: "vpc.amazonaws.com/efa": must match the name in coveredResources',
    ),
    "less than nothing": (
        of_flavor(lambda rows: rows[1].update(nominalQuota="-1")),
        f'{FIRST}.resources[1].nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a limit below nothing": (
        of_flavor(lambda rows: rows[1].update(borrowingLimit="-1")),
        f'{FIRST}.resources[1].borrowingLimit: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "it lends more than it has": (
        of_flavor(lambda rows: rows[1].update(nominalQuota="1", lendingLimit="2")),
        f'{FIRST}.resources[1].lendingLimit: Invalid value: "2": must be less than or equal to the nominalQuota',
    ),
    "it lends to nobody": (
        a_limit_alone, f'{FIRST}.resources[0].lendingLimit: Invalid value: "0": must be nil when cohort is empty',
    ),
    "a flavor twice": (
        lambda spec: spec["resourceGroups"][0]["flavors"].append(spec["resourceGroups"][0]["flavors"][0]),
        'Duplicate value: "ml.g5.8xlarge"',
    ),
    "a resource in two groups": (
        second_group, 'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "aws.amazon.com/neurondevice"',
    ),
    "a weight below nothing": (
        lambda spec: spec.update(fairSharing={"weight": "-1"}),
        'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "a weight that counts as none": (
        lambda spec: spec.update(fairSharing={"weight": "1n"}), "When not 0, weight must be > 10e-9",
    ),
    "too many flavors": (
        many_flavors, "Invalid value: 257: total number of flavors across all resourceGroups must be ≤ 256, got 257",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_queue_that_kueue_refuses(name: str) -> None:
    change, words = REFUSED[name]
    body = queue()
    assert webhooks.denial(QUEUES, body) == "", "the same queue without the change"
    change(body["spec"])
    said = webhooks.denial(QUEUES, body)
    assert said.startswith('admission webhook "vclusterqueue.kb.io" denied the request: ')
    assert words in said


def test_several_causes_are_a_list() -> None:
    body = queue()
    body["spec"]["resourceGroups"][0]["flavors"][0]["resources"].reverse()
    assert "denied the request: [spec." in webhooks.denial(QUEUES, body)


def test_a_cohort_may_lend_more_than_it_has_itself() -> None:
    spec = {key: value for key, value in queue()["spec"].items() if key == "resourceGroups"} | {"parentName": "all"}
    spec["resourceGroups"][0]["flavors"][0]["resources"][0].update(nominalQuota="0", lendingLimit="2")
    assert webhooks.denial(COHORTS, {"spec": spec}) == ""
    spec.pop("parentName")
    assert "must be nil when parent is empty" in webhooks.denial(COHORTS, {"spec": spec})


SHARING: dict[str, Json] = {
    "lends and borrows": {"Strategy": "LendAndBorrow", "BorrowLimit": 150},
    "lends": {"Strategy": "Lend"},
    "keeps": {"Strategy": "DontLend"},
    "amounts": {"Strategy": "LendAndBorrow",
                "AbsoluteBorrowLimits": [{"InstanceType": "ml.p4d.24xlarge", "Accelerators": 3}]},
}  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_every_quota_that_the_service_takes_makes_a_queue_that_kueue_takes(name: str) -> None:
    """Types without GPUs, Trainium, partitions and parts of instances beside each other."""
    quota = {
        "ComputeQuotaTarget": {"TeamName": "speech-and-audio", "FairShareWeight": 0},
        "ComputeQuotaConfig": {
            "ComputeQuotaResources": [
                {"InstanceType": "ml.p4d.24xlarge", "Accelerators": 4},
                {"InstanceType": "ml.trn1.32xlarge", "Count": 1},
                {"InstanceType": "ml.m5.2xlarge", "VCpu": 3.0, "MemoryInGiB": 5.0},
                {"InstanceType": "ml.p5.48xlarge", "VCpu": 8.0,
                 "AcceleratorPartition": {"Type": "mig-1g.10gb", "Count": 7}},
            ],
            "ResourceSharingConfig": SHARING[name],
        },
    }  # fmt: skip
    body = {"spec": governance._cluster_queue(quota)}
    assert webhooks.denial(QUEUES, body) == ""
    (group,) = body["spec"]["resourceGroups"]
    assert all(len(flavor["resources"]) == len(group["coveredResources"]) for flavor in group["flavors"])

"""What Kueue's webhook refuses: cases of its own tests (v0.19.2, pkg/controller/jobs/rayjob/rayjob_webhook_test.go)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hyperpod_ray_rules import kueue

Json = dict[str, Any]
REQUIRED, PREFERRED = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"


def ray_job(*, queue: str = "queue", **spec: Any) -> Json:
    template: Json = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    base: Json = {
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {
            "headGroupSpec": {"template": copy.deepcopy(template)},
            "workerGroupSpecs": [{"groupName": "workers-group-0", "template": copy.deepcopy(template)}],
        },
        **spec,
    }
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {"kind": "RayJob", "metadata": {"name": "job", "namespace": "ns", "labels": labels}, "spec": base}


def cluster(groups: int = 1, name: str = "g", **more: Any) -> Json:
    found: Json = {"headGroupSpec": {"template": {}}, **more}
    found["workerGroupSpecs"] = [{"groupName": f"{name}{index if groups > 1 else ''}"} for index in range(groups)]
    return found


def topology(*keys: str) -> Json:
    annotated = {"template": {"metadata": {"annotations": dict.fromkeys(keys, "cloud.com/block")}}}
    return {"headGroupSpec": annotated, "workerGroupSpecs": [{"groupName": "wg1", **annotated}]}


TOO_MANY = "must not contain more than one topology annotation"
CASES: dict[str, tuple[Json, list[tuple[str, str]]]] = {
    "unmanaged": (ray_job(queue="", shutdownAfterJobFinishes=False), []),
    "managed, good": (ray_job(), []),
    "no cluster selector and no cluster": (
        ray_job(rayClusterSpec=None),
        [("spec.rayClusterSpec", "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector")],
    ),
    "the cluster stays": (
        ray_job(shutdownAfterJobFinishes=False),
        [("spec.shutdownAfterJobFinishes", "a kueue managed job should delete the cluster after finishing")],
    ),
    "selector and cluster": (
        ray_job(clusterSelector={"k1": "v1"}),
        [("spec.clusterSelector", "a kueue managed job should not use an existing cluster")],
    ),
    "selector alone": (ray_job(clusterSelector={"k1": "v1"}, rayClusterSpec=None), []),
    "autoscaler": (
        ray_job(rayClusterSpec=cluster(enableInTreeAutoscaling=True)),
        [
            (
                "spec.rayClusterSpec.enableInTreeAutoscaling",
                "a kueue managed job should only use autoscaling when workload slicing is enabled",
            )
        ],
    ),
    "too many groups": (
        ray_job(rayClusterSpec=cluster(8)),
        [("spec.rayClusterSpec.workerGroupSpecs", "Too many: 9: must have at most 8 items")],
    ),
    "as many as there can be": (ray_job(rayClusterSpec=cluster(7)), []),
    "the submitter counts": (
        ray_job(rayClusterSpec=cluster(7), submissionMode="K8sJobMode"),
        [("spec.rayClusterSpec.workerGroupSpecs", "Too many: 9: must have at most 8 items")],
    ),
    "a group called head": (
        ray_job(rayClusterSpec=cluster(name="head")),
        [("spec.rayClusterSpec.workerGroupSpecs[0].groupName", '"head" is reserved for the head group')],
    ),
    "topology": (ray_job(rayClusterSpec=topology(REQUIRED)), []),
    "two topologies": (
        ray_job(rayClusterSpec=topology(REQUIRED, PREFERRED)),
        [
            ("spec.rayClusterSpec.headGroupSpec.template.metadata.annotations", TOO_MANY),
            ("spec.rayClusterSpec.workerGroupSpecs[0].template.metadata.annotations", TOO_MANY),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_webhooks_own_cases(name: str) -> None:
    item, refused = CASES[name]
    found = [(one.path, one.message) for one in kueue.judge(item)]
    assert [path for path, _ in found] == [path for path, _ in refused]
    assert all(said.startswith(wanted) for (_, said), (_, wanted) in zip(found, refused, strict=True)), found


def test_newer_versions_take_more_groups() -> None:
    assert kueue.judge(ray_job(rayClusterSpec=cluster(17)), pod_sets=kueue.POD_SETS["0.19"]) == []
    assert kueue.judge(ray_job(rayClusterSpec=cluster(18)), pod_sets=kueue.POD_SETS["0.19"])


@pytest.mark.parametrize(
    ("item", "suspended"),
    [
        (ray_job(suspend=False), True),
        (ray_job(queue="", suspend=False), False),
        (ray_job(clusterSelector={"a": "b"}, rayClusterSpec=None, suspend=False), False),
    ],
)
def test_what_has_a_queue_is_suspended_until_it_is_admitted(item: Json, suspended: bool) -> None:
    assert kueue.defaulted(item)["spec"]["suspend"] is suspended

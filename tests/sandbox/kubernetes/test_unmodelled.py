"""What a stranger's manifests ask of KubeRay and Kueue and no model here does is refused by name, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes import unmodelled
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.resources import Resource

Json = dict[str, Any]

QUEUE: Json = {
    "metadata": {"name": "team-a"},
    "spec": {
        "cohortName": "all",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"}},
        "fairSharing": {"weight": "1"},
    },
}
"""With each default of the definition written out."""


def asked(kind: str, obj: Json | None, *, group: str = digests.GROUP, crd: str = "x", kueue: bool = True) -> str:
    resource = Resource(group=group, version="v1", kind=kind, plural=kind.lower(), namespaced=True, crd=crd)
    return unmodelled.refusal(resource, obj, defined=lambda name: kueue and name == "workloads.kueue.x-k8s.io")


def queue(path: str, value: Any) -> Json:
    body = copy.deepcopy(QUEUE)
    inner = body["spec"]
    *parents, last = path.split(".")
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value
    return body


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("stopPolicy", "Hold"),
        ("stopPolicy", "HoldAndDrain"),
        ("admissionChecksStrategy", {"admissionChecks": [{"name": "budget"}]}),
        ("admissionChecks", ["budget"]),
        ("flavorFungibility.whenCanBorrow", "TryNextFlavor"),
        ("flavorFungibility.whenCanPreempt", "MayStopSearch"),
        ("flavorFungibility.whenCanPreempt", "Preempt"),
        ("preemption.borrowWithinCohort.policy", "LowerPriority"),
        ("cohort", "all"),
    ],
)
def test_a_field_that_changes_who_is_admitted_is_named(path: str, value: Any) -> None:
    assert asked("ClusterQueue", queue(path, value)).startswith(f"spec.{path} of a ClusterQueue of Kueue: ")


@pytest.mark.parametrize(
    ("kind", "spec", "named"),
    [
        ("Cohort", {"parentName": "company"}, "spec.parentName"),
        ("Cohort", {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}, "spec.resourceGroups"),
        ("LocalQueue", {"clusterQueue": "team-a", "stopPolicy": "Hold"}, "spec.stopPolicy"),
        ("ResourceFlavor", {"topologyName": "racks", "nodeLabels": {"a": "b"}}, "spec.topologyName"),
        ("ResourceFlavor", {"nodeTaints": [{"key": "spot", "effect": "NoSchedule"}]}, "spec.nodeTaints"),
    ],
)
def test_other_objects_of_queues_too(kind: str, spec: Json, named: str) -> None:
    assert asked(kind, {"metadata": {}, "spec": spec}).startswith(f"{named} of a {kind} of Kueue: ")


def test_defaults_and_what_the_models_read_are_accepted() -> None:
    assert not asked("ClusterQueue", QUEUE)
    assert not asked("ClusterQueue", {"metadata": {}, "spec": {}})
    assert not asked("Cohort", {"metadata": {}})
    assert not asked("LocalQueue", {"metadata": {}, "spec": {"clusterQueue": "team-a", "stopPolicy": "None"}})
    assert not asked("ResourceFlavor", {"metadata": {}, "spec": {"nodeLabels": {"a": "b"}}})
    assert not asked("ClusterQueue", None), "a deletion"


@pytest.mark.parametrize(
    ("group", "kind"), [("batch", "Job"), ("apps", "Deployment"), ("apps", "StatefulSet"), ("", "Pod")]
)
def test_a_queue_of_what_kueue_queues_besides(group: str, kind: str) -> None:
    """Kueue suspends such a Job until it is admitted; here it would run, and count nowhere."""
    labelled = {"metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}}
    assert f"of a {kind}" in asked(kind, labelled, group=group, crd="")
    assert not asked(kind, labelled, group=group, crd="", kueue=False)
    assert not asked(kind, {"metadata": {"name": "j"}}, group=group, crd="")
    owned = {"metadata": {**labelled["metadata"], "ownerReferences": [{"kind": "RayJob", "name": "r", "uid": "u"}]}}
    assert not asked(kind, owned, group=group, crd=""), "counted as its owner"


def test_a_ray_service_is_refused_and_its_deletion_is_not() -> None:
    assert "RayService" in asked("RayService", {"metadata": {}, "spec": {}}, group="ray.io", kueue=False)
    assert not asked("RayService", None, group="ray.io")
    assert not asked("RayJob", {"metadata": {}, "spec": {}}, group="ray.io")
    assert not asked("RayService", {"metadata": {}}, group="example.com"), "somebody else's definition"

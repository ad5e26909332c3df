from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.observe import kube, training
from hyperpod_ray.ops.observe.snapshot import Job, RayJob
from hyperpod_ray.ops.reach import ray_pods
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.ops_more_states_helpers import target
from tests.ops.snapshots import (
    HEAD,
    JOB,
    ago,
    pod,
)

Json = dict[str, Any]


class Refusing:
    """A Kubernetes API that answers every listing with one status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def items(self, *_: Any, **__: Any) -> list[Json]:
        raise ApiError(status=self.status)


@pytest.mark.parametrize("listing", [kube.ray_clusters, kube.ray_jobs, kube.quotas])
def test_a_kind_that_is_not_installed_has_no_objects(listing: Any) -> None:
    """Without its CustomResourceDefinition, the API server knows no path: 404."""
    assert listing(target(Refusing(404)), "ray") == []
    for status in (403, 500):
        with pytest.raises(ApiError):
            listing(target(Refusing(status)), "ray")


def test_jobs_of_every_cluster_are_listed_newest_first_and_what_waits_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = {
        ("ray", "ray"): [replace(JOB, id="old", started=ago(90)), replace(JOB, id="new", started=ago(5))],
        ("ray", "own"): [replace(JOB, id="waits", started=None)],
    }
    rayjobs = [
        RayJob(name=name, namespace="ray", cluster=cluster, deployment_status=state)
        for name, cluster, state in (
            ("a", "own", "Running"), ("b", "own", "Initializing"), ("c", "gone", "Complete"), ("d", "", "Running")
        )
    ]  # fmt: skip
    asked: list[tuple[str, str]] = []
    heads = [pod("h1", HEAD, role="head"), pod("h2", HEAD, role="head", cluster="own"), pod("w", HEAD, cluster="gone")]

    def read(_: Target, *, namespace: str, cluster: str) -> tuple[list[Job], list[Any]]:
        asked.append((namespace, cluster))
        return clusters[namespace, cluster], []

    monkeypatch.setattr(kube, "ray_jobs", lambda *_: rayjobs)
    monkeypatch.setattr(ray_pods, "pods", lambda *_: heads)
    monkeypatch.setattr(training, "training", read)
    listed = training.gathered(target(), noted=contextlib.nullcontext)
    assert [job.id for job in listed["jobs"]] == ["waits", "new", "old"]
    assert asked == [("ray", "ray"), ("ray", "own")]
    for changes in ({"ready": False}, {"deleting_since": ago(1)}):
        heads[0] = pod("h1", HEAD, role="head", **changes)
        asked.clear()
        training.gathered(target(), noted=contextlib.nullcontext)
        assert asked == [("ray", "own")], "a head that is not ready is not asked"

    def refuse(*_: Any) -> Any:
        raise ApiError(status=403)

    monkeypatch.setattr(kube, "ray_jobs", refuse)
    heads[0] = pod("h1", HEAD, role="head")
    assert [job.id for job in training.gathered(target(), noted=contextlib.nullcontext)["jobs"]] == ["new", "old"]


def test_a_claim_as_kubernetes_has_it() -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/"""
    meta = {"name": "fsx", "creationTimestamp": "2026-11-21T10:00:00Z", "deletionTimestamp": "2026-11-21T11:00:00Z"}
    full = {"metadata": meta, "spec": {"volumeName": "pv-1", "storageClassName": "fsx-sc"}, "status": {"phase": "Lost"}}
    api = SimpleNamespace(items=lambda path: [full, {"metadata": {"name": "b"}}])
    first, second = kube.claims(target(api), "ray")
    assert (first.name, first.namespace, first.phase) == ("fsx", "ray", "Lost")
    assert (first.volume, first.storage_class) == ("pv-1", "fsx-sc")
    assert first.created is not None
    assert first.deleting_since is not None
    assert (first.created.hour, first.deleting_since.hour) == (10, 11)
    assert (second.phase, second.volume, second.storage_class, second.created) == ("Pending", "", "", None)


def test_warnings_are_the_newest_first() -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/"""
    about = {"involvedObject": {"kind": "Pod", "name": "w1"}, "reason": "FailedMount", "message": "timed out"}
    old = {**about, "metadata": {}, "lastTimestamp": "2026-11-21T10:00:00Z", "count": 7}
    new = {**about, "metadata": {}, "eventTime": "2026-11-21T11:00:00.000000Z"}
    made_only = {"metadata": {"creationTimestamp": "2026-11-21T09:00:00Z"}}
    asked: list[Json] = []

    def items(path: str, **options: str) -> list[Json]:
        asked.append({"path": path, **options})
        return [old, made_only, new]

    listed = kube.warnings(target(SimpleNamespace(items=items)), "ray")
    assert [(event.object, event.count) for event in listed] == [("Pod/w1", 1), ("Pod/w1", 7), ("/", 1)]
    assert (listed[0].reason, listed[0].message) == ("FailedMount", "timed out")
    assert asked == [{"path": "/api/v1/namespaces/ray/events", "fields": "type=Warning"}]

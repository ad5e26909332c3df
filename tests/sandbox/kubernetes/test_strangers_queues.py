"""Queues that no environment of this project makes: two cohorts, limits, priorities, a selector of namespaces.

What must happen is in Kueue's pages: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/ and .../preemption/
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.controllers.kueue import API_VERSION, workload_name
from tests.sandbox.kubernetes.test_kueue import RAY, World

Json = dict[str, Any]
QUEUES: dict[str, Json] = {
    "red-1": {"cohortName": "red", "preemption": {"withinClusterQueue": "LowerPriority"}},
    "red-2": {"cohortName": "red", "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}},
    "blue": {"cohortName": "blue", "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}},
    "alone": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "somebody"}}},
}
LIMITS: dict[str, Json] = {"red-1": {"borrowingLimit": 2}, "red-2": {"lendingLimit": 3}}


class Strangers(World):
    """A namespace and a LocalQueue of the same name for each ClusterQueue of four CPUs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [])
        self.make("ResourceFlavor", "", "any", {})
        for name, value in (("low", -10), ("high", 10)):
            self.make("WorkloadPriorityClass", "", name, {}, value=value)
        for name, spec in QUEUES.items():
            self.api.create(
                self.api.kind("v1", "Namespace"), "",
                {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}},
            )  # fmt: skip
            quota = {"name": "cpu", "nominalQuota": 4, **LIMITS.get(name, {})}
            groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [quota]}]}]
            self.make(
                "ClusterQueue", "", name, {"namespaceSelector": {}, "resourceGroups": groups, **copy.deepcopy(spec)}
            )
            self.make("LocalQueue", name, name, {"clusterQueue": name})

    def make(self, kind: str, space: str, name: str, spec: Json, **fields: Any) -> None:
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}
        if not fields:
            body["spec"] = spec
        self.api.create(self.api.kind(API_VERSION, kind), space, body)

    def ask(self, queue: str, name: str, cpus: int, *, priority: str = "") -> None:
        """A RayJob whose head has one CPU and whose workers have the others."""
        labels = {"kueue.x-k8s.io/queue-name": queue}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = priority
        pod = {"spec": {"containers": [{"name": "ray", "image": "ray:1", "resources": {"limits": {"cpu": "1"}}}]}}
        workers = {"groupName": "w", "replicas": cpus - 1, "minReplicas": 0, "maxReplicas": 9, "template": pod}
        spec = {
            "entrypoint": "true", "submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True, "suspend": True,
            "rayClusterSpec": {"rayVersion": "2.60.0", "workerGroupSpecs": [{**workers, "rayStartParams": {}}],
                               "headGroupSpec": {"rayStartParams": {}, "template": pod}},
        }  # fmt: skip
        body = {"apiVersion": RAY, "kind": "RayJob", "metadata": {"name": name, "labels": labels}, "spec": spec}
        self.api.create(self.api.kind(RAY, "RayJob"), queue, copy.deepcopy(body))
        self.settle()

    def admitted(self) -> set[str]:
        return {job["metadata"]["name"] for job in self.api.all(RAY, "RayJob") if not job["spec"].get("suspend")}

    def end_of(self, queue: str, name: str) -> None:
        job = self.api.find(RAY, "RayJob", queue, name)
        assert job is not None
        ended = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}
        self.api.modify(job, lambda body: body["status"].update(ended), status=True)
        self.settle()

    def why(self, queue: str, name: str) -> str:
        job = self.api.find(RAY, "RayJob", queue, name)
        assert job is not None
        workload = self.api.find(API_VERSION, "Workload", queue, workload_name(job))
        assert workload is not None
        (reserved,) = [entry for entry in workload["status"]["conditions"] if entry["type"] == "QuotaReserved"]
        return str(reserved["message"])


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Strangers]:
    yield Strangers(tmp_path)


def test_a_queue_borrows_up_to_its_limit_and_from_its_cohort_alone(strangers: Strangers) -> None:
    strangers.ask("red-1", "whole", 6)
    assert strangers.admitted() == {"whole"}, "four of its own and two of red-2's"
    strangers.ask("red-1", "beyond", 1)
    assert "insufficient unused quota for cpu in flavor any, 1 more needed" in strangers.why("red-1", "beyond")
    strangers.ask("blue", "too-large", 5)
    assert "> maximum capacity (4)" in strangers.why("blue", "too-large"), "red's quota is no quota of blue's"
    assert strangers.admitted() == {"whole"}


def test_what_is_lent_is_taken_back_and_a_small_job_passes_the_one_that_waits(strangers: Strangers) -> None:
    strangers.ask("red-1", "whole", 6)
    strangers.ask("red-1", "small", 2)
    strangers.ask("red-2", "owner", 4)
    assert strangers.admitted() == {"owner", "small"}
    assert "insufficient unused quota" in strangers.why("red-1", "whole")


def test_a_lender_without_the_right_to_reclaim_waits(strangers: Strangers) -> None:
    strangers.ask("red-2", "borrower", 5)
    assert strangers.admitted() == {"borrower"}
    strangers.ask("red-1", "owner", 4)
    assert strangers.admitted() == {"borrower"}, "red-1 reclaims from nobody"


def test_priorities_within_a_queue(strangers: Strangers) -> None:
    strangers.ask("red-1", "fills", 4)
    strangers.ask("red-2", "plain", 4)
    strangers.ask("red-2", "low", 4, priority="low")
    assert strangers.admitted() == {"fills", "plain"}
    strangers.ask("red-2", "high", 4, priority="high")
    assert strangers.admitted() == {"fills", "high"}


def test_an_older_job_of_the_same_priority_takes_its_place_back(strangers: Strangers) -> None:
    strangers.ask("blue", "runs", 2)
    strangers.ask("blue", "older", 4)
    strangers.ask("blue", "newer", 2)
    assert strangers.admitted() == {"runs", "newer"}, "best-effort FIFO: the newer one passes the older"
    strangers.end_of("blue", "runs")
    assert strangers.admitted() - {"runs"} == {"older"}, "LowerOrNewerEqualPriority"


def test_a_namespace_that_the_selector_does_not_take(strangers: Strangers) -> None:
    strangers.ask("alone", "outside", 1)
    assert strangers.admitted() == set()
    assert strangers.why("alone", "outside") == "Workload namespace doesn't match ClusterQueue selector"

"""Kueue's stand-in: jobs of teams are admitted, borrow, and are reclaimed; the queues' objects are Kueue's own.

The figures are those of `environments/examples/teams.yaml`. The words are those that Kueue v0.19.2 writes
(pkg/scheduler, pkg/workload), so that what the product reads of them is read of the same text.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.core import load
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray_sandbox.charts import kuberay_crds
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers import governance
from hyperpod_ray_sandbox.kubernetes.controllers.entrypoints import Entrypoints
from hyperpod_ray_sandbox.kubernetes.controllers.kueue import API_VERSION, Kueue, seconds, workload_name
from hyperpod_ray_sandbox.kubernetes.controllers.rayjob import RayJobs
from hyperpod_ray_sandbox.kubernetes.kueue import digests
from hyperpod_ray_sandbox.kubernetes.store import Store
from tests.k8s.conftest import BINDINGS

Json = dict[str, Any]
RAY = "ray.io/v1"
VISION, SPEECH = "hyperpod-ns-vision", "hyperpod-ns-speech"
GPU, HEAD = "ml.g5.8xlarge", "ml.m5.2xlarge"


def without_rules(schema: Any) -> Any:
    """A definition without CEL: this process has no evaluator; tests with a server ask with the rules."""
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key != "x-kubernetes-validations"}
    return [without_rules(value) for value in schema] if isinstance(schema, list) else schema


def quota(team: str, **sharing: Any) -> Json:
    """What `environments/examples/teams.yaml` gives each team."""
    amounts = [{"InstanceType": GPU, "Count": 2}, {"InstanceType": HEAD, "Count": 1}]
    shares = {"Strategy": "LendAndBorrow", "BorrowLimit": 100, **sharing}
    return {
        "ComputeQuotaTarget": {"TeamName": team, "FairShareWeight": 50},
        "ComputeQuotaConfig": {"ComputeQuotaResources": amounts, "ResourceSharingConfig": shares,
                               "PreemptTeamTasks": "LowerPriority"},
    }  # fmt: skip


POLICY: Json = {"SchedulerConfig": {"PriorityClasses": [{"Name": "research", "Weight": 50},
                                                        {"Name": "deadline", "Weight": 90}]}}  # fmt: skip


@functools.cache
def example() -> tuple[Any, Json]:
    """The example with teams: its plan, and the RayCluster that its jobs are made of."""
    plan = load("teams", folder=FOLDER / "examples").plan
    manifests = [manifest for one in k8s.ray_manifests(plan, BINDINGS) for manifest in one.objects]
    (live,) = [manifest for manifest in manifests if manifest["kind"] == "RayCluster"]
    return plan, live


@functools.cache
def definitions() -> list[Json]:
    """KubeRay's and Kueue's, without rules."""
    ray = [kuberay_crds.TARGET / f"ray.io_{plural}.yaml" for plural in ("rayclusters", "rayjobs")]
    bodies = [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in ray]
    return [without_rules(body) for body in [*bodies, *digests.definitions()]]


@functools.cache
def stored() -> bytes:
    """The store of an API that has the definitions: to judge them takes most of a second."""
    with tempfile.TemporaryDirectory(prefix="kueue-") as folder:
        file = Path(folder, "objects.sqlite")
        api = Api(Store(file))
        for body in definitions():
            api.create(api.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "", body)
        api.store.close()
        return file.read_bytes()


class World:
    """An API with two teams' queues, the operator's model for their jobs, and Kueue's stand-in."""

    def __init__(self, folder: Path, quotas: list[Json]) -> None:
        self.plan, self._live = example()
        file = folder / "objects.sqlite"
        file.write_bytes(stored())
        self.api = Api(Store(file))
        for kind, space, name, body in governance.objects(quotas, [POLICY]):
            manifest = governance.manifest(kind, space, name, body)
            self.api.create(self.api.kind(manifest["apiVersion"], kind), space, manifest)
        self.kueue, self.jobs = Kueue(self.api), RayJobs(self.api, Entrypoints((), folder))

    def submit(self, team: str, name: str, **fields: Any) -> None:
        job = Job(**{"command": "python main.py", "team": team, "workers": 1, **fields})
        body = job_object.ray_job(self.plan, copy.deepcopy(self._live), job, name=name, code=f"{name}-code")
        self.api.create(self.api.kind(RAY, "RayJob"), f"hyperpod-ns-{team}", body)

    def settle(self) -> None:
        """Both controllers until nothing changes."""
        for _ in range(30):
            before = self.api.store.version
            self.kueue.reconcile()
            for job in self.api.all(RAY, "RayJob"):
                self.jobs.reconcile(job)
            if self.api.store.version == before:
                return
        pytest.fail("the controllers never come to rest")

    def job(self, team: str, name: str) -> Json:
        job = self.api.find(RAY, "RayJob", f"hyperpod-ns-{team}", name)
        assert job is not None
        return job

    def runs(self, team: str, name: str) -> bool:
        """Whether a job was started and has its RayCluster."""
        job = self.job(team, name)
        cluster = (job.get("status") or {}).get("rayClusterName") or ""
        there = self.api.find(RAY, "RayCluster", f"hyperpod-ns-{team}", cluster) is not None
        assert there != bool(job["spec"].get("suspend"))
        return there

    def workload(self, team: str, name: str) -> Json:
        workload = self.api.find(API_VERSION, "Workload", f"hyperpod-ns-{team}", workload_name(self.job(team, name)))
        assert workload is not None
        return workload

    def said(self, team: str, name: str) -> dict[str, tuple[str, str, str]]:
        conditions = self.workload(team, name)["status"]["conditions"]
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"])
            for condition in conditions
        }

    def end(self, team: str, name: str, state: str = "SUCCEEDED") -> None:
        status = {"jobStatus": state, "jobDeploymentStatus": "Complete" if state == "SUCCEEDED" else "Failed"}
        self.api.modify(self.job(team, name), lambda job: job["status"].update(status), status=True)

    def used(self, team: str, flavor: str, resource: str) -> tuple[str, str]:
        queue = self.api.find(API_VERSION, "ClusterQueue", "", f"hyperpod-ns-{team}-clusterqueue")
        assert queue is not None
        (row,) = [row for row in queue["status"]["flavorsUsage"] if row["name"] == flavor]
        (amount,) = [amount for amount in row["resources"] if amount["name"] == resource]
        return amount["total"], amount["borrowed"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield World(tmp_path, [quota("vision"), quota("speech")])


def test_a_job_within_the_quota_is_admitted(world: World) -> None:
    world.submit("vision", "first", workers=2)
    world.settle()
    assert world.runs("vision", "first")
    said = world.said("vision", "first")
    assert said["QuotaReserved"] == ("True", "QuotaReserved", f"Quota reserved in ClusterQueue {VISION}-clusterqueue")
    assert said["Admitted"][:2] == ("True", "Admitted")
    assert world.used("vision", GPU, "nvidia.com/gpu") == ("2", "0")
    assert world.used("vision", GPU, "vpc.amazonaws.com/efa")[0] == "2"
    # head and submitter are of the type that the head's group has, and count as well
    admission = world.workload("vision", "first")["status"]["admission"]
    flavors = {sets["name"]: set(sets["flavors"].values()) for sets in admission["podSetAssignments"]}
    assert flavors["gpu"] == {GPU}
    assert flavors["head"] == {HEAD}


def test_a_team_borrows_what_the_other_leaves_idle(world: World) -> None:
    world.submit("vision", "large", workers=4)
    world.settle()
    assert world.runs("vision", "large")
    assert world.used("vision", GPU, "nvidia.com/gpu") == ("4", "2")


def test_what_was_borrowed_is_reclaimed_and_the_job_waits_again(world: World) -> None:
    world.submit("vision", "large", workers=4)
    world.settle()
    world.submit("speech", "own", workers=2)
    world.settle()
    assert world.runs("speech", "own")
    assert not world.runs("vision", "large")
    assert world.job("vision", "large")["status"]["jobDeploymentStatus"] == "Suspended"
    said = world.said("vision", "large")
    assert said["Evicted"][:2] == ("True", "Preempted")
    assert said["Preempted"][:2] == ("True", "InCohortReclamation")
    assert "due to reclamation within the cohort" in said["Preempted"][2]
    assert world.workload("speech", "own")["metadata"]["uid"] in said["Preempted"][2]
    assert said["QuotaReserved"][0] == "False"
    assert said["Requeued"][:2] == ("True", "Preempted")
    assert world.used("vision", GPU, "nvidia.com/gpu") == ("0", "0")
    world.end("speech", "own")
    world.settle()
    assert world.runs("vision", "large"), "it is admitted again when the nodes are idle"
    said = world.said("vision", "large")
    assert said["Evicted"][0] == "False"
    assert said["Evicted"][2].startswith("Previously: Preempted to accommodate")
    assert world.said("speech", "own")["Finished"][:2] == ("True", "Succeeded")


def test_the_quota_is_free_when_the_pods_are_gone_and_not_before(world: World) -> None:
    """Kueue starts nobody on nodes whose pods still save: the preempted job has its quota until it is suspended."""
    world.submit("vision", "large", workers=4)
    world.settle()
    world.submit("speech", "own", workers=2)
    for _ in range(3):  # the operator does nothing yet
        world.kueue.reconcile()
    assert world.said("vision", "large")["Evicted"][0] == "True"
    assert world.said("vision", "large")["QuotaReserved"][0] == "True"
    assert not world.runs("speech", "own")
    assert world.said("speech", "own")["QuotaReserved"][2].endswith(". Pending the preemption of 1 workload(s)")
    assert world.used("vision", GPU, "nvidia.com/gpu")[0] == "4"


def test_a_small_job_passes_a_large_one_that_does_not_fit(world: World) -> None:
    """BestEffortFIFO, Kueue's default and what the service's queues have."""
    world.submit("vision", "runs", workers=2)
    world.submit("speech", "theirs", workers=1)
    world.settle()
    world.submit("vision", "large", workers=4)
    world.settle()
    world.submit("vision", "small", workers=1)
    world.settle()
    assert world.runs("vision", "small")
    assert not world.runs("vision", "large")
    assert world.said("vision", "large")["QuotaReserved"][:2] == ("False", "Pending")
    assert (
        "insufficient unused quota for nvidia.com/gpu in flavor ml.g5.8xlarge"
        in (world.said("vision", "large")["QuotaReserved"][2])
    )


def test_a_higher_priority_takes_the_place_of_a_lower_of_the_same_team(world: World) -> None:
    world.submit("speech", "theirs", workers=2)
    world.submit("vision", "low", workers=2, priority="research")
    world.settle()
    world.submit("vision", "high", workers=2, priority="deadline")
    world.settle()
    assert world.runs("vision", "high")
    assert not world.runs("vision", "low")
    assert world.said("vision", "low")["Preempted"][1] == "InClusterQueue"
    assert world.runs("speech", "theirs")


def test_a_job_beyond_the_limit_is_never_admitted_and_says_so(world: World) -> None:
    world.submit("vision", "huge", workers=5)
    world.settle()
    status, reason, message = world.said("vision", "huge")["QuotaReserved"]
    assert (status, reason) == ("False", "Pending")
    assert "insufficient quota for nvidia.com/gpu in flavor ml.g5.8xlarge" in message
    assert "current podset request (5) > maximum capacity (4)" in message


def test_a_priority_class_that_is_not_there_gives_no_workload(world: World) -> None:
    world.submit("vision", "first", priority="research")
    job = world.job("vision", "first")
    world.api.modify(job, lambda body: body["metadata"]["labels"].update({"kueue.x-k8s.io/priority-class": "none"}))
    world.settle()
    assert not world.api.all(API_VERSION, "Workload")
    assert not world.runs("vision", "first")


def test_a_job_that_starts_itself_is_stopped(world: World) -> None:
    """Kueue suspends a job that has no reservation, whoever started it."""
    world.submit("vision", "large", workers=4)
    world.settle()
    world.submit("speech", "waits", workers=3)
    world.settle()
    world.api.modify(world.job("speech", "waits"), lambda job: job["spec"].update(suspend=False))
    world.settle()
    assert not world.runs("speech", "waits")


def test_a_waiting_job_may_change_and_is_counted_again(world: World) -> None:
    world.submit("vision", "huge", workers=5)
    world.settle()

    def smaller(job: Json) -> None:
        job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas=2, minReplicas=2, maxReplicas=2)

    world.api.modify(world.job("vision", "huge"), smaller)
    world.settle()
    assert world.runs("vision", "huge")
    assert world.used("vision", GPU, "nvidia.com/gpu")[0] == "2"


def test_a_deleted_job_gives_its_quota_back(world: World) -> None:
    world.submit("vision", "first", workers=2)
    world.settle()
    job = world.job("vision", "first")
    world.api.modify(job, lambda body: body["metadata"].update(finalizers=[]))
    world.api.delete(world.api.kind(RAY, "RayJob"), VISION, "first")
    world.kueue.reconcile()
    assert not world.api.all(API_VERSION, "Workload")
    assert world.used("vision", GPU, "nvidia.com/gpu") == ("0", "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharing", "runs"),
    [
        ({"Strategy": "LendAndBorrow", "BorrowLimit": 50}, {3}),
        ({"Strategy": "LendAndBorrow", "BorrowLimit": 0,
          "AbsoluteBorrowLimits": [{"InstanceType": GPU, "Count": 1}]}, {3}),
        ({"Strategy": "Lend", "BorrowLimit": 0}, set()),
        ({"Strategy": "DontLend", "BorrowLimit": 0}, set()),
    ],
)  # fmt: skip
def test_each_way_of_sharing(tmp_path: Path, sharing: Json, runs: set[int]) -> None:
    """Of two nodes of its own: who borrows at most one runs with three, and nobody here with four."""
    for workers in (3, 4):
        folder = tmp_path / str(workers)
        folder.mkdir()
        world = World(folder, [quota("vision", **sharing), quota("speech")])
        world.submit("vision", "asks", workers=workers)
        world.settle()
        assert world.runs("vision", "asks") == (workers in runs)


def test_what_a_team_does_not_lend_stays_free(tmp_path: Path) -> None:
    world = World(tmp_path, [quota("vision"), quota("speech", Strategy="DontLend", BorrowLimit=0)])
    world.submit("vision", "asks", workers=3)
    world.settle()
    assert not world.runs("vision", "asks")


def test_a_flavor_without_a_topology_admits_no_job_that_asks_for_one(world: World) -> None:
    world.submit("vision", "placed", topology="layer-3")
    world.settle()
    status, reason, message = world.said("vision", "placed")["QuotaReserved"]
    assert (status, reason) == ("False", "Pending")
    assert f'Flavor "{GPU}" does not support TopologyAwareScheduling' in message


def test_a_queue_without_efa_admits_no_worker(world: World) -> None:
    """As observed on real Kueue with quotas that cover only what they name."""
    queue = world.api.find(API_VERSION, "ClusterQueue", "", f"{VISION}-clusterqueue")
    assert queue is not None

    def drop(body: Json) -> None:
        (group,) = body["spec"]["resourceGroups"]
        group["coveredResources"].remove("vpc.amazonaws.com/efa")
        for flavor in group["flavors"]:
            flavor["resources"] = [
                resource for resource in flavor["resources"] if resource["name"] != "vpc.amazonaws.com/efa"
            ]

    world.api.modify(queue, drop)
    world.submit("vision", "first")
    world.settle()
    status, reason, message = world.said("vision", "first")["QuotaReserved"]
    assert (status, reason) == ("False", "Pending")
    assert message == (
        "couldn't assign flavors to pod set gpu: resource vpc.amazonaws.com/efa unavailable in ClusterQueue"
    )


def test_the_local_queue_lists_what_its_queue_covers_as_the_older_version_too(world: World) -> None:
    """All that a member reads of a quota: `flavorsReservation`, in both versions that Kueue serves."""
    world.submit("vision", "first", workers=2)
    world.settle()
    for version in digests.SERVED:
        resource = world.api.kind(f"{digests.GROUP}/{version}", "LocalQueue")
        queue = world.api.get(resource, VISION, f"{VISION}-localqueue")
        rows = {row["name"]: {resource["name"]: resource["total"] for resource in row["resources"]}
                for row in queue["status"]["flavorsReservation"]}  # fmt: skip
        assert rows[GPU]["nvidia.com/gpu"] == "2"
        assert set(rows[GPU]) == set(rows[HEAD]) >= {"cpu", "memory", "vpc.amazonaws.com/efa"}
        assert (queue["status"]["admittedWorkloads"], queue["status"]["pendingWorkloads"]) == (1, 0)


def test_a_missing_flavor_stops_the_queue(world: World) -> None:
    world.api.delete(world.api.kind(API_VERSION, "ResourceFlavor"), "", HEAD)
    world.submit("vision", "first")
    world.settle()
    assert not world.runs("vision", "first")
    queue = world.api.find(API_VERSION, "ClusterQueue", "", f"{VISION}-clusterqueue")
    assert queue is not None
    (condition,) = queue["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "FlavorNotFound")
    assert HEAD in condition["message"]


def test_a_workload_has_the_name_that_kueue_gives_it() -> None:
    """sha1 over kind, group, name and UID, five digits (pkg/controller/jobframework/workload_names.go)."""
    job = {"kind": "RayJob", "metadata": {"name": "first", "uid": "u1"}}
    digest = hashlib.sha1(b"RayJob\nray.io\nfirst\nu1", usedforsecurity=False).hexdigest()
    assert workload_name(job) == f"rayjob-first-{digest[:5]}"


def test_times_are_compared_as_times() -> None:
    moments = ["2026-01-01T00:00:09Z", "2026-01-01T00:00:10Z"]
    assert all(seconds(early) < seconds(late) for early, late in itertools.pairwise(moments))


PARTITION = "nvidia.com/mig-1g.10gb"


@pytest.fixture
def partitioned(tmp_path: Path) -> World:
    """Both teams have partitions of H100 beside their head's quota; a team can borrow two more."""
    quotas = []
    for name, count in (("vision", 4), ("speech", 3)):
        entry = quota(name, BorrowLimit=None)
        entry["ComputeQuotaConfig"]["ComputeQuotaResources"][0] = {
            "InstanceType": "ml.p5.48xlarge", "VCpu": 48, "MemoryInGiB": 512,
            "AcceleratorPartition": {"Type": "mig-1g.10gb", "Count": count},
        }  # fmt: skip
        entry["ComputeQuotaConfig"]["ResourceSharingConfig"] = {
            "Strategy": "LendAndBorrow",
            "AbsoluteBorrowLimits": [
                {"InstanceType": "ml.p5.48xlarge", "VCpu": 48, "MemoryInGiB": 512,
                 "AcceleratorPartition": {"Type": "mig-1g.10gb", "Count": 2}},
                {"InstanceType": HEAD, "Count": 1},
            ],
        }  # fmt: skip
        quotas.append(entry)
    return World(tmp_path, quotas)


def submit_own(world: World, team: str, name: str, *, asks: dict[str, str], workers: int = 1) -> None:
    """A RayJob as a team writes it itself: its workers ask for other resources, on nodes of any type."""
    _, live = example()
    job = Job(command="python main.py", team=team, workers=str(workers))
    body = job_object.ray_job(world.plan, copy.deepcopy(live), job, name=name, code=f"{name}-code")
    for group in body["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        spec = group["template"]["spec"]
        for key in ("nodeSelector", "affinity"):
            spec.pop(key, None)
        for container in spec["containers"]:
            amounts = {"cpu": "4", "memory": "32Gi", **asks}
            container["resources"] = {"requests": dict(amounts), "limits": dict(amounts)}
    world.api.create(world.api.kind(RAY, "RayJob"), f"hyperpod-ns-{team}", body)


def test_partitions_are_admitted_within_the_quota_and_borrowed_to_the_limit(partitioned: World) -> None:
    """4 of its own; then 3 more, of which 2 may be borrowed: not admitted; with 2 more, admitted."""
    world = partitioned
    submit_own(world, "vision", "own", asks={PARTITION: "2"}, workers=2)
    world.settle()
    assert world.runs("vision", "own")
    assert world.used("vision", "ml.p5.48xlarge", PARTITION) == ("4", "0")
    submit_own(world, "vision", "too-much", asks={PARTITION: "3"})
    world.settle()
    assert not world.runs("vision", "too-much")
    status, _, message = world.said("vision", "too-much")["QuotaReserved"]
    assert status == "False"
    assert PARTITION in message
    submit_own(world, "vision", "borrows", asks={PARTITION: "2"})
    world.settle()
    assert world.runs("vision", "borrows")
    assert world.used("vision", "ml.p5.48xlarge", PARTITION) == ("6", "2")


def test_borrowed_partitions_are_reclaimed(partitioned: World) -> None:
    """Kueue takes one of the borrower's jobs back; which one it takes, of two that began at once, is its own affair."""
    world = partitioned
    submit_own(world, "vision", "four", asks={PARTITION: "4"})
    submit_own(world, "vision", "two", asks={PARTITION: "2"})
    world.settle()
    assert world.used("vision", "ml.p5.48xlarge", PARTITION) == ("6", "2")
    submit_own(world, "speech", "theirs", asks={PARTITION: "3"})
    world.settle()
    assert world.runs("speech", "theirs")
    assert [world.runs("vision", name) for name in ("four", "two")].count(True) == 1
    assert world.used("vision", "ml.p5.48xlarge", PARTITION)[1] == "0"
    assert world.used("speech", "ml.p5.48xlarge", PARTITION) == ("3", "0")


def test_another_profile_is_covered_by_no_queue(partitioned: World) -> None:
    world = partitioned
    submit_own(world, "vision", "large", asks={"nvidia.com/mig-3g.40gb": "1"})
    world.settle()
    _, reason, message = world.said("vision", "large")["QuotaReserved"]
    assert (reason, message) == (
        "Pending",
        "couldn't assign flavors to pod set gpu: resource nvidia.com/mig-3g.40gb unavailable in ClusterQueue",
    )


def test_a_neuron_worker_under_the_name_that_the_queue_does_not_count_is_not_admitted(tmp_path: Path) -> None:
    """The service's queues count `neurondevice`; the pods of this project ask for `neuron`. `submit` refuses it."""
    entry = quota("vision")
    entry["ComputeQuotaConfig"]["ComputeQuotaResources"][0] = {"InstanceType": "ml.trn1.32xlarge", "Count": 1}
    world = World(tmp_path, [entry])
    submit_own(world, "vision", "new-name", asks={"aws.amazon.com/neuron": "8"})
    submit_own(world, "vision", "old-name", asks={"aws.amazon.com/neurondevice": "8"})
    world.settle()
    assert not world.runs("vision", "new-name")
    _, reason, message = world.said("vision", "new-name")["QuotaReserved"]
    assert reason == "Pending"
    assert message.endswith("resource aws.amazon.com/neuron unavailable in ClusterQueue")
    assert world.runs("vision", "old-name")
    assert world.used("vision", "ml.trn1.32xlarge", "aws.amazon.com/neurondevice") == ("8", "0")

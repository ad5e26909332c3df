from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import plan_names
from hyperpod_ray.ops.errors import ApiError
from hyperpod_ray.ops.observe import kube, training
from hyperpod_ray.ops.observe.snapshot import Job, Node, QuotaUse, RayCluster, RayJob, Unseen
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
SANDBOX = Path(__file__).resolve().parents[2] / "hyperpod_ray_sandbox"


def at(hour: int) -> str:
    """A time as Kubernetes writes it."""
    return f"2026-11-21T{hour:02}:00:00Z"


def moment(hour: int) -> datetime:
    return datetime(2026, 11, 21, hour, tzinfo=UTC)


def listed(*objects: Json) -> Any:
    """An API that answers every listing with these objects."""
    return target(SimpleNamespace(items=lambda path, **_: copy.deepcopy(list(objects))))


def changed(obj: Json, path: str, value: Any) -> Json:
    """An object with another value at `status.state`; None removes the key."""
    result = copy.deepcopy(obj)
    *above, last = path.split(".")
    inner = result
    for key in above:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return result


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


# --- what is made of an object's fields ------------------------------------------------------------------------------

OF_AWS = "sagemaker.amazonaws.com/"
"""https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html"""
NODE: Json = {
    "metadata": {
        "name": "hyperpod-i-1",
        "creationTimestamp": at(1),
        "labels": {
            f"{OF_AWS}instance-group-name": "workers",
            f"{OF_AWS}node-health-status": "Unschedulable",
            f"{OF_AWS}deep-health-check-status": "Passed",
            f"{OF_AWS}fault-types": "NvidiaErrorTypeXID",
            f"{OF_AWS}fault-reasons": "74",
            "topology.k8s.aws/network-node-layer-3": "nn-3",
            "topology.k8s.aws/network-node-layer-1": "nn-1",
            "topology.k8s.aws/network-node-layer-2": "nn-2",
        },
        "annotations": {f"{OF_AWS}fault-details": "GPU 3"},
    },
    "spec": {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
    "status": {
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "lastTransitionTime": at(2)},
            {"type": "Ready", "status": "True", "lastTransitionTime": at(3)},
        ]
    },
}
OF_NODE = Node(
    name="hyperpod-i-1", ready=True, unreachable=True, since=moment(3), created=moment(1), group="workers",
    health="Unschedulable", deep_check="Passed", fault="NvidiaErrorTypeXID: 74: GPU 3", cordoned=True,
    network=("nn-1", "nn-2", "nn-3"),
)  # fmt: skip
NO_LABELS = {"group": "", "health": "", "deep_check": "", "network": ()}
READY = {"type": "Ready", "status": "Unknown", "lastTransitionTime": at(4)}
NODES: dict[str, tuple[str, Any, Json]] = {
    "as it is": ("spec.providerID", "aws:///usw2-az1/i-1", {}),
    "no kubelet reports": ("status.conditions", [READY], {"ready": False, "since": moment(4)}),
    "unreachable without its taint": (
        "status.conditions", [{**READY, "status": "False"}], {"ready": False, "since": moment(4)},
    ),
    "nothing reported yet": ("status", None, {"ready": False, "since": None}),
    "an empty status": ("status", {"conditions": None}, {"ready": False, "since": None}),
    "no taints": ("spec.taints", None, {"unreachable": False}),
    "null taints": ("spec.taints", [], {"unreachable": False}),
    "freed": (
        "spec.taints", [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown"}],
        {"unreachable": False, "out_of_service": True},
    ),
    "a taint of its health alone": (
        "spec.taints", [{"key": f"{OF_AWS}node-health-status", "value": "Unschedulable"}], {"unreachable": False},
    ),
    "open": ("spec.unschedulable", None, {"cordoned": False}),
    "no labels": ("metadata.labels", None, {**NO_LABELS, "fault": "GPU 3"}),
    "no details": ("metadata.annotations", None, {"fault": "NvidiaErrorTypeXID: 74"}),
    "the singular that the service's samples have": (
        "metadata.labels", {f"{OF_AWS}fault-type": "A", f"{OF_AWS}fault-reason": "B"},
        {**NO_LABELS, "fault": "A: B: GPU 3"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NODES)
def test_a_node_as_kubernetes_and_hyperpod_have_it(case: str) -> None:
    """https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/"""
    path, value, fields = NODES[case]
    assert kube.nodes(listed(changed(NODE, path, value))) == (replace(OF_NODE, **fields),)


def test_a_node_whose_kubelet_is_silent_does_not_answer() -> None:
    """Its condition says Unknown before the taint is there."""
    silent = changed(changed(NODE, "spec.taints", None), "status.conditions", [READY])
    (node,) = kube.nodes(listed(silent))
    assert node.unreachable and not node.ready


CLUSTER: Json = {
    "metadata": {"name": "ray", "namespace": "ns", "creationTimestamp": at(1)},
    "spec": {"workerGroupSpecs": [{"replicas": 2}, {"replicas": 3}]},
    "status": {
        "state": "ready", "desiredWorkerReplicas": 5, "readyWorkerReplicas": 4, "reason": "",
        "conditions": [
            {"type": "HeadPodReady", "status": "True", "lastTransitionTime": at(2)},
            {"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": at(4)},
            {"type": "ReplicaFailure", "status": "False", "message": "over", "lastTransitionTime": at(3)},
        ],
    },
}  # fmt: skip
OF_CLUSTER = RayCluster(
    name="ray", namespace="ns", state="ready", desired_workers=5, ready_workers=4, since=moment(4)
)  # fmt: skip
FAILING = {"type": "ReplicaFailure", "status": "True", "message": "quota", "lastTransitionTime": at(5)}
RAY_CLUSTERS: dict[str, tuple[str, Any, Json]] = {
    "as it is": ("spec.suspend", False, {}),
    "suspended": ("spec.suspend", True, {"suspended": True}),
    "nothing said yet": (
        "status", None, {"state": "", "ready_workers": 0, "since": moment(1)},
    ),
    "no count yet": ("status.desiredWorkerReplicas", 0, {}),
    "the operator counts what it may scale to": ("status.desiredWorkerReplicas", 6, {"desired_workers": 6}),
    "a group of none": ("spec.workerGroupSpecs", [{"groupName": "gpu"}], {}),
    "pods that cannot be created": (
        "status.conditions", [FAILING, *CLUSTER["status"]["conditions"]], {"reason": "quota", "since": moment(5)},
    ),
    "refused": ("status.reason", "minReplicas > maxReplicas", {"reason": "minReplicas > maxReplicas"}),
    "no conditions": ("status.conditions", None, {"since": moment(1)}),
}  # fmt: skip


@pytest.mark.parametrize("case", RAY_CLUSTERS)
def test_a_raycluster_as_kuberay_has_it(case: str) -> None:
    path, value, fields = RAY_CLUSTERS[case]
    assert kube.ray_clusters(listed(changed(CLUSTER, path, value)), "ns") == [replace(OF_CLUSTER, **fields)]


def test_a_raycluster_without_workers_has_none() -> None:
    (cluster,) = kube.ray_clusters(listed({"metadata": {"name": "ray"}}), "ns")
    assert (cluster.desired_workers, cluster.ready_workers, cluster.namespace, cluster.since) == (0, 0, "", None)
    (cluster,) = kube.ray_clusters(
        listed({"metadata": {"name": "ray"}, "spec": {"workerGroupSpecs": [{"groupName": "gpu"}, {"replicas": 2}]}}),
        "ns",
    )
    assert cluster.desired_workers == 2


RAY_JOB: Json = {
    "metadata": {"name": "first", "namespace": "ns", "creationTimestamp": at(1)},
    "spec": {"suspend": False, "clusterSelector": {"ray.io/cluster": "standing"}},
    "status": {
        "jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "jobId": "first-abc", "rayClusterName": "first-xyz",
        "reason": "AppFailed", "message": "exit code 1", "startTime": at(2), "endTime": at(3),
    },
}  # fmt: skip
OF_RAY_JOB = RayJob(
    name="first", namespace="ns", status="FAILED", deployment_status="Failed", job_id="first-abc", cluster="first-xyz",
    reason="AppFailed", message="exit code 1", created=moment(1), started=moment(2), ended=moment(3),
)  # fmt: skip
NOTHING_SAID = {"status": "", "deployment_status": "", "job_id": "", "reason": "", "message": "", "started": None}
RAY_JOBS: dict[str, tuple[str, Any, Json]] = {
    "as it is": ("spec.entrypoint", "python train.py", {}),
    "on a cluster that stands": ("status.rayClusterName", None, {"cluster": "standing"}),
    "suspended": ("spec.suspend", True, {"suspended": True}),
    "nothing said yet": ("status", None, {**NOTHING_SAID, "ended": None, "cluster": "standing"}),
    "it runs": ("status.endTime", None, {"ended": None}),
}


@pytest.mark.parametrize("case", RAY_JOBS)
def test_a_rayjob_as_kuberay_has_it(case: str) -> None:
    path, value, fields = RAY_JOBS[case]
    assert kube.ray_jobs(listed(changed(RAY_JOB, path, value)), "ns") == [replace(OF_RAY_JOB, **fields)]


def test_rayjobs_are_the_newest_first() -> None:
    jobs = [changed(changed(RAY_JOB, "metadata.name", name), "metadata.creationTimestamp", created)
            for name, created in (("old", at(1)), ("new", at(9)), ("unknown", ""), ("middle", at(5)))]  # fmt: skip
    assert [job.name for job in kube.ray_jobs(listed(*jobs), "ns")] == ["new", "middle", "old", "unknown"]


@pytest.mark.parametrize(
    ("crd", "version", "obj"),
    [
        ("charts/kuberay-operator/crds/ray.io_rayclusters.yaml", "v1", CLUSTER),
        ("charts/kuberay-operator/crds/ray.io_rayjobs.yaml", "v1", RAY_JOB),
        ("kubernetes/kueue/crds/kueue.x-k8s.io_localqueues.yaml", "v1beta1", {
            "status": {"flavorsReservation": [{"name": "", "resources": [{"name": "", "total": "0"}]}]},
        }),
    ],
    ids=["RayCluster", "RayJob", "LocalQueue"],
)  # fmt: skip
def test_the_objects_of_these_tables_have_the_operators_fields(crd: str, version: str, obj: Json) -> None:
    """What they read is in the operators' own CustomResourceDefinitions, so that no name is ours alone."""
    versions = yaml.safe_load((SANDBOX / crd).read_text())["spec"]["versions"]
    (schema,) = [entry["schema"]["openAPIV3Schema"] for entry in versions if entry["name"] == version]

    def unknown(value: Any, part: Json, path: str) -> list[str]:
        if isinstance(value, list):
            return [name for item in value for name in unknown(item, part.get("items", {}), path)]
        if not isinstance(value, dict) or "properties" not in part:
            return []
        return [
            name
            for key, inner in value.items()
            for name in (
                unknown(inner, part["properties"][key], f"{path}.{key}") if key in part["properties"]
                else [f"{path}.{key}"]
            )
        ]  # fmt: skip

    assert unknown({key: obj[key] for key in ("spec", "status") if key in obj}, schema, "") == []


# --- the quota of a team ---------------------------------------------------------------------------------------------


def local_queue(*flavors: tuple[str, dict[str, str]]) -> Json:
    reserved = [
        {"name": name, "resources": [{"name": resource, "total": total} for resource, total in resources.items()]}
        for name, resources in flavors
    ]
    return {"metadata": {"name": "q", "creationTimestamp": at(1)}, "status": {"flavorsReservation": reserved}}


def workload(*conditions: tuple[str, int]) -> Json:
    listed_conditions = [{"type": kind, "lastTransitionTime": at(hour)} for kind, hour in conditions]
    return {"metadata": {"name": "w"}, "status": {"conditions": listed_conditions}}


EIGHT = ("ml.p5.48xlarge", {"cpu": "100", "nvidia.com/gpu": "8"})
QUOTAS: dict[str, tuple[list[Json], list[Json], dict[str, float], int]] = {
    "no job yet": ([local_queue(EIGHT)], [], {"ml.p5.48xlarge": 8.0}, 1),
    "two queues": ([local_queue(EIGHT), local_queue(EIGHT)], [], {"ml.p5.48xlarge": 16.0}, 1),
    "Neuron, by either name": (
        [local_queue(("ml.trn1.32xlarge", {"aws.amazon.com/neuron": "16"}),
                     ("ml.trn2.48xlarge", {"aws.amazon.com/neurondevice": "4", "aws.amazon.com/neuron": "4"}))],
        [], {"ml.trn1.32xlarge": 16.0, "ml.trn2.48xlarge": 4.0}, 1,
    ),
    "no accelerators": ([local_queue(("ml.m5.2xlarge", {"cpu": "1500m"}))], [], {"ml.m5.2xlarge": 0.0}, 1),
    "nothing reported yet": ([{**local_queue(), "status": None}], [], {}, 1),
    "a quantity with a suffix": (
        [local_queue(("ml.p5.48xlarge", {"nvidia.com/gpu": "2k"}))], [], {"ml.p5.48xlarge": 2000.0}, 1,
    ),
    "the newest change of a job": (
        [local_queue(EIGHT)], [workload(("QuotaReserved", 2), ("Finished", 5)), workload(("Evicted", 4))],
        {"ml.p5.48xlarge": 8.0}, 5,
    ),
    "a job that waits changes nothing": ([local_queue(EIGHT)], [workload(("Requeued", 9))], {"ml.p5.48xlarge": 8.0}, 1),
    "a job of which nothing is said": (
        [local_queue(EIGHT)], [{"metadata": {"name": "w"}}, workload(("Evicted", 3))], {"ml.p5.48xlarge": 8.0}, 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", QUOTAS)
def test_the_quota_of_a_team_as_kueue_has_it(case: str) -> None:
    """https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta1/#kueue-x-k8s-io-v1beta1-LocalQueueStatus"""
    queues, workloads, reserved, hour = QUOTAS[case]
    answers = {"localqueues": queues, "workloads": workloads}
    where = "/apis/kueue.x-k8s.io/v1beta1/namespaces/ns/"
    api = SimpleNamespace(items=lambda path: answers[path.removeprefix(where)])
    assert kube.quotas(target(api), "ns") == [QuotaUse(namespace="ns", reserved=reserved, changed=moment(hour))]


def test_without_queues_nobody_has_a_quota() -> None:
    assert kube.quotas(listed(), "ns") == [QuotaUse(namespace="ns", reserved={}, changed=None)]


# --- several namespaces, of which some may not be seen ---------------------------------------------------------------


class Spaces:
    """An API that answers each namespace apart: an error, or no objects.

    Args:
        refusals: By a part of a path, the status with which it is refused.
    """

    def __init__(self, **refusals: int) -> None:
        self.refusals, self.paths = refusals, list[str]()

    def items(self, path: str, **_: Any) -> list[Json]:
        self.paths.append(path)
        for part, status in self.refusals.items():
            if part in path:
                raise ApiError(status=status, body=f'{{"message": "no {part}"}}')
        return []


def test_what_may_not_be_seen_of_a_namespace_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_names, "ray_namespaces", lambda plan: ["ray", "team-a"])
    monkeypatch.setattr(plan_names, "team_namespaces", lambda plan: ["team-a"])
    parts = {"pods", "ray_clusters", "ray_jobs", "claims", "warnings", "quotas"}
    api, unseen = Spaces(), list[Unseen]()
    assert kube.kubernetes_part(target(api), unseen) == {
        **dict.fromkeys(parts, ()), "quotas": (QuotaUse(namespace="team-a"),),
    }  # fmt: skip
    assert unseen == []
    assert {path for path in api.paths if "kueue" in path} == {
        f"/apis/kueue.x-k8s.io/v1beta1/namespaces/team-a/{kind}" for kind in ("localqueues", "workloads")
    }, "only a team has a queue"

    unseen.clear()
    kube.kubernetes_part(target(Spaces(**{"team-a/rayjobs": 403, "ray/events": 403})), unseen)
    assert [(entry.source, entry.refused) for entry in unseen] == [
        ("warnings of namespace ray", True), ("RayJobs of namespace team-a", True),
    ]  # fmt: skip
    assert unseen[1].why.startswith("the Kubernetes API refuses: no team-a/rayjobs. Expected ")

    unseen.clear()
    kube.kubernetes_part(target(Spaces(**{"namespaces/team-a": 403})), unseen)
    assert [(entry.source, entry.refused) for entry in unseen] == [("namespace team-a", True)], "said once"

    for refusals, status in (({"namespaces/ray/": 403}, 403), ({"rayjobs": 500}, 500), ({"team-a/pods": 404}, 404)):
        with pytest.raises(ApiError) as failure:
            kube.kubernetes_part(target(Spaces(**refusals)), [])
        assert failure.value.status == status, "it is the source that fails"

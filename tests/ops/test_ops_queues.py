"""Why a job waits in its queue: Kueue's own conditions (pkg/scheduler, v0.19.2) in words."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import job_file, load
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.observe import gang, queues
from hyperpod_ray.ops.reach.ray_pods import Pod
from tests.k8s.conftest import BINDINGS
from tests.k8s.test_k8s_team_jobs import made

Json = dict[str, Any]
ITEM: Json = {
    "metadata": {
        "name": "j",
        "namespace": "hyperpod-ns-speech",
        "uid": "u1",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
    },
    "spec": {"suspend": True},
    "status": {"jobDeploymentStatus": "Suspended"},
}


class Refused(Exception):
    status = 403


def target(workloads: list[Json] | Exception) -> Any:
    def items(path: str) -> list[Json]:
        assert path == "/apis/kueue.x-k8s.io/v1beta1/namespaces/hyperpod-ns-speech/workloads"
        if isinstance(workloads, Exception):
            raise workloads
        return workloads

    return SimpleNamespace(kubernetes=SimpleNamespace(items=items))


def workload(
    *conditions: tuple[str, str, str, str], uid: str = "u1", created: str = "2026-11-23T10:04:00Z", **spec: Any
) -> Json:
    keys = ("type", "status", "reason", "message")
    moved = {"lastTransitionTime": "2026-11-23T12:30:00Z"}
    return {
        "metadata": {
            "name": f"rayjob-{uid}", "uid": f"w-{uid}", "creationTimestamp": created, "ownerReferences": [{"uid": uid}],
        },
        "spec": {"queueName": "q", "priority": 0, **spec},
        "status": {"conditions": [dict(zip(keys, condition, strict=True)) | moved for condition in conditions]},
    }  # fmt: skip


FIRST = "queue 'q', place 1 of 1, since 2026-11-23 10:04 UTC"
AGAIN = "queue 'q', place 1 of 1, since 2026-11-23 12:30 UTC"


SHORT = (
    "couldn't assign flavors to pod set gpu: insufficient unused quota for nvidia.com/gpu in flavor ml.g5.8xlarge, "
    "2 more needed"
)
NEVER = (
    "couldn't assign flavors to pod set gpu: insufficient quota for nvidia.com/gpu in flavor ml.g5.8xlarge, previously "
    "considered podsets requests (0) + current podset request (9) > maximum capacity (4)"
)
TWO = (
    f"{NEVER}, insufficient quota for memory in flavor ml.g5.8xlarge, previously considered podsets requests (496Gi) + "
    "current podset request (124Gi) > maximum capacity (512Gi)"
)
"""Kueue joins what is said of one pod set by a comma (pkg/scheduler/flavorassigner, Status.Message)."""
OTHER = "insufficient unused quota for nvidia.com/gpu in flavor ml.g5.12xlarge, 1 more needed"
HEAD = (
    "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor ml.m5.2xlarge, 2 more needed"
)
EFA = "couldn't assign flavors to pod set gpu: resource vpc.amazonaws.com/efa unavailable in ClusterQueue"
PLACED = (
    'couldn\'t assign flavors to pod set gpu: Flavor "ml.g5.8xlarge" does not support TopologyAwareScheduling, flavor '
    "ml.m5.2xlarge doesn't match node affinity"
)
WHOLE = "couldn't assign flavors to pod set gpu: " + ", ".join(
    f"insufficient unused quota for {resource} in flavor ml.g5.8xlarge, {more} more needed"
    for resource, more in {"cpu": "60", "memory": "240Gi", "nvidia.com/gpu": "2", "vpc.amazonaws.com/efa": "2"}.items()
)
PENDING = ("QuotaReserved", "False", "Pending", SHORT)
CASES: dict[str, tuple[list[Json], str]] = {
    "no workload yet": ([], "queue 'q' has not admitted it"),
    "somebody else's": ([workload(PENDING, uid="u2")], "queue 'q' has not admitted it"),
    "short": ([workload(PENDING)], f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused"),
    "never": (
        [workload(("QuotaReserved", "False", "Pending", NEVER))],
        "queue 'q': it is never admitted: it asks for 9 nvidia.com/gpu of ml.g5.8xlarge, and quota with borrowing is 4",
    ),
    "never, of two resources": (
        [workload(("QuotaReserved", "False", "Pending", TWO))],
        "queue 'q': it is never admitted: it asks for 9 nvidia.com/gpu of ml.g5.8xlarge, and quota with borrowing is 4 "
        "and it asks for 496Gi + 124Gi memory of ml.g5.8xlarge, and quota with borrowing is 512Gi",
    ),
    "one too large, one short": (
        [workload(("QuotaReserved", "False", "Pending", f"{NEVER}, {SHORT.partition(': ')[2]}"))],
        "queue 'q': it is never admitted: it asks for 9 nvidia.com/gpu of ml.g5.8xlarge, and quota with borrowing is 4",
    ),
    "too large of one flavor, short of another": (
        [workload(("QuotaReserved", "False", "Pending", f"{NEVER}, {OTHER}"))],
        f"{FIRST}: it needs 1 more nvidia.com/gpu of ml.g5.12xlarge than is unused",
    ),
    "a head that waits, workers that are too many": (
        [workload(("QuotaReserved", "False", "Pending", f"{HEAD}; {NEVER}"))],
        "queue 'q': it is never admitted: it asks for 9 nvidia.com/gpu of ml.g5.8xlarge, and quota with borrowing is 4",
    ),
    "a resource that the queue does not cover": (
        [workload(("QuotaReserved", "False", "Pending", EFA))],
        "queue 'q': it is never admitted: its queue has no quota of vpc.amazonaws.com/efa",
    ),
    "preempted": (
        [workload(PENDING, ("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: x)"))],
        f"{AGAIN}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused; it was preempted: a job with a "
        "right to the nodes has them. It continues from its last checkpoint",
    ),
    "not ready in time": (
        [workload(("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout"))],
        f"{AGAIN}: has not admitted it; its pods were not ready in time (Kueue's waitForPodsReady), so that its "
        "cluster was deleted. timeout must exceed the pull of the image and the start of all pods (docs/teams.md)",
    ),
    "preempted before, and queued again": (
        [workload(PENDING, ("Evicted", "False", "Preempted", ""))],
        f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused; it was preempted: a job with a "
        "right to the nodes has them. It continues from its last checkpoint",
    ),
    "short twice": (
        [workload(("QuotaReserved", "False", "Pending", f"{SHORT}; {SHORT}"))],
        f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused",
    ),
    "another reason": (
        [workload(("QuotaReserved", "False", "Misconfigured", "ClusterQueue  c is\ninactive"))],
        f"{FIRST}: ClusterQueue c is inactive",
    ),
    "all of a node's resources, and a head's": (
        [workload(("QuotaReserved", "False", "Pending", f"{HEAD}; {WHOLE}"))],
        f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge (with cpu, memory, vpc.amazonaws.com/efa) and 2 "
        "more cpu of ml.m5.2xlarge than is unused",
    ),
    "a preemption for it": (
        [workload(("QuotaReserved", "False", "Pending", f"{SHORT}. Pending the preemption of 2 workload(s)"))],
        f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused; jobs that have it are preempted: 2",
    ),
    "a topology that is not there": (
        [workload(("QuotaReserved", "False", "Misconfigured", PLACED))],
        "queue 'q': it is never admitted: ml.g5.8xlarge has no Topology, which --topology needs",
    ),
    "behind a colleague": (
        [workload(PENDING), workload(PENDING, uid="u2", created="2026-11-23T09:00:00Z")],
        f"{FIRST.replace('1 of 1', '2 of 2')}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused",
    ),
    "before a colleague, by its priority": (
        [workload(PENDING, priority=90), workload(PENDING, uid="u2", created="2026-11-23T09:00:00Z")],
        f"{FIRST.replace('1 of 1', '1 of 2')}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused",
    ),
    "who runs, who ended and who is elsewhere have no place": (
        [
            workload(PENDING), workload(("QuotaReserved", "True", "QuotaReserved", ""), uid="u2"),
            workload(PENDING, ("Finished", "True", "Succeeded", ""), uid="u3"),
            workload(PENDING, uid="u4", queueName="other"), workload(PENDING, uid="u5", active=False),
        ],
        f"{FIRST}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused",
    ),
    "one that was not ready in time is last": (
        [workload(PENDING, ("Evicted", "True", "PodsReadyTimeout", "")),
         workload(PENDING, uid="u2", created="2026-11-23T11:00:00Z")],
        f"{AGAIN.replace('1 of 1', '2 of 2')}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused; its "
        "pods were not ready in time (Kueue's waitForPodsReady), so that its cluster was deleted. timeout must exceed "
        "the pull of the image and the start of all pods (docs/teams.md)",
    ),
    "one that was preempted keeps its place": (
        [workload(PENDING, ("Evicted", "True", "Preempted", "")),
         workload(PENDING, uid="u2", created="2026-11-23T11:00:00Z")],
        f"{AGAIN.replace('1 of 1', '1 of 2')}: it needs 2 more nvidia.com/gpu of ml.g5.8xlarge than is unused; it was "
        "preempted: a job with a right to the nodes has them. It continues from its last checkpoint",
    ),
    "a check": (
        [workload(("QuotaReserved", "True", "QuotaReserved", "")), ],
        "queue 'q': it has its quota, and waits for a check of the queue",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_conditions_in_words(name: str) -> None:
    workloads, words = CASES[name]
    assert str(queues.why_it_waits(target(workloads), ITEM)) == words


EVICTED = {
    "Preempted": "it was preempted", "PodsReadyTimeout": "its pods were not ready in time",
    "NodeFailures": "a node of it failed", "AdmissionCheck": "a check of its queue said no",
    "ClusterQueueStopped": "its queue is stopped", "LocalQueueStopped": "its queue is stopped",
    "Deactivated": "it was deactivated", "NewReason": "Kueue's own words",
}  # fmt: skip
"""The reasons of an eviction: Kueue's `WorkloadEvicted…` and `WorkloadDeactivated` (apis/kueue, workload_types.go)."""


@pytest.mark.parametrize("reason", EVICTED)
def test_each_reason_of_an_eviction_in_words(reason: str) -> None:
    evicted = workload(PENDING, ("Evicted", "True", reason, "Kueue's own words"))
    said = str(queues.why_it_waits(target([evicted]), ITEM)).rpartition("than is unused; ")[2]
    assert said.startswith(EVICTED[reason])


def test_what_may_not_be_seen_is_no_error() -> None:
    assert str(queues.why_it_waits(target(Refused()), ITEM)) == "queue 'q' has not admitted it"


def test_a_suspended_job_of_a_queue_waits_in_it() -> None:
    """Kueue has admitted it, and KubeRay has not started it yet: its status still says Suspended."""
    item = {**ITEM, "spec": {"suspend": False}}
    assert str(queues.why_it_waits(target([workload(PENDING)]), item)).startswith(f"{FIRST}: it needs 2 more")


def pod(name: str, *, cluster: str = "mine", node: str = "", phase: str = "Pending", **more: Any) -> Pod:
    return Pod(
        name=name, namespace="hyperpod-ns-speech", cluster=cluster, role="worker", group="gpu", phase=phase, node=node,
        instance_group="workers", **more,
    )  # fmt: skip


OTHERS = [
    pod("o1", cluster="other", node="n1", phase="Running", ready=True),
    pod("o2", cluster="other", node="n2", phase="Running", ready=True),
    pod("o3", cluster="done", node="n3", phase="Succeeded"),
    pod("o4", cluster="waits"),
]
PODS: dict[str, tuple[str, list[Pod], str | None]] = {
    "a pod without a node, and one whose image is pulled": (
        "Initializing",
        [pod("m1", message="0/4 nodes"), pod("m2", node="n4"), pod("m3", node="n5", phase="Running"), *OTHERS],
        "1 of 3 pods find no node (group workers): 0/4 nodes; of the pods on these nodes, RayCluster other has 2",
    ),
    "between two attempts": (
        "Waiting", [pod("m1", message="0/4 nodes")], "1 of 1 pods find no node (group workers): 0/4 nodes"
    ),
    "broken": (
        "Initializing",
        [pod("m1", node="n1", reason="ImagePullBackOff", message="no such image")],
        "pod m1 does not run: ImagePullBackOff no such image",
    ),
    "starting": ("Initializing", [pod("m1", node="n1"), pod("m2", node="n1", ready=True)], "1 of 2 pods are ready"),
    "all ready": ("Initializing", [pod("m1", node="n1", ready=True)], None),
    "no pods yet": ("Initializing", OTHERS, "its RayCluster has no pods yet"),
    "it runs": ("Running", [pod("m1", message="0/4 nodes")], None),
}  # fmt: skip


@pytest.mark.parametrize("name", PODS)
def test_the_pods_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, pods, words = PODS[name]
    monkeypatch.setattr("hyperpod_ray.ops.reach.ray_pods.pods", lambda _target, _space: pods)
    item = {**ITEM, "spec": {"suspend": False}, "status": {"jobDeploymentStatus": state, "rayClusterName": "mine"}}
    waiting = queues.why_it_waits(target([]), item)
    assert (None if waiting is None else str(waiting)) == words


class Status(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


def test_a_queue_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def asked(answer: list[Json] | Exception) -> None:
        def items(_path: str) -> list[Json]:
            if isinstance(answer, Exception):
                raise answer
            return answer

        api: Any = SimpleNamespace(kubernetes=SimpleNamespace(items=items))
        queues.require(api, "q", namespace="n")

    asked([{"metadata": {"name": "q"}}])
    for answer, message, fix in (
        (Status(404), "queue: 'q', and the cluster has no Kueue. Expected Kueue, or the add-on for HyperPod task "
         "governance", "remove queue: without one, jobs wait for free nodes"),
        ([], "queue: no LocalQueue 'q' in namespace n. Expected a LocalQueue; there is none",
         "correct queue, or ask for a LocalQueue in this namespace"),
        ([{"metadata": {"name": "r"}}, {"metadata": {"name": "s"}}],
         "queue: no LocalQueue 'q' in namespace n. Expected one of r, s",
         "correct queue, or ask for a LocalQueue in this namespace"),
    ):  # fmt: skip
        with pytest.raises(OpsError) as caught:
            asked(answer)
        assert (caught.value.code, caught.value.message, caught.value.fix) == (BAD_USE, message, fix)
    with pytest.raises(Status):
        asked(Status(500))
    assert capsys.readouterr().err == ""
    asked(Status(403))
    assert "is not yours to see" in capsys.readouterr().err


def flavor(kind: str, *resources: str, **more: Any) -> Json:
    labels = {"node.kubernetes.io/instance-type": kind}
    return {"name": kind, "nodeLabels": labels, "resources": [*resources], **more}


FIVE = ("cpu", "memory", "nvidia.com/gpu", "vpc.amazonaws.com/efa", "aws.amazon.com/neurondevice")
HEADS = flavor("ml.m5.2xlarge", *FIVE)


def reservation(**resources: tuple[str, ...]) -> Json:
    """As Kueue v0.19.2 reports a quota of which nothing is used (pkg/cache/scheduler, filterLocalQueueUsage)."""
    rows = [
        {"name": kind, "resources": [{"name": resource, "total": "0"} for resource in listed]}
        for kind, listed in resources.items()
    ]
    return {"flavorsReservation": rows}


NEWER: dict[str, tuple[Json, bool, str]] = {
    "all five": (reservation(**{"ml.m5.2xlarge": FIVE, "ml.g5.8xlarge": FIVE}), False, ""),
    "without EFA": (
        reservation(**{"ml.m5.2xlarge": FIVE, "ml.g5.8xlarge": ("cpu", "memory", "nvidia.com/gpu")}), False,
        "has no quota of vpc.amazonaws.com/efa of ml.g5.8xlarge",
    ),
    "without the type": (
        reservation(**{"ml.m5.2xlarge": FIVE}), False, "has no quota of ml.g5.8xlarge, which the job's pods need",
    ),
    "a topology, of which nothing is listed": (
        reservation(**{"ml.m5.2xlarge": FIVE, "ml.g5.8xlarge": FIVE}), True, "",
    ),
    "a queue that nothing looked at yet": ({}, False, ""),
}  # fmt: skip
COVERED: dict[str, tuple[list[Json], bool, str]] = {
    "all five, as AWS's own": ([HEADS, flavor("ml.g5.8xlarge", *FIVE)], False, ""),
    "no flavors, as newer versions": ([], False, ""),
    "without EFA": (
        [HEADS, flavor("ml.g5.8xlarge", "cpu", "memory", "nvidia.com/gpu")], False,
        "has no quota of vpc.amazonaws.com/efa of ml.g5.8xlarge",
    ),
    "a topology that is not there": ([HEADS, flavor("ml.g5.8xlarge", *FIVE)], True, "has no Topology in queue"),
    "a topology": ([HEADS, flavor("ml.g5.8xlarge", *FIVE, topology={"name": "t", "levels": []})], True, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", COVERED)
def test_a_job_that_its_queue_never_admits_is_refused(name: str) -> None:
    """What Kueue's LocalQueue says of its flavors (v1beta1, LocalQueueFlavorStatus), against what the pods request."""
    flavors, placed, words = COVERED[name]
    judged({"flavors": flavors}, placed, words)


@pytest.mark.parametrize("name", NEWER)
def test_newer_versions_list_what_is_reserved(name: str) -> None:
    judged(*NEWER[name])


def judged(status: Json, placed: bool, words: str) -> None:
    fields = {"topology": "layer-3"} if placed else {}
    job = made(**fields)
    queue = "hyperpod-ns-vision-localqueue"
    listed = [{"metadata": {"name": queue}, "status": status}]
    target: Any = SimpleNamespace(kubernetes=SimpleNamespace(items=lambda _path: listed))
    if not words:
        queues.require(target, queue, namespace="n", job=job)
        return
    with pytest.raises(OpsError, match=re.escape(words)) as refused:
        queues.require(target, queue, namespace="n", job=job)
    assert refused.value.code == 2


def test_a_follower_prints_why_it_waits_then_its_log_and_ends_with_the_drivers_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The states of a job that waits, runs, is preempted, runs again and fails; each is said once."""
    running = {**ITEM, "spec": {"suspend": False}}
    steps: list[tuple[Json, str, list[Json]]] = [
        (ITEM, "", [workload(PENDING)]),
        (ITEM, "", [workload(PENDING)]),
        ({**running, "status": {"jobDeploymentStatus": "Running"}}, "step 1\n", []),
        ({**running, "status": {"jobDeploymentStatus": "Running"}}, "step 1\nstep 2\n", []),
        (ITEM, "", [workload(PENDING, ("Evicted", "True", "Preempted", ""))]),
        ({**running, "status": {"jobDeploymentStatus": "Running"}}, "resumed\n", []),
        (
            {
                **running,
                "status": {
                    "jobDeploymentStatus": "Failed",
                    "jobStatus": "FAILED",
                    "message": "Job entrypoint command failed with exit code 7, last logs",
                },
            },
            "resumed\nstep 3\n",
            [],
        ),
    ]
    now, printed = iter(steps), [0]
    here: list[tuple[Json, str, list[Json]]] = []

    def find(_target: Any, _name: str) -> Json:
        here[:] = [next(now)]
        return here[0][0]

    monkeypatch.setattr(own_cluster, "find", find)

    def more(_self: Any, _target: Any, _name: str, *, namespace: str) -> str:
        text = here[0][1]
        begun = printed[0] if len(text) >= printed[0] else 0  # else it is the log of another submitter
        printed[0] = len(text)
        return text[begun:]

    monkeypatch.setattr("hyperpod_ray.ops.reach.pod_log.Follower.more", more)
    monkeypatch.setattr("hyperpod_ray.ops.reach.ray_pods.pods", lambda _target, _space: [])
    asked = SimpleNamespace(name="env", kubernetes=SimpleNamespace(items=lambda _path: here[0][2]))
    assert own_cluster.follow(asked, "j", poll=0.0) == 7  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out.splitlines() == ["step 1", "step 2", "resumed", "step 3"]
    said = [line.partition("] ")[2] or line for line in err.splitlines()]
    text = "\n".join(said)
    assert text.count("it needs 2 more nvidia.com/gpu") == 2, "once before it began, once after the preemption"
    assert text.index("j Running") < text.index("it was preempted") < text.index("j FAILED")
    assert "exit code 7" in text


class Recorded:
    """A Kubernetes API that has the standing RayCluster and one queue, and remembers what is created."""

    def __init__(self, live: Json, queue: str) -> None:
        self.live, self.queue, self.created = live, queue, {}  # type: ignore[var-annotated]

    def request(self, method: str, path: str, *, body: Json | None = None) -> Json:
        if method == "GET":
            if path == gang.PATH:
                return {"data": {gang.FILE: "waitForPodsReady: {timeout: 5m}"}}
            assert path == "/apis/ray.io/v1/namespaces/ray/rayclusters/ray"
            return self.live
        assert body is not None
        self.created[path] = body
        return {**body, "metadata": {**body["metadata"], "uid": "u"}}

    def items(self, path: str) -> list[Json]:
        assert path == "/apis/kueue.x-k8s.io/v1beta1/namespaces/hyperpod-ns-vision/localqueues"
        return [{"metadata": {"name": self.queue}}]

    def patch(self, path: str, body: Json) -> None:
        assert path.startswith("/api/v1/namespaces/hyperpod-ns-vision/configmaps/")


def test_submit_puts_a_teams_job_into_its_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = load("teams", folder=FOLDER / "examples").plan
    (live,) = [
        item
        for manifest in k8s.ray_manifests(plan, BINDINGS)
        for item in manifest.objects
        if item["kind"] == "RayCluster"
    ]
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print(1)\n")
    fields = {"command": "python main.py", "team": "vision", "workers": "2", "priority": "deadline"}
    file = job_file.load(None, {**fields, "working_dir": str(tmp_path / "code")})
    for queue, created in (("hyperpod-ns-vision-localqueue", True), ("another", False)):
        api = Recorded(live, queue)
        asked = SimpleNamespace(
            plan=plan, name=plan.name, kubernetes=api, aws=SimpleNamespace(require_account=lambda: None)
        )
        if not created:
            with pytest.raises(OpsError, match="no LocalQueue 'hyperpod-ns-vision-localqueue'"):
                own_cluster.submit(asked, file, name="j", wait=False)  # type: ignore[arg-type]
            assert api.created == {}, "nothing is half done"
            continue
        assert own_cluster.submit(asked, file, name="j", wait=False) == 0  # type: ignore[arg-type]
        assert set(api.created) == {
            "/api/v1/namespaces/hyperpod-ns-vision/configmaps",
            "/apis/ray.io/v1/namespaces/hyperpod-ns-vision/rayjobs",
        }
        job = api.created["/apis/ray.io/v1/namespaces/hyperpod-ns-vision/rayjobs"]
        assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "deadline-priority"
        assert job["spec"]["suspend"] is True
    shown = capsys.readouterr()
    assert shown.out.strip() == "j"
    assert "warning: Kueue's waitForPodsReady.timeout: 5m." in shown.err


@pytest.mark.parametrize(("status", "listed"), [(403, []), (404, []), (500, None), (None, None)])
def test_workloads_that_may_not_be_seen_are_none_and_a_fault_is_one(
    status: int | None, listed: list[Json] | None
) -> None:
    failure = RuntimeError("fault")
    failure.status = status  # type: ignore[attr-defined]
    item = {"metadata": {"name": "job", "namespace": "hyperpod-ns-speech"}}
    if listed is None:
        with pytest.raises(RuntimeError, match="fault"):
            queues._workloads(target(failure), item)
    else:
        assert queues._workloads(target(failure), item) == listed
    assert queues._workloads(target(failure), {"metadata": {"name": "job"}}) == []

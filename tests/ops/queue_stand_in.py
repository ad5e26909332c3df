"""Kueue's place in a test: the quotas of the sandbox's ClusterQueues, and RayJobs that are admitted or wait.

`hyperpod_ray_sandbox.kubernetes.kueue.cohorts` decides; it is a stand-in and not Kueue. What a job's wait looks like is
Kueue's own: a suspended RayJob, and a Workload whose condition `QuotaReserved` has the words of its scheduler.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray_sandbox.kubernetes.kueue.cohorts import Cohorts, Queue, Workload, decide
from tests.ops.world import World

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
MANAGER = "system:serviceaccount:kueue-system:kueue-controller-manager"
KUEUE = f"/apis/{names.QUEUE_API_VERSION}"


class QueueStandIn:
    """Admits the RayJobs of teams' namespaces, by their GPUs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._admitted: dict[str, float] = {}
        # Kueue's own rights come with the add-on; only its user starts a RayJob of a team
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kueue"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MANAGER}],
        }  # fmt: skip
        world.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)

    def settle(self) -> None:
        """Do what the stand-in decides, until it decides nothing; then say why the rest waits."""
        queues = self._queues()
        while True:
            jobs = self._jobs(queues)
            workloads = [self._workload(job) for job in jobs.values()]
            decision = decide(queues, workloads)
            assert not decision.preempt, "no job has another priority here"
            if not decision.admit:
                break
            self._admitted[decision.admit] = float(len(self._admitted))
            self._note(jobs[decision.admit], "True", "QuotaReserved", "")
            path = f"/apis/ray.io/v1/namespaces/{space_of(jobs[decision.admit])}/rayjobs/{decision.admit}"
            self._world.request("PATCH", path, {"spec": {"suspend": False}}, content_type=MERGE, user=MANAGER)
        state = Cohorts(queues, workloads)
        for one in workloads:
            if one.admitted is None:
                self._note(jobs[one.name], "False", "Pending", _message(state, one))

    def _queues(self) -> list[Queue]:
        found = []
        for item in self._world.get(f"{KUEUE}/clusterqueues")["items"]:
            quota, borrowing = {}, {}
            for flavor in item["spec"]["resourceGroups"][0]["flavors"]:
                for resource in flavor["resources"]:
                    key = f"{resource['name']} in flavor {flavor['name']}"
                    quota[key] = float(resource["nominalQuota"])
                    borrowing[key] = float(resource["borrowingLimit"])
            space = item["metadata"]["name"].removesuffix("-clusterqueue")
            found.append(Queue(name=space, quota=quota, borrowing=borrowing))
        return found

    def _jobs(self, queues: list[Queue]) -> dict[str, Json]:
        """RayJobs that have not ended, by name."""
        items = [job for queue in queues for job in self._world.get(jobs_path(queue.name))["items"]]
        return {
            job["metadata"]["name"]: job
            for job in items
            if (job.get("status") or {}).get("jobDeploymentStatus") not in ("Complete", "Failed")
        }

    def _workload(self, job: Json) -> Workload:
        asks: dict[str, float] = {}
        for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
            pod = group["template"]["spec"]
            count = pod["containers"][0]["resources"]["limits"].get(names.GPU_RESOURCE, 0)
            key = f"{names.GPU_RESOURCE} in flavor {pod['nodeSelector'][names.INSTANCE_TYPE_LABEL]}"
            asks[key] = asks.get(key, 0.0) + float(count) * group["replicas"]
        name = job["metadata"]["name"]
        created = job["metadata"]["creationTimestamp"]
        order = sum(ord(sign) * 256.0**-index for index, sign in enumerate(created))
        return Workload(name=name, queue=space_of(job), asks=asks, created=order, admitted=self._admitted.get(name))

    def _note(self, job: Json, status: str, reason: str, message: str) -> None:
        """The Workload of a RayJob, with its condition."""
        metadata, path = job["metadata"], f"{KUEUE}/namespaces/{space_of(job)}/workloads"
        name = f"rayjob-{metadata['name']}"
        if name not in [one["metadata"]["name"] for one in self._world.get(path)["items"]]:
            owner = {
                "apiVersion": job["apiVersion"],
                "kind": "RayJob",
                "name": metadata["name"],
                "uid": metadata["uid"],
            }
            body = {
                "apiVersion": names.QUEUE_API_VERSION,
                "kind": "Workload",
                "metadata": {"name": name, "ownerReferences": [owner]},
            }
            self._world.request("POST", path, body)
        condition = {"type": "QuotaReserved", "status": status, "reason": reason, "message": message}
        body = {"status": {"conditions": [condition]}}
        self._world.request("PATCH", f"{path}/{name}/status", body, content_type=MERGE)


def _message(state: Cohorts, workload: Workload) -> str:
    """Words of Kueue's scheduler (v0.19.2); tests/ops/test_ops_queues.py has more of them."""
    (key,) = state.short(workload)
    mine = state.queues[workload.queue]
    free = mine.quota[key] + mine.borrowing[key] - state.used(workload.queue, key)
    return (
        f"couldn't assign flavors to pod set gpu: insufficient unused quota for {key}, "
        f"{workload.asks[key] - free:g} more needed"
    )


def jobs_path(space: str) -> str:
    """Where the RayJobs of a namespace are."""
    return f"/apis/ray.io/v1/namespaces/{space}/rayjobs"


def space_of(job: Json) -> str:
    """The namespace of an object."""
    return str(job["metadata"]["namespace"])

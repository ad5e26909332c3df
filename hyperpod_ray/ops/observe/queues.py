"""Why a job's cluster is not there yet: its queue, or pods that find no node; and who has what it waits for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OpsError
from hyperpod_ray.ops.reach import ray_pods
from hyperpod_ray.ops.reach.clients import Json, Target
from hyperpod_ray.ops.reach.ray_pods import Pod

CAPACITY = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>[^,]+?), (?P<more>[^;,]+) more needed"
)
"""Words of Kueue's scheduler. https://github.com/kubernetes-sigs/kueue (pkg/scheduler/flavorassigner)"""
NEVER = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>[^\s,]+), previously considered podsets requests "
    r"\((?P<before>[^()]*)\) \+ current podset request \((?P<asks>[^()]*)\) > maximum capacity \((?P<most>[^()]*)\)"
)
TOPOLOGY = re.compile(r'Flavor "(?P<flavor>[^"]+)" does not support TopologyAwareScheduling')
PREEMPTING = re.compile(r"Pending the preemption of (?P<jobs>\d+) workload")
UNCOVERED = re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue")
NEVER_ADMITTED = "it is never admitted:"
POD_SET = re.compile(r"(?:^|; )couldn't assign flavors to pod set ")
"""Begins what is said of one pod set: the head, the submitter, or a worker group."""
EVICTED = {
    "Preempted": "it was preempted: a job with a right to the nodes has them. It continues from its last checkpoint",
    "PodsReadyTimeout": "its pods were not ready in time (Kueue's waitForPodsReady), so that its cluster was deleted. "
    "timeout must exceed the pull of the image and the start of all pods (docs/teams.md)",
    "NodeFailures": "a node of it failed",
    "AdmissionCheck": "a check of its queue said no",
    "ClusterQueueStopped": "its queue is stopped",
    "LocalQueueStopped": "its queue is stopped",
    "Deactivated": "it was deactivated",
}


def require(target: Target, queue: str, *, namespace: str, job: Json | None = None) -> None:
    """Refuse a queue that does not exist, or never admits a RayJob: a job in it waits without an end."""
    where = f"/apis/{names.QUEUE_API_VERSION}/namespaces/{namespace}/localqueues"
    try:
        listed = {obj["metadata"]["name"]: obj for obj in target.kubernetes.items(where)}
        queues = list(listed)
    except Exception as error:
        if getattr(error, "status", None) == 404:
            raise OpsError(
                f"queue: '{queue}', and the cluster has no Kueue",
                expected="Kueue, or the add-on for HyperPod task governance",
                fix="remove queue: without one, jobs wait for free nodes",
                code=BAD_USE,
            ) from None
        if getattr(error, "status", None) == 403:
            output.log(f"whether queue '{queue}' exists is not yours to see")
            return
        raise
    if queue not in queues:
        raise OpsError(
            f"queue: no LocalQueue '{queue}' in namespace {namespace}",
            expected=f"one of {', '.join(queues)}" if queues else "a LocalQueue; there is none",
            fix="correct queue, or ask for a LocalQueue in this namespace",
            code=BAD_USE,
        )
    if job is not None:
        _covers(listed[queue], job)


def _flavors(queue: Json) -> dict[str, Json]:
    """Flavors of a LocalQueue by instance type, with the resources that the quota covers.

    Kueue before v0.15 lists them as `flavors`, with a Topology. Every version reports usage of each flavor and resource
    of the quota, also where nothing is used; task governance names a flavor after its instance type.
    """
    status = queue.get("status") or {}
    listed: dict[str, Json] = {
        str(usage["name"]): {"resources": [resource["name"] for resource in usage.get("resources") or []]}
        for usage in status.get("flavorsReservation") or []
    }
    for flavor in status.get("flavors") or []:
        kind = (flavor.get("nodeLabels") or {}).get(names.INSTANCE_TYPE_LABEL, flavor["name"])
        listed[kind] = {"topology": None, **flavor}
    return listed


def _covers(queue: Json, job: Json) -> None:
    """Refuse a job that asks for what its queue's flavors do not have."""
    name = queue["metadata"]["name"]
    flavors = _flavors(queue)
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for template in [*(group["template"] for group in groups), job["spec"]["submitterPodTemplate"]]:
        pod = template["spec"]
        instance_type = (pod.get("nodeSelector") or {}).get(names.INSTANCE_TYPE_LABEL)
        if instance_type is None or not flavors:
            continue
        flavor = flavors.get(instance_type)
        if flavor is None:
            raise OpsError(
                f"queue '{name}' has no quota of {instance_type}, which the job's pods need",
                expected=f"one of {', '.join(sorted(flavors))}: Kueue never admits the job",
                fix=f"ask an administrator for a quota of {instance_type}",
                code=BAD_USE,
            )
        requested = {resource for container in pod["containers"] for resource in container["resources"]["requests"]}
        if missing := sorted(requested - set(flavor.get("resources") or requested)):
            raise OpsError(
                f"queue '{name}' has no quota of {', '.join(missing)} of {instance_type}, which the job's pods request",
                expected="a quota of each resource: Kueue never admits the job",
                fix=f"ask an administrator for a quota of {instance_type} with {', '.join(missing)}",
                code=BAD_USE,
            )
        placed = {names.TOPOLOGY_PREFERRED, names.TOPOLOGY_REQUIRED} & set(
            template["metadata"].get("annotations") or {}
        )
        if placed and not flavor.get("topology", True):
            raise OpsError(
                f"topology: {instance_type} has no Topology in queue '{name}'",
                expected="a flavor with a Topology: Kueue never admits a job that asks for one, preferred or required",
                fix="remove --topology, or ask an administrator for a Topology of the flavor",
                code=BAD_USE,
            )


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Why a job's cluster is not there yet."""

    what: str
    holders: str = ""
    """Who has what it waits for."""

    def __str__(self) -> str:
        return f"{self.what}; {self.holders}" if self.holders else self.what


def why_it_waits(target: Target, ray_job: Json) -> Waiting | None:
    """What a RayJob waits for; None where it does not."""
    status = ray_job.get("status") or {}
    state, cluster = status.get("jobDeploymentStatus") or "", status.get("rayClusterName") or ""
    queue = (ray_job["metadata"].get("labels") or {}).get(names.QUEUE_LABEL)
    if queue and (ray_job["spec"].get("suspend") or state == "Suspended"):
        return _in_queue(target, ray_job, queue)
    if state not in ("", "New", "Initializing", "Waiting"):
        return None
    pods = ray_pods.pods(target, ray_job["metadata"]["namespace"])
    peers = [pod for pod in pods if pod.cluster == cluster]
    pending = [pod for pod in peers if pod.phase == "Pending" and not pod.node]
    if pending:
        stuck = pending[0]
        reason = re.sub(r"\s+", " ", stuck.message or stuck.reason or "not scheduled yet").strip()
        text = f"{len(pending)} of {len(peers)} pods find no node (group {stuck.instance_group or '?'}): {reason[:200]}"
        return Waiting(what=text, holders=_holders(pods, stuck.instance_group, cluster))
    broken = next((pod for pod in peers if not pod.ready and pod.reason), None)
    if broken is not None:
        return Waiting(what=f"pod {broken.name} does not run: {broken.reason} {broken.message[:160]}".rstrip())
    if peers and not all(pod.ready for pod in peers):
        return Waiting(what=f"{sum(pod.ready for pod in peers)} of {len(peers)} pods are ready")
    return Waiting(what=str(status.get("reason") or "") or "its RayCluster has no pods yet") if not peers else None


def _holders(pods: list[Pod], group: str, cluster: str) -> str:
    """Clusters whose pods are on the nodes of a group."""
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.instance_group == group and pod.cluster != cluster and pod.node and pod.phase != "Succeeded":
            counts[pod.cluster] = counts.get(pod.cluster, 0) + 1
    held = ", ".join(f"RayCluster {name} has {count}" for name, count in sorted(counts.items()))
    return f"of the pods on these nodes, {held}" if held else ""


def _in_queue(target: Target, ray_job: Json, queue: str) -> Waiting:
    """What Kueue says of the job's Workload; only that it waits, where nothing is to be seen."""
    workloads = _workloads(target, ray_job)
    workload = next((candidate for candidate in workloads if _owned(candidate, ray_job)), None)
    plain = Waiting(what=f"queue '{queue}' has not admitted it")
    if workload is None:
        return plain
    conditions = {condition["type"]: condition for condition in (workload.get("status") or {}).get("conditions") or []}
    reserved, evicted = conditions.get("QuotaReserved") or {}, conditions.get("Evicted") or {}
    eviction = ""
    if evicted.get("status") == "True" or (evicted and reserved.get("status") != "True"):
        eviction = EVICTED.get(str(evicted.get("reason")), str(evicted.get("message") or ""))
    why = _needs(str(reserved.get("message") or "")) if reserved.get("status") != "True" else ""
    if reserved.get("status") == "True" and (conditions.get("Admitted") or {}).get("status") != "True":
        why = "it has its quota, and waits for a check of the queue"
    where = f"queue '{queue}'"
    if reserved.get("status") != "True" and not why.startswith(NEVER_ADMITTED):
        where = f"{where}, {_place(workload, workloads)}"
    text = f"{where}: {why or 'has not admitted it'}"
    return Waiting(what=f"{text}; {eviction}" if eviction else text)


def _needs(message: str) -> str:
    """Kueue's message as one sentence: what is short, of which type, by how much."""
    never: list[str] = []
    short: dict[str, dict[str, str]] = {}
    for sentence in POD_SET.split(message):
        uncovered = [match["resource"] for match in UNCOVERED.finditer(sentence)]
        never += [f"its queue has no quota of {resource}" for resource in uncovered]
        never += [f"{match['flavor']} has no Topology, which --topology needs" for match in TOPOLOGY.finditer(sentence)]
        waits = {match["flavor"].strip() for match in CAPACITY.finditer(sentence)}
        large = list(NEVER.finditer(sentence))
        if large and not waits - {match["flavor"] for match in large}:
            # a pod set takes all its resources of one flavor: with one of them too large it waits in vain
            never += [
                f"it asks for {_sum(match['before'], match['asks'])} {match['resource']} of {match['flavor']}, and "
                f"quota with borrowing is {match['most']}"
                for match in large
            ]
        for match in CAPACITY.finditer(sentence):
            short.setdefault(match["flavor"].strip(), {}).setdefault(match["resource"], match["more"].strip())
    if never:
        return f"{NEVER_ADMITTED} {' and '.join(dict.fromkeys(never))}"
    if short:
        parts = [_amounts(flavor, amounts) for flavor, amounts in sorted(short.items(), key=_accelerators_first)]
        needs = f"it needs {' and '.join(parts)} than is unused"
        preempting = PREEMPTING.search(message)
        return f"{needs}; jobs that have it are preempted: {preempting['jobs']}" if preempting else needs
    return re.sub(r"\s+", " ", message).strip()[:300]


def _accelerators_first(entry: tuple[str, dict[str, str]]) -> bool:
    return not any(map(_accelerator, entry[1]))


def _accelerator(resource: str) -> bool:
    devices = (names.GPU_RESOURCE, names.NEURON_RESOURCE, names.NEURON_DEVICE)
    return resource in devices or resource.startswith(names.MIG_PREFIX)


def _amounts(flavor: str, amounts: dict[str, str]) -> str:
    """What is short of one type: accelerators with their number, and what comes with them by name."""
    counted = [resource for resource in amounts if _accelerator(resource)] or list(amounts)
    rest = [resource for resource in amounts if resource not in counted]
    beside = f" (with {', '.join(rest)})" if rest else ""
    return f"{' and '.join(f'{amounts[resource]} more {resource}' for resource in counted)} of {flavor}{beside}"


def _sum(before: str, asks: str) -> str:
    """What a pod set asks for, with what the job's pod sets before it take of the same flavor."""
    return asks if before in ("0", "") else f"{before} + {asks}"


def _place(workload: Json, workloads: list[Json]) -> str:
    """Place among the jobs that wait in the same queue, and since when: `place 2 of 3, since 2026-11-23 10:04 UTC`.

    A team's ClusterQueue has one LocalQueue, so that the team's own Workloads tell the place. Kueue puts them in order
    by priority, then by creation, or by an eviction that was not for a preemption (pkg/workload, Ordering).
    """
    queue = workload["spec"].get("queueName")
    waiting = [
        candidate
        for candidate in workloads
        if candidate["spec"].get("queueName") == queue
        and not {"QuotaReserved", "Finished"} & _true(candidate)
        and candidate["spec"].get("active", True)
    ]
    order = sorted(waiting, key=lambda candidate: (-int(candidate["spec"].get("priority") or 0), _queued(candidate)))
    uids = [candidate["metadata"].get("uid") for candidate in order]
    since = _since(workload).replace("T", " ").removesuffix("Z")[:16]
    return f"place {uids.index(workload['metadata'].get('uid')) + 1} of {len(uids)}, since {since} UTC"


def _true(workload: Json) -> set[str]:
    """Types of the conditions that hold."""
    conditions = (workload.get("status") or {}).get("conditions") or []
    return {condition["type"] for condition in conditions if condition["status"] == "True"}


def _eviction(workload: Json) -> Json:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return next(
        (condition for condition in conditions if condition["type"] == "Evicted" and condition["status"] == "True"), {}
    )


def _queued(workload: Json) -> str:
    """The time by which Kueue puts a job in order."""
    evicted = _eviction(workload)
    later = evicted.get("reason") in ("PodsReadyTimeout", "AdmissionCheck")
    return str(evicted["lastTransitionTime"] if later else workload["metadata"]["creationTimestamp"])


def _since(workload: Json) -> str:
    """Since when a job waits this time."""
    return str(_eviction(workload).get("lastTransitionTime") or workload["metadata"]["creationTimestamp"])


def _owned(workload: Json, item: Json) -> bool:
    owners = workload["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == item["metadata"].get("uid") for owner in owners)


def _workloads(target: Target, item: Json) -> list[Json]:
    """Kueue's Workloads of a RayJob's namespace; none where they may not be seen."""
    metadata = item["metadata"]
    if "namespace" not in metadata:
        return []
    try:
        return [
            dict(workload)
            for workload in target.kubernetes.items(
                f"/apis/{names.QUEUE_API_VERSION}/namespaces/{metadata['namespace']}/workloads"
            )
        ]
    except Exception as error:
        if getattr(error, "status", None) in (403, 404):
            return []
        raise

"""Kueue's manager as a stand-in: RayJobs and RayClusters with a queue are admitted, borrow, and are reclaimed.

What it keeps: one Workload for each job with its pod sets, flavors by the pods' node selectors, Kueue's conditions with
its words, usage in the queues' status, suspension, and that a job without a reservation does not run. Who is admitted
and who is preempted decides `cohorts`. Not modelled: admission checks, topologies, fair sharing, waitForPodsReady,
partial admission. Source: kubernetes-sigs/kueue v0.19.2, pkg/{scheduler,workload,controller/jobs/rayjob}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.amounts import total, written
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import condition, has, owner, set_status, template_hash
from hyperpod_ray_sandbox.kubernetes.kueue import cohorts, digests
from hyperpod_ray_sandbox.kubernetes.selectors import matches
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]

API_VERSION = f"{digests.GROUP}/v1beta2"
JOBS = ("RayJob", "RayCluster")
JOB_UID = "kueue.x-k8s.io/job-uid"
MARK = "hyperpod-ray.sandbox/job-spec"
"""Annotation of a Workload: a hash of what it was made of, which the API server's defaults do not change."""
SUBMITTER = {"cpu": Fraction(1, 2), "memory": Fraction(200 * 2**20)}
"""What KubeRay's own submitter requests."""
REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
}
_ENDED = ("Complete", "Failed")


@dataclass(frozen=True, kw_only=True)
class PodSet:
    """Pods of one template, which get one flavor."""

    name: str
    count: int
    template: Json
    requests: Mapping[str, Fraction]


@dataclass(kw_only=True)
class Assignment:
    """Flavors of a job's pod sets, and what they come to; `refusals` says what does not fit now or ever."""

    asks: dict[str, float] = field(default_factory=dict)
    pod_sets: list[Json] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    never: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A job with its Workload and its ClusterQueue's name, empty where there is none."""

    job: Json
    workload: Json
    queue: str
    assignment: Assignment


def key(resource: str, flavor: str) -> str:
    """The name of one flavor's resource in `cohorts`, as Kueue writes it in messages."""
    return f"{resource} in flavor {flavor}"


class Kueue:
    """Follows queues and jobs, once Kueue's definitions are there."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._order: dict[str, int] = {}
        """UID to a number that tells the order of what has the same second."""

    def reconcile(self) -> None:
        """One look at every queue and job."""
        if not defined(self._api):
            return
        queues = {queue["metadata"]["name"]: queue for queue in self._api.all(API_VERSION, "ClusterQueue")}
        entries = [entry for entry in map(self._entry, self._jobs()) if entry is not None]
        for entry in entries:
            self._follow(entry)
        while self._schedule(queues):
            pass
        self._report(queues)

    # ---- jobs and their Workloads --------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[Json]:
        for kind in JOBS:
            for job in self._api.all(names.RAY_API_VERSION, kind):
                metadata = job["metadata"]
                owners = metadata.get("ownerReferences") or []
                counted = any(reference["kind"] in JOBS and reference.get("controller") for reference in owners)
                queue = (metadata.get("labels") or {}).get(names.QUEUE_LABEL)
                if queue and not counted and not job["spec"].get("clusterSelector"):
                    yield job

    def _entry(self, job: Json) -> Entry | None:
        """The job's Workload, which is created where it is missing and follows a job that waits."""
        metadata, space = job["metadata"], job["metadata"]["namespace"]
        name = workload_name(job)
        workload = self._api.find(API_VERSION, "Workload", space, name)
        if workload is None or not has(workload, "QuotaReserved"):
            if metadata.get("deletionTimestamp") or ended(job):
                return None
            spec = self._spec(job)
            if spec is None:
                return None  # its priority class is not there: Kueue makes no Workload either
            workload = self._write(job, name, spec, workload)
        if workload is None:
            return None
        self._order.setdefault(metadata["uid"], len(self._order))
        local = self._api.find(API_VERSION, "LocalQueue", space, workload["spec"]["queueName"])
        return Entry(
            job=job,
            workload=workload,
            queue=local["spec"]["clusterQueue"] if local else "",
            assignment=Assignment(),
        )

    def _write(self, job: Json, name: str, spec: Json, workload: Json | None) -> Json | None:
        """Create a Workload, or let it follow its job, which may change while it waits."""
        space, mark = job["metadata"]["namespace"], template_hash(spec)
        if workload is not None:
            if (workload["metadata"].get("annotations") or {}).get(MARK) == mark:
                return workload

            def follow(current: Json) -> None:
                current["spec"] = spec
                current["metadata"].setdefault("annotations", {})[MARK] = mark

            return self._api.modify(workload, follow)
        metadata = {
            "name": name, "namespace": space, "labels": {JOB_UID: job["metadata"]["uid"]},
            "annotations": {MARK: mark}, "ownerReferences": [owner(job)],
        }  # fmt: skip
        body = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}
        try:
            return self._api.create(self._api.kind(API_VERSION, "Workload"), space, body)
        except ApiError as error:
            if error.code not in (403, 409):  # a namespace that goes takes nothing new
                raise
            return None

    def _spec(self, job: Json) -> Json | None:
        """The spec of a job's Workload; None where its priority class does not exist."""
        labels = job["metadata"]["labels"]
        spec: Json = {
            "active": True,
            "podSets": [{"name": pods.name, "count": pods.count, "template": pods.template} for pods in pod_sets(job)],
            "queueName": labels[names.QUEUE_LABEL],
            "priority": 0,
        }
        if called := labels.get(names.PRIORITY_LABEL):
            priority_class = self._api.find(API_VERSION, "WorkloadPriorityClass", "", called)
            if priority_class is None:
                return None
            reference = {"group": digests.GROUP, "kind": "WorkloadPriorityClass", "name": called}
            spec |= {"priority": priority_class["value"], "priorityClassRef": reference}
        return spec

    def _follow(self, entry: Entry) -> None:
        """Keep a job and its Workload in agreement: its end, a stop that was asked for, a start that was not."""
        job, workload = entry.job, entry.workload
        if has(workload, "Finished"):
            return
        if ended(job):
            status = job.get("status") or {}
            reason = "Succeeded" if status.get("jobStatus") == "SUCCEEDED" else "Failed"
            self._conditions(workload, ("Finished", "True", reason, str(status.get("message") or "")))
        elif has(workload, "Evicted") or not has(workload, "QuotaReserved"):
            if not job["spec"].get("suspend"):
                self._suspend(job, value=True)
            elif has(workload, "QuotaReserved") and not active(job):
                self._release(workload)
        elif job["spec"].get("suspend"):
            self._suspend(job, value=False)

    def _suspend(self, job: Json, *, value: bool) -> None:
        self._api.modify(job, lambda current: current["spec"].update(suspend=value))

    def _release(self, workload: Json) -> None:
        """The pods of an evicted job are gone: its quota is free, and it waits again."""
        evicted = next(entry for entry in workload["status"]["conditions"] if entry["type"] == "Evicted")
        message = evicted["message"]

        def free(status: Json) -> None:
            status.pop("admission", None)
            condition(status, "QuotaReserved", "False", "Pending", message)
            condition(status, "Admitted", "False", "NoReservation", "The workload has no reservation")
            condition(status, "Requeued", "True", evicted["reason"], message)

        set_status(self._api, workload, free)

    def _conditions(self, workload: Json, *told: tuple[str, str, str, str], **values: Any) -> None:
        def fill(status: Json) -> None:
            status.update(values)
            for kind, state, reason, message in told:
                condition(status, kind, state, reason, message)

        set_status(self._api, workload, fill)

    # ---- who is next ---------------------------------------------------------------------------------------------

    def _schedule(self, queues: Mapping[str, Json]) -> bool:
        """The next admission or preemption; False when nothing follows at once."""
        # one of a queue whose flavors are gone keeps what it has
        ready = {name: queue for name, queue in queues.items() if not self._missing(queue)}
        model = [cohort_queue(queue) for queue in ready.values()]
        entries = {
            entry.workload["metadata"]["uid"]: entry
            for entry in filter(None, map(self._entry, self._jobs()))
            if not has(entry.workload, "Finished")
        }
        workloads = {
            uid: self._workload(uid, entry, asks=reserved(entry.workload))
            for uid, entry in entries.items()
            if entry.queue in ready and has(entry.workload, "QuotaReserved")
        }
        state = cohorts.Cohorts(model, workloads.values())
        for uid, entry in [pair for pair in entries.items() if not has(pair[1].workload, "QuotaReserved")]:
            if entry.queue not in ready:
                self._inadmissible(entry, queues)
                continue
            if not self._admits_namespace(ready[entry.queue], entry):
                message = "Workload namespace doesn't match ClusterQueue selector"
                self._conditions(entry.workload, ("QuotaReserved", "False", "Pending", message))
                continue
            assignment = self._assign(state, ready[entry.queue], pod_sets(entry.job))
            entries[uid] = replace(entry, assignment=assignment)
            if assignment.never:
                self._refuse(entries[uid])
            else:
                workloads[uid] = self._workload(uid, entry, asks=assignment.asks)
        return self._decide(model, entries, workloads)

    def _decide(
        self, model: list[cohorts.Queue], entries: Mapping[str, Entry], workloads: Mapping[str, cohorts.Workload]
    ) -> bool:
        decision = cohorts.decide(model, list(workloads.values()))
        if decision.admit:
            self._admit(entries[decision.admit])
            return True
        for uid in decision.preempt:
            if not workloads[uid].evicted:
                self._evict(entries[uid], entries[decision.preemptor])
        pending = f". Pending the preemption of {len(decision.preempt)} workload(s)"
        for uid, entry in entries.items():
            if entry.assignment.refusals and not entry.assignment.never:
                self._refuse(entry, pending if uid == decision.preemptor else "")
        return False  # what was preempted frees its quota when its pods are gone

    def _workload(self, uid: str, entry: Entry, *, asks: Mapping[str, float]) -> cohorts.Workload:
        status, metadata = entry.workload.get("status") or {}, entry.workload["metadata"]
        order = self._order[entry.job["metadata"]["uid"]] * 1e-6
        since = next((entry for entry in status.get("conditions") or [] if entry["type"] == "QuotaReserved"), None)
        reserves = since is not None and since["status"] == "True"
        return cohorts.Workload(
            name=uid,
            queue=entry.queue,
            asks=asks,
            priority=int(entry.workload["spec"].get("priority") or 0),
            created=seconds(metadata["creationTimestamp"]) + order,
            admitted=seconds(since["lastTransitionTime"]) + order if since and reserves else None,
            evicted=has(entry.workload, "Evicted"),
        )

    def _assign(self, state: cohorts.Cohorts, queue: Json, sets: Iterable[PodSet]) -> Assignment:
        """The flavors of each pod set: the first that fits, of those that its node selector allows."""
        name, assignment = queue["metadata"]["name"], Assignment()
        groups = queue["spec"].get("resourceGroups") or []
        for pods in sets:
            requests = {resource: amount * pods.count for resource, amount in pods.requests.items() if amount}
            flavors: dict[str, str] = {}
            messages: list[str] = []
            covered = {resource for group in groups for resource in group["coveredResources"]}
            for resource in sorted(set(requests) - covered):
                messages.append(f"resource {resource} unavailable in ClusterQueue")
                assignment.never = True
            for group in groups:
                mine = {res: amount for res, amount in requests.items() if res in group["coveredResources"]}
                if not mine:
                    continue
                tried: list[tuple[list[str], bool, str]] = []
                for flavor in (entry["name"] for entry in group["flavors"]):
                    refused, never = self._fits(state, name, flavor, pods, mine, assignment.asks)
                    tried.append((refused, never, flavor))
                    if not refused:
                        break
                refused, never, chosen = min(tried, key=lambda entry: (bool(entry[0]), entry[1]))
                if refused:
                    messages += [text for texts, _, _ in tried for text in texts]
                assignment.never |= never
                flavors |= dict.fromkeys(mine, chosen)
                if not never:
                    for resource, amount in mine.items():
                        place = key(resource, chosen)
                        assignment.asks[place] = assignment.asks.get(place, 0.0) + float(amount)
            if messages:
                assignment.refusals[pods.name] = sorted(dict.fromkeys(messages))
            usage = {name: written(name, amount) for name, amount in requests.items() if name in flavors}
            assignment.pod_sets.append(
                {"name": pods.name, "count": pods.count, "flavors": flavors, "resourceUsage": usage}
            )
        return assignment

    def _fits(  # noqa: PLR0917 - one step of the assignment
        self,
        state: cohorts.Cohorts,
        queue: str,
        flavor: str,
        pods: PodSet,
        requests: Mapping[str, Fraction],
        before: Mapping[str, float],
    ) -> tuple[list[str], bool]:
        """What a flavor refuses of a pod set, in Kueue's words; and whether it always will."""
        about = self._api.find(API_VERSION, "ResourceFlavor", "", flavor) or {}
        spec = about.get("spec") or {}
        labels = spec.get("nodeLabels") or {}
        selector = (pods.template.get("spec") or {}).get("nodeSelector") or {}
        if any(selector[label] != value for label, value in labels.items() if label in selector):
            return [f"flavor {flavor} doesn't match node affinity"], True
        annotations = (pods.template.get("metadata") or {}).get("annotations") or {}
        if {names.TOPOLOGY_PREFERRED, names.TOPOLOGY_REQUIRED} & set(annotations) and not spec.get("topologyName"):
            return [f'Flavor "{flavor}" does not support TopologyAwareScheduling'], True
        never, short = [], []
        for resource, amount in requests.items():
            place = key(resource, flavor)
            assumed = before.get(place, 0.0)
            most, free = state.potential(queue, place), state.available(queue, place)
            if assumed + float(amount) > most:
                figures = [written(resource, Fraction(value)) for value in (assumed, amount, most)]
                never.append(
                    f"insufficient quota for {place}, previously considered podsets requests ({figures[0]}) + current "
                    f"podset request ({figures[1]}) > maximum capacity ({figures[2]})"
                )
            elif assumed + float(amount) > free:
                more = written(resource, Fraction(assumed + float(amount) - free))
                short.append(f"insufficient unused quota for {place}, {more} more needed")
        return never + short, bool(never)

    def _missing(self, queue: Json) -> list[str]:
        """Flavors of a queue that do not exist."""
        groups = queue["spec"].get("resourceGroups") or []
        flavors = [flavor["name"] for group in groups for flavor in group["flavors"]]
        return [name for name in flavors if self._api.find(API_VERSION, "ResourceFlavor", "", name) is None]

    def _admits_namespace(self, queue: Json, entry: Entry) -> bool:
        """Whether a queue takes jobs of the job's namespace; one without a selector takes none."""
        namespace = self._api.find("v1", "Namespace", "", entry.job["metadata"]["namespace"]) or {}
        labels = (namespace.get("metadata") or {}).get("labels") or {}
        return matches(queue["spec"].get("namespaceSelector"), labels)

    def _inadmissible(self, entry: Entry, queues: Mapping[str, Json]) -> None:
        called = entry.workload["spec"]["queueName"]
        message = f"LocalQueue {called} doesn't exist"
        if entry.queue and entry.queue not in queues:
            message = f"ClusterQueue {entry.queue} doesn't exist"
        elif entry.queue:
            message = f"ClusterQueue {entry.queue} is inactive"
        self._conditions(entry.workload, ("QuotaReserved", "False", "Inadmissible", message))

    def _refuse(self, entry: Entry, after: str = "") -> None:
        # the reasons of Kueue's gate UnadmittedWorkloadsObservability are off by default
        message = "; ".join(
            f"couldn't assign flavors to pod set {name}: {', '.join(texts)}"
            for name, texts in entry.assignment.refusals.items()
        )
        self._conditions(entry.workload, ("QuotaReserved", "False", "Pending", message + after))

    def _admit(self, entry: Entry) -> None:
        conditions = (entry.workload.get("status") or {}).get("conditions") or []
        before = {condition["type"]: condition for condition in conditions}
        told = [
            ("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {entry.queue}"),
            ("Admitted", "True", "Admitted", "The workload is admitted"),
        ]
        told += [
            (kind, "False", "QuotaReserved", f"Previously: {before[kind]['message']}")
            for kind in ("Evicted", "Preempted")
            if (before.get(kind) or {}).get("status") == "True"
        ]
        admission = {"clusterQueue": entry.queue, "podSetAssignments": entry.assignment.pod_sets}
        self._conditions(entry.workload, *told, admission=admission)
        self._suspend(entry.job, value=False)

    def _evict(self, entry: Entry, by: Entry) -> None:
        reason = "InClusterQueue" if entry.queue == by.queue else "InCohortReclamation"
        message = (
            f"Preempted to accommodate a workload (UID: {by.workload['metadata']['uid']}, "
            f"JobUID: {by.job['metadata']['uid']}) due to {REASONS[reason]}; preemptor path: /{by.queue}; "
            f"preemptee path: /{entry.queue}"
        )
        self._conditions(
            entry.workload, ("Evicted", "True", "Preempted", message), ("Preempted", "True", reason, message)
        )
        self._suspend(entry.job, value=True)

    # ---- what the queues report ----------------------------------------------------------------------------------

    def _report(self, queues: Mapping[str, Json]) -> None:
        """Usage and counts in the status of each ClusterQueue and LocalQueue."""
        local_queues = self._api.all(API_VERSION, "LocalQueue")
        of_queue = {
            (local["metadata"]["namespace"], local["metadata"]["name"]): local["spec"]["clusterQueue"]
            for local in local_queues
        }
        pending = [workload for workload in self._api.all(API_VERSION, "Workload") if not has(workload, "Finished")]
        for name, queue in queues.items():
            mine = [workload for workload in pending if of_queue.get(local_name(workload)) == name]
            missing = self._missing(queue)
            state = ("Active", "True", "Ready", "Can admit new workloads")
            if missing:
                message = f"Can't admit new workloads: references missing ResourceFlavor(s): {','.join(missing)}."
                state = ("Active", "False", "FlavorNotFound", message)
            self._conditions(queue, state, **counts(mine), **usages(queue, mine, borrowed=True))
        for local in local_queues:
            target = queues.get(local["spec"]["clusterQueue"])
            if target is None:
                message = "Can't submit new workloads to clusterQueue"
                self._conditions(local, ("Active", "False", "ClusterQueueDoesNotExist", message))
                continue
            place = (local["metadata"]["namespace"], local["metadata"]["name"])
            mine = [workload for workload in pending if local_name(workload) == place]
            state = ("Active", "True", "Ready", "Can submit new workloads to localQueue")
            self._conditions(local, state, **counts(mine), **usages(target, mine, borrowed=False))


def workload_name(job: Json) -> str:
    """The Workload's name of a job, as Kueue makes it."""
    group = names.RAY_API_VERSION.partition("/")[0]
    metadata, kind = job["metadata"], str(job["kind"])
    digest = hashlib.sha1(
        f"{kind}\n{group}\n{metadata['name']}\n{metadata['uid']}".encode(), usedforsecurity=False
    ).hexdigest()[:5]
    prefix = f"{kind.lower()}-{metadata['name']}"
    return f"{prefix[:247]}-{digest}"


def pod_sets(job: Json) -> list[PodSet]:
    """Head, worker groups, and the submitter where it is a pod of its own."""
    spec = job["spec"]
    cluster = spec["rayClusterSpec"] if job["kind"] == "RayJob" else spec
    sets = [_pods("head", 1, cluster["headGroupSpec"]["template"])]
    for group in cluster.get("workerGroupSpecs") or []:
        count = int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1)
        sets.append(_pods(group["groupName"], count, group["template"]))
    if job["kind"] == "RayJob" and (spec.get("submissionMode") or "K8sJobMode") == "K8sJobMode":
        template = spec.get("submitterPodTemplate")
        if template:
            sets.append(_pods("submitter", 1, template))
        else:
            resources = {"requests": {name: written(name, amount) for name, amount in SUBMITTER.items()}}
            container = {"name": "ray-job-submitter", "resources": resources}
            sets.append(_pods("submitter", 1, {"spec": {"restartPolicy": "Never", "containers": [container]}}))
    return sets


def _pods(name: str, count: int, template: Json) -> PodSet:
    limits = total(template["spec"], "limits")
    # Kubernetes takes a limit for the request that is missing
    return PodSet(
        name=name, count=count, template=copy(template), requests={**limits, **total(template["spec"], "requests")}
    )


def ended(job: Json) -> bool:
    """Whether a job needs no quota any more."""
    return job["kind"] == "RayJob" and (job.get("status") or {}).get("jobDeploymentStatus") in _ENDED


def active(job: Json) -> bool:
    """Whether pods of a job may still be there."""
    status = job.get("status") or {}
    if job["kind"] == "RayJob":
        return (status.get("jobDeploymentStatus") or "New") not in ("Suspended", "New")
    return (status.get("state") or "suspended") != "suspended"


def local_name(workload: Json) -> tuple[str, str]:
    """Namespace and name of a Workload's LocalQueue."""
    return workload["metadata"]["namespace"], workload["spec"]["queueName"]


def reserved(workload: Json) -> dict[str, float]:
    """What an admitted Workload has, by `key`."""
    amounts: dict[str, float] = {}
    for assigned in workload["status"]["admission"]["podSetAssignments"]:
        for resource, amount in assigned["resourceUsage"].items():
            place = key(resource, assigned["flavors"][resource])
            amounts[place] = amounts.get(place, 0.0) + float(number(amount))
    return amounts


def counts(workloads: Iterable[Json]) -> Json:
    """How many Workloads of a queue wait and run."""
    states = [(has(workload, "QuotaReserved"), has(workload, "Admitted")) for workload in workloads]
    return {
        "pendingWorkloads": sum(not reserves for reserves, _ in states),
        "reservingWorkloads": sum(reserves for reserves, _ in states),
        "admittedWorkloads": sum(admitted for _, admitted in states),
    }


def usages(queue: Json, workloads: Iterable[Json], *, borrowed: bool) -> Json:
    """What the Workloads of a queue have of each flavor: all that it covers, with zeros."""
    amounts: dict[str, float] = {}
    for workload in workloads:
        if has(workload, "QuotaReserved"):
            for place, amount in reserved(workload).items():
                amounts[place] = amounts.get(place, 0.0) + amount
    rows = []
    for group in queue["spec"].get("resourceGroups") or []:
        for flavor in group["flavors"]:
            resources = []
            for limit in sorted(flavor["resources"], key=lambda limit: str(limit["name"])):
                used = amounts.get(key(limit["name"], flavor["name"]), 0.0)
                row = {"name": limit["name"], "total": written(limit["name"], Fraction(used))}
                if borrowed:
                    over = max(0.0, used - float(number(limit["nominalQuota"])))
                    row["borrowed"] = written(limit["name"], Fraction(over))
                resources.append(row)
            rows.append({"name": flavor["name"], "resources": resources})
    return {"flavorsReservation": rows, "flavorsUsage": rows}


def cohort_queue(queue: Json) -> cohorts.Queue:
    """A ClusterQueue as `cohorts` has it."""
    spec = queue["spec"]
    limits: dict[str, dict[str, float]] = {"nominalQuota": {}, "borrowingLimit": {}, "lendingLimit": {}}
    for group in spec.get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                for name, amounts in limits.items():
                    if resource.get(name) is not None:
                        amounts[key(resource["name"], flavor["name"])] = float(number(resource[name]))
    preemption = spec.get("preemption") or {}
    return cohorts.Queue(
        name=queue["metadata"]["name"],
        quota=limits["nominalQuota"],
        borrowing=limits["borrowingLimit"],
        lending=limits["lendingLimit"],
        within=preemption.get("withinClusterQueue", "Never"),
        reclaim=preemption.get("reclaimWithinCohort", "Never"),
        cohort=spec.get("cohortName") or "",
        strict=spec.get("queueingStrategy") == "StrictFIFO",
    )


def seconds(moment: str) -> float:
    """A time of Kubernetes as seconds."""
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


def defined(api: Api) -> bool:
    """Whether Kueue's definitions are there."""
    return api.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", f"workloads.{digests.GROUP}") is not None

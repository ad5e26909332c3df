"""Deployment, ReplicaSet, StatefulSet, DaemonSet and Job.

Pods come from templates; helm and kubectl read the statuses.

A model of kube-controller-manager's controllers. A rolling update makes the new pods first and takes the old away
once as many new ones are ready; surge and partition are not looked at. With no node that takes the pods nothing gets
ready, so whatever waits (`helm --wait`, `kubectl rollout status`) waits until its timeout, as in real life.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import (
    alive,
    condition,
    event,
    has,
    make_pod,
    owned,
    owner,
    pod_ready,
    pods_of,
    remove,
    set_status,
    template_hash,
)
from hyperpod_ray_sandbox.kubernetes.controllers.scheduler import selects, untolerated
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

_REVISION = "deployment.kubernetes.io/revision"
_EVERYWHERE = [
    {"key": key, "operator": "Exists", "effect": effect}
    for key, effect in (
        (names.NOT_READY, "NoExecute"),
        (names.UNREACHABLE, "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    )
]


def _going(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


class Workloads:
    """Keeps pods as the workloads want them."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self) -> None:
        """One pass."""
        for kind, act in (
            ("Deployment", self._deployment),
            ("ReplicaSet", self._replica_set),
            ("StatefulSet", self._stateful_set),
            ("DaemonSet", self._daemon_set),
        ):
            for obj in self.api.all("apps/v1", kind):
                if not _going(obj):
                    act(obj)
        for obj in self.api.all("batch/v1", "Job"):
            if not _going(obj):
                self._job(obj)

    # ---- Deployment ------------------------------------------------------------------------------------------------

    def _deployment(self, deployment: Json) -> None:
        spec, meta = deployment["spec"], deployment["metadata"]
        mark = template_hash(spec["template"])
        sets = [r for r in self.api.all("apps/v1", "ReplicaSet", meta["namespace"]) if owned(r, deployment)]
        current = next((r for r in sets if r["metadata"]["labels"].get("pod-template-hash") == mark), None)
        outdated = [r for r in sets if r is not current and r["spec"].get("replicas")]
        revisions = [int((r["metadata"].get("annotations") or {}).get(_REVISION, 0)) for r in sets]
        recreate = (spec.get("strategy") or {}).get("type") == "Recreate"
        replicas = spec.get("replicas", 1)
        if recreate and outdated:
            for replica_set in outdated:
                self._scale(replica_set, 0)
            replicas = 0
        if current is None:
            current = self._new_set(deployment, mark, replicas, max(revisions, default=0) + 1)
            if current is None:
                return
        elif revisions and int(current["metadata"]["annotations"].get(_REVISION, 0)) < max(revisions):
            self._annotate(current, str(max(revisions) + 1))
        revision = (
            self.api.get(self.api.kind("apps/v1", "ReplicaSet"), meta["namespace"], current["metadata"]["name"])[
                "metadata"
            ]["annotations"]
        )[_REVISION]
        if (meta.get("annotations") or {}).get(_REVISION) != revision:
            self._annotate(deployment, revision)
        self._scale(current, replicas)
        status = current.get("status") or {}
        ready = int(status.get("readyReplicas") or 0)
        if outdated and ready >= replicas and not recreate:
            for replica_set in outdated:
                self._scale(replica_set, 0)
        self._deployment_status(deployment, current, [r for r in sets if r is not current])

    def _new_set(self, deployment: Json, mark: str, replicas: int, revision: int) -> Json | None:
        meta, template = deployment["metadata"], copy(deployment["spec"]["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels["pod-template-hash"] = mark
        selector = copy(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})["pod-template-hash"] = mark
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{mark}",
                "namespace": meta["namespace"],
                "labels": dict(labels),
                "annotations": {_REVISION: str(revision)},
                "ownerReferences": [owner(deployment)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        }
        try:
            return self.api.create(self.api.kind("apps/v1", "ReplicaSet"), meta["namespace"], body)
        except ApiError as error:
            event(self.api, deployment, "Warning", "ReplicaSetCreateError", error.message, "deployment-controller")
            return None

    def _annotate(self, obj: Json, revision: str) -> None:
        def change(current: Json) -> None:
            current["metadata"].setdefault("annotations", {})[_REVISION] = revision

        self.api.modify(obj, change)

    def _scale(self, replica_set: Json, replicas: int) -> None:
        if replica_set["spec"].get("replicas") == replicas:
            return

        def change(current: Json) -> None:
            current["spec"]["replicas"] = replicas

        self.api.modify(replica_set, change)

    def _deployment_status(self, deployment: Json, current: Json, outdated: list[Json]) -> None:
        spec = deployment["spec"]
        replicas = int(spec.get("replicas", 1))
        current_status = current.get("status") or {}
        total = sum(int((r.get("status") or {}).get("replicas") or 0) for r in [current, *outdated])
        ready = sum(int((r.get("status") or {}).get("readyReplicas") or 0) for r in [current, *outdated])
        updated = int(current_status.get("replicas") or 0)
        enough = max(0, replicas - _unavailable(spec, replicas))
        done = updated == replicas == total and ready >= replicas
        deadline = float(spec.get("progressDeadlineSeconds") or 600)

        def fill(status: Json) -> None:
            status.update(observedGeneration=deployment["metadata"]["generation"])
            for name, value in (
                ("replicas", total),
                ("updatedReplicas", updated),
                ("readyReplicas", ready),
                ("availableReplicas", ready),
                ("unavailableReplicas", max(0, max(total, replicas) - ready)),
            ):
                if value:
                    status[name] = value
                else:
                    status.pop(name, None)
            up = ready >= enough
            condition(
                status,
                "Available",
                "True" if up else "False",
                "MinimumReplicasAvailable" if up else "MinimumReplicasUnavailable",
                f"Deployment {'has' if up else 'does not have'} minimum availability.",
            )
            name = current["metadata"]["name"]
            if done:
                condition(
                    status,
                    "Progressing",
                    "True",
                    "NewReplicaSetAvailable",
                    f'ReplicaSet "{name}" has successfully progressed.',
                )
            elif _age(current) > deadline and not ready:
                condition(
                    status,
                    "Progressing",
                    "False",
                    "ProgressDeadlineExceeded",
                    f'ReplicaSet "{name}" has timed out progressing.',
                )
            else:
                condition(status, "Progressing", "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')

        set_status(self.api, deployment, fill)

    # ---- ReplicaSet and StatefulSet --------------------------------------------------------------------------------

    def _replica_set(self, replica_set: Json) -> None:
        pods = [p for p in pods_of(self.api, replica_set) if alive(p) and not _going(p)]
        replicas = int(replica_set["spec"].get("replicas", 1))
        for _ in range(replicas - len(pods)):
            if (
                make_pod(
                    self.api, replica_set, replica_set["spec"]["template"], prefix=f"{replica_set['metadata']['name']}-"
                )
                is None
            ):
                break
        for pod in sorted(pods, key=pod_ready)[: max(0, len(pods) - replicas)]:
            remove(self.api, pod)
        pods = [p for p in pods_of(self.api, replica_set) if alive(p) and not _going(p)]
        ready = sum(pod_ready(p) for p in pods)

        def fill(status: Json) -> None:
            status.update(
                observedGeneration=replica_set["metadata"]["generation"],
                replicas=len(pods),
                fullyLabeledReplicas=len(pods),
                readyReplicas=ready,
                availableReplicas=ready,
            )

        set_status(self.api, replica_set, fill)

    def _stateful_set(self, stateful: Json) -> None:
        spec, name = stateful["spec"], stateful["metadata"]["name"]
        mark = f"{name}-{template_hash(spec['template'])}"
        pods = {p["metadata"]["name"]: p for p in pods_of(self.api, stateful)}
        pod_names = [f"{name}-{i}" for i in range(int(spec.get("replicas", 1)))]
        for pod_name, pod in pods.items():
            stale = pod["metadata"]["labels"].get("controller-revision-hash") != mark
            if (pod_name not in pod_names or stale or not alive(pod)) and not _going(pod):
                remove(self.api, pod)
        for pod_name in pod_names:
            if pod_name not in pods:
                labels = {"controller-revision-hash": mark, "statefulset.kubernetes.io/pod-name": pod_name}
                self._claims(stateful, pod_name)
                make_pod(
                    self.api,
                    stateful,
                    spec["template"],
                    name=pod_name,
                    labels=labels,
                    change=lambda p: self._mount(stateful, p),
                )
        now_there = [
            p for p in pods_of(self.api, stateful) if p["metadata"]["labels"].get("controller-revision-hash") == mark
        ]
        ready = sum(pod_ready(p) for p in now_there)

        def fill(status: Json) -> None:
            status.update(
                observedGeneration=stateful["metadata"]["generation"],
                replicas=len(now_there),
                readyReplicas=ready,
                availableReplicas=ready,
                currentReplicas=len(now_there),
                updatedReplicas=len(now_there),
                currentRevision=mark,
                updateRevision=mark,
                collisionCount=0,
            )

        set_status(self.api, stateful, fill)

    def _claims(self, stateful: Json, pod_name: str) -> None:
        for template in stateful["spec"].get("volumeClaimTemplates") or []:
            name = f"{template['metadata']['name']}-{pod_name}"
            namespace = stateful["metadata"]["namespace"]
            if self.api.find("v1", "PersistentVolumeClaim", namespace, name) is None:
                body = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": copy(template["spec"]),
                }
                self.api.create(self.api.kind("v1", "PersistentVolumeClaim"), namespace, body)

    @staticmethod
    def _mount(stateful: Json, pod: Json) -> None:
        for template in stateful["spec"].get("volumeClaimTemplates") or []:
            volume = template["metadata"]["name"]
            claim = f"{volume}-{pod['metadata']['name']}"
            pod["spec"].setdefault("volumes", []).append(
                {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            )

    # ---- DaemonSet -------------------------------------------------------------------------------------------------

    def _daemon_set(self, daemon: Json) -> None:
        template = daemon["spec"]["template"]
        mark = template_hash(template)
        probe = {
            "spec": {
                **copy(template["spec"]),
                "tolerations": [*(template["spec"].get("tolerations") or []), *_EVERYWHERE],
            }
        }
        nodes = [n for n in self.api.all("v1", "Node") if selects(probe, n) and untolerated(probe, n) is None]
        names = {n["metadata"]["name"] for n in nodes}
        pods = pods_of(self.api, daemon)
        where = {_target(p): p for p in pods if not _going(p)}
        for name in sorted(names - set(where)):
            make_pod(
                self.api,
                daemon,
                template,
                prefix=f"{daemon['metadata']['name']}-",
                labels={"controller-revision-hash": mark},
                change=functools.partial(_pin, node=name),
            )
        for name, pod in where.items():
            if name not in names or pod["metadata"]["labels"].get("controller-revision-hash") != mark or not alive(pod):
                remove(self.api, pod)
        pods = [p for p in pods_of(self.api, daemon) if not _going(p) and _target(p) in names]
        ready = sum(pod_ready(p) for p in pods)
        updated = sum(p["metadata"]["labels"].get("controller-revision-hash") == mark for p in pods)

        def fill(status: Json) -> None:
            status.update(
                observedGeneration=daemon["metadata"]["generation"],
                desiredNumberScheduled=len(names),
                currentNumberScheduled=len(pods),
                numberMisscheduled=0,
                numberReady=ready,
                numberAvailable=ready,
                numberUnavailable=len(names) - ready,
                updatedNumberScheduled=updated,
            )

        set_status(self.api, daemon, fill)

    # ---- Job -------------------------------------------------------------------------------------------------------

    def _job(self, job: Json) -> None:
        if has(job, "Complete") or has(job, "Failed"):
            self._expire(job)
            return
        spec = job["spec"]
        pods = pods_of(self.api, job)
        done = sum((p.get("status") or {}).get("phase") == "Succeeded" for p in pods)
        failed = sum((p.get("status") or {}).get("phase") == "Failed" for p in pods)
        active = [p for p in pods if alive(p)]
        completions = int(spec.get("completions") or 1)
        over = failed > int(spec.get("backoffLimit", 6))
        if spec.get("suspend"):
            for pod in active:
                remove(self.api, pod)
        elif not over and done < completions:
            for _ in range(min(int(spec.get("parallelism", 1)), completions - done) - len(active)):
                labels = {"batch.kubernetes.io/job-name": job["metadata"]["name"], "job-name": job["metadata"]["name"]}
                if (
                    make_pod(self.api, job, spec["template"], prefix=f"{job['metadata']['name']}-", labels=labels)
                    is None
                ):
                    break
        active = [p for p in pods_of(self.api, job) if alive(p)]

        def fill(status: Json) -> None:
            if not spec.get("suspend"):
                status.setdefault("startTime", job["metadata"]["creationTimestamp"])
            for name, value in (
                ("active", len(active)),
                ("succeeded", done),
                ("failed", failed),
                ("ready", sum(pod_ready(p) for p in active)),
            ):
                if value:
                    status[name] = value
                else:
                    status.pop(name, None)
            status.setdefault("uncountedTerminatedPods", {})
            status["terminating"] = 0
            if done >= completions:
                status.setdefault("completionTime", now())
                condition(status, "SuccessCriteriaMet", "True", "CompletionsReached")
                condition(status, "Complete", "True", "CompletionsReached")
            elif over:
                condition(
                    status,
                    "FailureTarget",
                    "True",
                    "BackoffLimitExceeded",
                    "Job has reached the specified backoff limit",
                )
                condition(
                    status, "Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
                )
            if spec.get("suspend"):
                condition(status, "Suspended", "True", "JobSuspended")

        set_status(self.api, job, fill)

    def _expire(self, job: Json) -> None:
        lives = job["spec"].get("ttlSecondsAfterFinished")
        ended = next(
            (c["lastTransitionTime"] for c in job["status"]["conditions"] if c["type"] in ("Complete", "Failed")), None
        )
        if lives is not None and ended and _seconds_since(ended) > lives:
            remove(self.api, job)


def _unavailable(spec: Json, replicas: int) -> int:
    allowed = ((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxUnavailable", 0)
    if isinstance(allowed, str) and allowed.endswith("%"):
        return replicas * int(allowed[:-1]) // 100
    return int(allowed or 0)


def _seconds_since(stamp: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(stamp.replace("Z", "+00:00"))).total_seconds()


def _age(obj: Json) -> float:
    return _seconds_since(obj["metadata"]["creationTimestamp"])


def _target(pod: Json) -> str:
    """The node a DaemonSet's pod is meant for."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return str(pod["spec"].get("nodeName", ""))


def _pin(pod: Json, node: str) -> None:
    """Bind a DaemonSet's pod to its node by affinity, as the real controller does."""
    spec = pod["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or []), *_EVERYWHERE]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    pinned = [{**term, "matchFields": [field]} for term in terms]
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": pinned}

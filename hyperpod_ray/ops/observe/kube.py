"""What the Kubernetes API says: nodes, RayClusters, RayJobs, volume claims, warnings, controllers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.core import names, plan_names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.errors import explain, refused
from hyperpod_ray.ops.observe import controllers
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    Controller,
    KubernetesEvent,
    Node,
    QuotaUse,
    RayCluster,
    RayJob,
    Unseen,
    part_of,
)
from hyperpod_ray.ops.reach.clients import Json, Target
from hyperpod_ray.ops.reach.ray_pods import Pod, moment, pod_of, pods
from hyperpod_ray_rules import quantity

WARNINGS = 50
NETWORK = tuple(label for level, label in names.TOPOLOGY_LEVELS.items() if level.startswith("layer-"))
DEVICES = (names.GPU_RESOURCE, names.NEURON_RESOURCE, names.NEURON_DEVICE)


def kubernetes_part(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    """Every Ray namespace: each kind is asked apart, so that one that may not be seen hides no other."""
    lists: dict[str, Callable[[Target, str], list[Any]]] = {
        "pods": pods,
        "ray_clusters": ray_clusters,
        "ray_jobs": ray_jobs,
        "claims": claims,
        "warnings": warnings,
        "quotas": quotas,
    }
    found: dict[str, list[Any]] = {part: [] for part in lists}
    own, *others = plan_names.ray_namespaces(target.plan)
    teams = plan_names.team_namespaces(target.plan)
    for space in (own, *others):
        hidden: dict[str, Exception] = {}
        requests = {part: ask for part, ask in lists.items() if part != "quotas" or space in teams}
        for part, ask in requests.items():
            try:
                found[part] += ask(target, space)
            except Exception as error:
                if not refused(error) or explain(error, environment=target.name) is None:
                    raise
                hidden[part] = error
        all_hidden = len(hidden) == len(requests)
        if all_hidden and space == own:
            raise hidden["pods"]
        unseen += _hidden(target, space, hidden, all_hidden=all_hidden)
    return {part: tuple(items) for part, items in found.items()}


def _hidden(target: Target, space: str, hidden: dict[str, Exception], *, all_hidden: bool) -> Iterator[Unseen]:
    """What of a namespace may not be seen: all of it, or some of its parts."""
    for part, error in hidden.items():
        known = explain(error, environment=target.name)
        yield Unseen(
            source=f"namespace {space}" if all_hidden else part_of(part, space),
            why=known.message if known else "",
            refused=True,
        )
        if all_hidden:
            return


def nodes(target: Target) -> tuple[Node, ...]:
    """Nodes of the Kubernetes cluster."""
    return tuple(_node(obj) for obj in target.kubernetes.items("/api/v1/nodes"))


def _node(obj: Json) -> Node:
    meta, spec = obj["metadata"], obj.get("spec", {})
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    conditions = {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or []}
    ready = conditions.get("Ready", {})
    taints = {taint["key"] for taint in spec.get("taints") or []}
    reported = [
        next((labels[key] for key in keys if labels.get(key)), "")
        for keys in (names.FAULT_TYPE_LABELS, names.FAULT_REASON_LABELS)
    ]
    return Node(
        name=meta["name"],
        ready=ready.get("status") == "True",
        unreachable=names.UNREACHABLE in taints or ready.get("status") == "Unknown",
        since=moment(ready.get("lastTransitionTime")),
        created=moment(meta.get("creationTimestamp")),
        group=labels.get(names.INSTANCE_GROUP_LABEL, ""),
        health=labels.get(names.HEALTH_LABEL, ""),
        deep_check=labels.get(names.DEEP_HEALTH_LABEL, ""),
        fault=": ".join(filter(None, [*reported, notes.get(names.FAULT_DETAILS, "")])),
        cordoned=bool(spec.get("unschedulable")),
        out_of_service=names.OUT_OF_SERVICE in taints,
        network=tuple(labels[label] for label in NETWORK if labels.get(label)),
    )


def ray_clusters(target: Target, namespace: str) -> list[RayCluster]:
    """RayClusters of a namespace; none where KubeRay is not installed."""
    with contextlib.suppress(Missing):
        return [
            _ray(obj) for obj in _custom(target, f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayclusters")
        ]
    return []


class Missing(Exception):
    """A kind of object is not installed in the cluster."""


def _custom(target: Target, path: str) -> list[Json]:
    try:
        return target.kubernetes.items(path)
    except Exception as error:
        if absent(error):
            raise Missing from None
        raise


def _ray(obj: Json) -> RayCluster:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    wanted = sum(group.get("replicas") or 0 for group in spec.get("workerGroupSpecs") or [])
    bad = [c for c in status.get("conditions") or [] if c.get("type") == "ReplicaFailure" and c.get("status") == "True"]
    changed = [moment(c.get("lastTransitionTime")) for c in status.get("conditions") or []]
    return RayCluster(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        state=status.get("state", ""),
        desired_workers=status.get("desiredWorkerReplicas", wanted) or wanted,
        ready_workers=status.get("readyWorkerReplicas", 0),
        suspended=bool(spec.get("suspend")),
        reason=bad[0].get("message", "") if bad else status.get("reason", ""),
        since=max(filter(None, changed), default=moment(meta.get("creationTimestamp"))),
    )


def ray_jobs(target: Target, namespace: str) -> list[RayJob]:
    """RayJobs of a namespace, newest first; none where KubeRay is not installed."""
    with contextlib.suppress(Missing):
        path = f"/apis/{names.RAY_API_VERSION}/namespaces/{namespace}/rayjobs"
        found = [_ray_job(obj) for obj in _custom(target, path)]
        return sorted(found, key=lambda job: job.created or datetime.min.replace(tzinfo=UTC), reverse=True)
    return []


def _ray_job(obj: Json) -> RayJob:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return RayJob(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        status=status.get("jobStatus", ""),
        deployment_status=status.get("jobDeploymentStatus", ""),
        job_id=status.get("jobId", ""),
        cluster=status.get("rayClusterName", "")
        or (spec.get("clusterSelector") or {}).get(names.RAY_CLUSTER_LABEL, ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        created=moment(meta.get("creationTimestamp")),
        started=moment(status.get("startTime")),
        ended=moment(status.get("endTime")),
        suspended=bool(spec.get("suspend")),
    )


def quotas(target: Target, namespace: str) -> list[QuotaUse]:
    """What a team's jobs have of its quota; none where the cluster has no Kueue yet."""
    path = f"/apis/{names.QUEUE_API_VERSION}/namespaces/{namespace}"
    with contextlib.suppress(Missing):
        listed = _custom(target, f"{path}/localqueues")
        conditions = [
            (condition.get("type"), moment(condition.get("lastTransitionTime")))
            for workload in _custom(target, f"{path}/workloads")
            for condition in (workload.get("status") or {}).get("conditions") or []
        ]
        changes = [at for condition, at in conditions if condition in ("QuotaReserved", "Evicted", "Finished") and at]
        created = [moment(queue["metadata"].get("creationTimestamp")) for queue in listed]
        return [QuotaUse(namespace=namespace, reserved=_reserved(listed),
                         changed=max(changes or filter(None, created), default=None))]  # fmt: skip
    return []


def _reserved(listed: list[Json]) -> dict[str, float]:
    """Accelerators by flavor, which task governance names after the instance type."""
    reserved: dict[str, float] = {}
    for queue in listed:
        for flavor in (queue.get("status") or {}).get("flavorsReservation") or []:
            amounts = {
                resource["name"]: float(quantity.number(resource.get("total") or 0))
                for resource in flavor.get("resources") or []
            }
            devices = max(amounts.get(name, 0.0) for name in DEVICES)
            reserved[str(flavor["name"])] = reserved.get(str(flavor["name"]), 0.0) + devices
    return reserved


def controllers_part(target: Target, unseen: list[Unseen]) -> dict[str, Any]:
    """Every controller that the environment deploys; a namespace that may not be seen hides no other."""
    wanted = controllers.expected(target.plan)
    made: list[Controller] = []
    for namespace in dict.fromkeys(obj.namespace for obj in wanted):
        here = [obj for obj in wanted if obj.namespace == namespace]
        try:
            listed = {
                kind: controllers.listing(target.kubernetes, namespace, kind)
                for kind in dict.fromkeys(obj.kind for obj in here)
            }
        except Exception as error:
            known = explain(error, environment=target.name)
            if known is None or not refused(error):
                raise
            unseen.append(Unseen(source=f"controllers of {namespace}", why=known.message, refused=True))
            continue
        for obj in here:
            controller, selector = controllers.found(obj, listed[obj.kind], plan=target.plan)
            if controller.ready < controller.wanted and selector:
                with contextlib.suppress(Exception):  # the counts alone are worth showing
                    controller = controllers.with_pods(controller, _pods_of(target, namespace, selector))
            made.append(controller)
    return {"controllers": tuple(made)}


def _pods_of(target: Target, namespace: str, selector: str) -> list[Pod]:
    return [pod_of(obj) for obj in target.kubernetes.items(f"/api/v1/namespaces/{namespace}/pods", labels=selector)]


def claims(target: Target, namespace: str) -> list[Claim]:
    """Volume claims of a namespace."""
    return [
        Claim(
            name=obj["metadata"]["name"],
            namespace=namespace,
            phase=(obj.get("status") or {}).get("phase", "Pending"),
            volume=(obj.get("spec") or {}).get("volumeName", ""),
            storage_class=(obj.get("spec") or {}).get("storageClassName", "") or "",
            created=moment(obj["metadata"].get("creationTimestamp")),
            deleting_since=moment(obj["metadata"].get("deletionTimestamp")),
        )
        for obj in target.kubernetes.items(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    ]


def warnings(target: Target, namespace: str) -> list[KubernetesEvent]:
    """The newest warnings of a namespace, newest first."""
    found = target.kubernetes.items(f"/api/v1/namespaces/{namespace}/events", fields="type=Warning")
    listed = [
        KubernetesEvent(
            time=moment(obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")),
            reason=obj.get("reason", ""),
            object="/".join((obj.get("involvedObject") or {}).get(key, "") for key in ("kind", "name")),
            message=obj.get("message", ""),
            count=obj.get("count") or 1,
        )
        for obj in found
    ]
    listed.sort(key=lambda event: event.time or datetime.min.replace(tzinfo=UTC), reverse=True)
    return listed[:WARNINGS]

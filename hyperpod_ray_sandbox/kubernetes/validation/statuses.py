"""What the status of an object may say, where a client writes it.

Source: the Validate…StatusUpdate functions of pkg/apis/*/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized", "ContainersReady")
_ENDS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_CONTRADICTIONS = (
    ("Complete", "Failed"), ("Complete", "FailureTarget"), ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)  # fmt: skip
# kind -> what counts, and of those what cannot be more than there are replicas
_COUNTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Deployment": (
        ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
         "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    ),
    "StatefulSet": (
        ("observedGeneration", "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
         "collisionCount"),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    ),
    **dict.fromkeys(("ReplicaSet", "ReplicationController"), (
        ("observedGeneration", "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
         "terminatingReplicas"),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    )),
    "DaemonSet": (
        ("observedGeneration", "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
         "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
        (),
    ),
    "HorizontalPodAutoscaler": (("currentReplicas", "desiredReplicas"), ()),
    "PodDisruptionBudget": (("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), ()),
    "Job": (("active", "succeeded", "failed", "ready", "terminating"), ()),
}  # fmt: skip


def status(new: Json, old: Json) -> Causes:
    """Judge the status that a client gives an object."""
    causes, kind, said = Causes(), new["kind"], new.get("status") or {}
    counts, bounded = _COUNTS.get(kind, ((), ()))
    for field in counts:
        causes.natural(f"status.{field}", said.get(field))
    for field in bounded:
        if (said.get(field) or 0) > (said.get("replicas") or 0):
            causes.invalid(f"status.{field}", said.get(field) or 0, "cannot be greater than status.replicas")
    if "availableReplicas" in bounded and (said.get("availableReplicas") or 0) > (said.get("readyReplicas") or 0):
        causes.invalid(
            "status.availableReplicas", said.get("availableReplicas"), "cannot be greater than readyReplicas"
        )
    if judge := _BY_KIND.get(kind):
        judge(causes, new, old)
    return causes


def _deployment(causes: Causes, new: Json, old: Json) -> None:
    before, after = ((o.get("status") or {}).get("collisionCount") or 0 for o in (old, new))
    if after < before:
        causes.invalid("status.collisionCount", after, "cannot be decremented")


def _conditions(causes: Causes, new: Json, _old: Json) -> None:
    """Conditions of the common form: one of each type, with a reason of one word."""
    types: list[str] = []
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or []):
        path, name = f"status.conditions[{index}]", condition.get("type") or ""
        names.key(causes, f"{path}.type", name)
        if name in types:
            causes.duplicate(f"{path}.type", name)
        types.append(name)
        causes.one_of(f"{path}.status", condition.get("status") or " ", ("False", "True", "Unknown"))
        causes.natural(f"{path}.observedGeneration", condition.get("observedGeneration"))
        reason = condition.get("reason") or ""
        if not reason:
            causes.required(f"{path}.reason")
        elif not _REASON.fullmatch(reason) or len(reason) > 1024:
            causes.invalid(f"{path}.reason", reason, "a condition reason must start with alphabetic character")


def _service(causes: Causes, new: Json, old: Json) -> None:
    _conditions(causes, new, old)
    entries = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if entries and new["spec"].get("type") != "LoadBalancer":
        causes.forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, balancer in enumerate(entries):
        path = f"status.loadBalancer.ingress[{index}]"
        _balancer(causes, path, balancer)
        causes.one_of(f"{path}.ipMode", balancer.get("ipMode"), ("Proxy", "VIP"))
        if balancer.get("ipMode") is not None and not balancer.get("ip"):
            causes.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")


def _ingress(causes: Causes, new: Json, _old: Json) -> None:
    for index, balancer in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []):
        _balancer(causes, f"status.loadBalancer.ingress[{index}]", balancer)


def _balancer(causes: Causes, path: str, balancer: Json) -> None:
    if balancer.get("ip"):
        names.address(causes, f"{path}.ip", balancer["ip"])
    if balancer.get("hostname"):
        names.subdomain(causes, f"{path}.hostname", balancer["hostname"])
        if names.is_address(balancer["hostname"]):
            causes.invalid(f"{path}.hostname", balancer["hostname"], "must be a DNS name, not an IP address")


def _pod(causes: Causes, new: Json, old: Json) -> None:
    said, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(said.get("conditions") or []):
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            names.key(causes, f"status.conditions[{index}].Type", condition.get("type") or "")
    nominated = said.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        names.subdomain(causes, "status.nominatedNodeName", nominated)
        if old["spec"].get("nodeName"):
            causes.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    causes.natural("status.observedGeneration", said.get("observedGeneration"))
    if before.get("qosClass") and said.get("qosClass") != before["qosClass"]:
        causes.invalid("status.qosClass", said.get("qosClass"), "field is immutable")
    for field in ("podIPs", "hostIPs"):
        addresses = [str(pair.get("ip") or "") for pair in said.get(field) or []]
        for index, text in enumerate(addresses):
            names.address(causes, f"status.{field}[{index}]", text)
        if len(addresses) > 2:
            causes.invalid(f"status.{field}", addresses, "may specify no more than one IP for each IP family")
        elif len(set(addresses)) < len(addresses):
            causes.duplicate(f"status.{field}[1]", addresses[1])
    _restarts(causes, said, before, old)


def _restarts(causes: Causes, said: Json, before: Json, old: Json) -> None:
    """A container that ended in a pod that restarts nothing stays ended."""
    policy = old["spec"].get("restartPolicy")
    if policy == "Always":
        return
    states = {s.get("name"): (s.get("state") or {}) for s in said.get("containerStatuses") or []}
    for index, container in enumerate(before.get("containerStatuses") or []):
        ended = (container.get("state") or {}).get("terminated")
        if not ended or (policy == "OnFailure" and ended.get("exitCode")):
            continue
        state = states.get(container.get("name"))
        if state is not None and not state.get("terminated"):
            path = f"status.containerStatuses[{index}].state"
            causes.forbidden(path, "may not be transitioned to non-terminated state")


def _holds(said: Json, name: str) -> bool:
    """Whether a condition is true."""
    return any(c.get("type") == name and c.get("status") == "True" for c in said.get("conditions") or [])


def _job(causes: Causes, new: Json, old: Json) -> None:  # noqa: PLR0912  (a list of rules)
    """Judge what a controller says of a Job: an end has its reason and its times, and stays."""
    said, before, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", *(() if elastic else ("succeeded",))):
        if (said.get(field) or 0) < (before.get(field) or 0):
            causes.invalid(f"status.{field}", said.get(field) or 0, f"cannot decrease the {field} counter")
    for name in _ENDS:
        if _holds(before, name) and not _holds(said, name):
            causes.invalid("status.conditions", None, f"cannot disable the {name}=True condition")
    for pair in _CONTRADICTIONS:
        if all(_holds(said, name) for name in pair):
            causes.invalid("status.conditions", None, f"cannot set {pair[0]}=True and {pair[1]}=true conditions")
    complete, failed = _holds(said, "Complete"), _holds(said, "Failed")
    if (complete, failed) != (_holds(before, "Complete"), _holds(before, "Failed")):
        _job_end(causes, said, spec, complete=complete, failed=failed)
    if said.get("completionTime") != before.get("completionTime"):
        if said.get("completionTime") and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            causes.invalid("status.completionTime", said["completionTime"], why)
        if before.get("completionTime") and said.get("completionTime"):
            causes.invalid("status.completionTime", said["completionTime"], "field is immutable")
    moved = before.get("startTime") and said.get("startTime") != before["startTime"]
    if moved and not spec.get("suspend") and not _holds(before, "Suspended"):
        causes.invalid("status.startTime", said.get("startTime"), "field is immutable for unsuspended job once set")
    if (said.get("ready") or 0) > (said.get("active") or 0) and said != before:
        causes.invalid("status.ready", said["ready"], "cannot set more ready pods than active")
    if said.get("completedIndexes") and spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.invalid("status.completedIndexes", said["completedIndexes"], why)
    if said.get("failedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.invalid("status.failedIndexes", said["failedIndexes"], why)


def _job_end(causes: Causes, said: Json, spec: Json, *, complete: bool, failed: bool) -> None:
    """Judge the end of a Job that was not over."""
    if failed and not _holds(said, "FailureTarget"):
        causes.invalid(
            "status.conditions", None, "cannot set Failed=True condition without the FailureTarget=true condition"
        )
    if complete and not _holds(said, "SuccessCriteriaMet"):
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        causes.invalid("status.conditions", None, why)
    if complete and not said.get("completionTime"):
        causes.required("status.completionTime", "completionTime is required for Complete jobs")
    idle = spec.get("suspend") and spec.get("completions") == 0
    if (complete or failed) and not said.get("startTime") and not idle:
        causes.required("status.startTime", "startTime is required for finished job")
    for field in ("active", "terminating"):
        if (complete or failed) and (said.get(field) or 0) > 0:
            causes.invalid(f"status.{field}", said[field], f"{field}>0 is invalid for finished job")
    left = said.get("uncountedTerminatedPods") or {}
    if (complete or failed) and (left.get("succeeded") or left.get("failed")):
        causes.invalid("status.uncountedTerminatedPods", left, "must be empty for finished job")


def _claim(causes: Causes, new: Json, _old: Json) -> None:
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        causes.quantity(f"status.capacity[{name}]", amount)


def _quota(causes: Causes, new: Json, _old: Json) -> None:
    for field in ("hard", "used"):
        for name, amount in ((new.get("status") or {}).get(field) or {}).items():
            names.key(causes, f"status.{field}[{name}]", name)
            causes.quantity(f"status.{field}[{name}]", amount)


_BY_KIND: dict[str, Callable[[Causes, Json, Json], None]] = {
    "Deployment": _deployment,
    "Ingress": _ingress,
    "Job": _job,
    "PersistentVolumeClaim": _claim,
    "Pod": _pod,
    "PodDisruptionBudget": _conditions,
    "ResourceQuota": _quota,
    "Service": _service,
}

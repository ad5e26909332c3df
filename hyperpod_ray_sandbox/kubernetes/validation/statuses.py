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


def status(changed: Json, stored: Json) -> Causes:
    """Judge the status that a client gives an object."""
    causes, type_name, reported = Causes(), changed["kind"], changed.get("status") or {}
    counts, bounded = _COUNTS.get(type_name, ((), ()))
    for field in counts:
        causes.natural(f"status.{field}", reported.get(field))
    for field in bounded:
        if (reported.get(field) or 0) > (reported.get("replicas") or 0):
            causes.invalid(f"status.{field}", reported.get(field) or 0, "cannot be greater than status.replicas")
    if "availableReplicas" in bounded and (reported.get("availableReplicas") or 0) > (
        reported.get("readyReplicas") or 0
    ):
        causes.invalid(
            "status.availableReplicas", reported.get("availableReplicas"), "cannot be greater than readyReplicas"
        )
    if judge := _BY_KIND.get(type_name):
        judge(causes, changed, stored)
    return causes


def _deployment(causes: Causes, changed: Json, stored: Json) -> None:
    before, after = ((o.get("status") or {}).get("collisionCount") or 0 for o in (stored, changed))
    if after < before:
        causes.invalid("status.collisionCount", after, "cannot be decremented")


def _conditions(causes: Causes, changed: Json, _old: Json) -> None:
    """Conditions of the common form: one of each type, with a reason of one word."""
    types: list[str] = []
    for index, condition in enumerate((changed.get("status") or {}).get("conditions") or []):
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


def _service(causes: Causes, changed: Json, stored: Json) -> None:
    _conditions(causes, changed, stored)
    entries = ((changed.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if entries and changed["spec"].get("type") != "LoadBalancer":
        causes.forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, balancer in enumerate(entries):
        path = f"status.loadBalancer.ingress[{index}]"
        _balancer(causes, path, balancer)
        causes.choice(f"{path}.ipMode", balancer.get("ipMode"), ("Proxy", "VIP"))
        if balancer.get("ipMode") is not None and not balancer.get("ip"):
            causes.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")


def _ingress(causes: Causes, changed: Json, _old: Json) -> None:
    for index, balancer in enumerate(((changed.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []):
        _balancer(causes, f"status.loadBalancer.ingress[{index}]", balancer)


def _balancer(causes: Causes, path: str, balancer: Json) -> None:
    if balancer.get("ip"):
        names.address(causes, f"{path}.ip", balancer["ip"])
    if balancer.get("hostname"):
        names.subdomain(causes, f"{path}.hostname", balancer["hostname"])
        if names.is_address(balancer["hostname"]):
            causes.invalid(f"{path}.hostname", balancer["hostname"], "must be a DNS name, not an IP address")


def _pod(causes: Causes, changed: Json, stored: Json) -> None:
    reported, before = changed.get("status") or {}, stored.get("status") or {}
    for index, condition in enumerate(reported.get("conditions") or []):
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            names.key(causes, f"status.conditions[{index}].Type", condition.get("type") or "")
    nominated = reported.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        names.subdomain(causes, "status.nominatedNodeName", nominated)
        if stored["spec"].get("nodeName"):
            causes.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    causes.natural("status.observedGeneration", reported.get("observedGeneration"))
    if before.get("qosClass") and reported.get("qosClass") != before["qosClass"]:
        causes.invalid("status.qosClass", reported.get("qosClass"), "field is immutable")
    if reported.get("podIP") and reported.get("podIPs") in (None, before.get("podIPs")):
        names.address(causes, "status.podIPs[0]", str(reported["podIP"]))
    for field in ("podIPs", "hostIPs"):
        addresses = [str(pair.get("ip") or "") for pair in reported.get(field) or []]
        for index, text in enumerate(addresses):
            names.address(causes, f"status.{field}[{index}]", text)
        if len(addresses) > 2:
            causes.invalid(f"status.{field}", addresses, "may specify no more than one IP for each IP family")
        elif len(set(addresses)) < len(addresses):
            causes.duplicate(f"status.{field}[1]", addresses[1])
    _restarts(causes, reported, before, stored)


def _restarts(causes: Causes, reported: Json, before: Json, stored: Json) -> None:
    """A container that ended in a pod that restarts nothing stays ended."""
    policy = stored["spec"].get("restartPolicy")
    if policy == "Always":
        return
    states = {s.get("name"): (s.get("state") or {}) for s in reported.get("containerStatuses") or []}
    for index, container in enumerate(before.get("containerStatuses") or []):
        ended = (container.get("state") or {}).get("terminated")
        if not ended or (policy == "OnFailure" and ended.get("exitCode")):
            continue
        state = states.get(container.get("name"))
        if state is not None and not state.get("terminated"):
            path = f"status.containerStatuses[{index}].state"
            causes.forbidden(path, "may not be transitioned to non-terminated state")


def _holds(reported: Json, name: str) -> bool:
    """Whether a condition is true."""
    return any(c.get("type") == name and c.get("status") == "True" for c in reported.get("conditions") or [])


def _job(causes: Causes, changed: Json, stored: Json) -> None:  # noqa: PLR0912  (a list of rules)
    """Judge what a controller says of a Job: an end has its reason and its times, and stays."""
    reported, before, spec = changed.get("status") or {}, stored.get("status") or {}, changed["spec"]
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        causes.natural(f"status.{field}", reported.get(field))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", *(() if elastic else ("succeeded",))):
        if (reported.get(field) or 0) < (before.get(field) or 0):
            causes.invalid(f"status.{field}", reported.get(field) or 0, f"cannot decrease the {field} counter")
    for name in _ENDS:
        if _holds(before, name) and not _holds(reported, name):
            causes.invalid("status.conditions", None, f"cannot disable the {name}=True condition")
    for pair in _CONTRADICTIONS:
        if all(_holds(reported, name) for name in pair):
            causes.invalid("status.conditions", None, f"cannot set {pair[0]}=True and {pair[1]}=true conditions")
    complete, failed = _holds(reported, "Complete"), _holds(reported, "Failed")
    if (complete, failed) != (_holds(before, "Complete"), _holds(before, "Failed")):
        _job_end(causes, reported, spec, complete=complete, failed=failed)
    if reported.get("completionTime") != before.get("completionTime"):
        if reported.get("completionTime") and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            causes.invalid("status.completionTime", reported["completionTime"], why)
        if before.get("completionTime") and reported.get("completionTime"):
            causes.invalid("status.completionTime", reported["completionTime"], "field is immutable")
    moved = before.get("startTime") and reported.get("startTime") != before["startTime"]
    if moved and not spec.get("suspend") and not _holds(before, "Suspended"):
        causes.invalid("status.startTime", reported.get("startTime"), "field is immutable for unsuspended job once set")
    if (reported.get("ready") or 0) > (reported.get("active") or 0) and reported != before:
        causes.invalid("status.ready", reported.get("ready") or 0, "cannot set more ready pods than active")
    if reported.get("completedIndexes") and spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.invalid("status.completedIndexes", reported["completedIndexes"], why)
    if reported.get("failedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.invalid("status.failedIndexes", reported["failedIndexes"], why)


def _job_end(causes: Causes, reported: Json, spec: Json, *, complete: bool, failed: bool) -> None:
    """Judge the end of a Job that was not over."""
    if failed and not _holds(reported, "FailureTarget"):
        causes.invalid(
            "status.conditions", None, "cannot set Failed=True condition without the FailureTarget=true condition"
        )
    if complete and not _holds(reported, "SuccessCriteriaMet"):
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        causes.invalid("status.conditions", None, why)
    if complete and not reported.get("completionTime"):
        causes.required("status.completionTime", "completionTime is required for Complete jobs")
    idle = spec.get("suspend") and spec.get("completions") == 0
    if (complete or failed) and not reported.get("startTime") and not idle:
        causes.required("status.startTime", "startTime is required for finished job")
    for field in ("active", "terminating"):
        if (complete or failed) and (reported.get(field) or 0) > 0:
            causes.invalid(f"status.{field}", reported[field], f"{field}>0 is invalid for finished job")
    uncounted = reported.get("uncountedTerminatedPods") or {}
    if (complete or failed) and (uncounted.get("succeeded") or uncounted.get("failed")):
        causes.invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")


def _claim(causes: Causes, changed: Json, _old: Json) -> None:
    for name, amount in ((changed.get("status") or {}).get("capacity") or {}).items():
        causes.quantity(f"status.capacity[{name}]", amount)


def _namespace(causes: Causes, changed: Json, _old: Json) -> None:
    ends, phase = bool(changed["metadata"].get("deletionTimestamp")), (changed.get("status") or {}).get("phase")
    if not ends and phase not in ("Active", None):
        causes.invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
    elif ends and phase == "Active":
        causes.invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")


def _quota(causes: Causes, changed: Json, _old: Json) -> None:
    for field in ("hard", "used"):
        for name, amount in ((changed.get("status") or {}).get(field) or {}).items():
            names.key(causes, f"status.{field}[{name}]", name)
            causes.quantity(f"status.{field}[{name}]", amount)


_BY_KIND: dict[str, Callable[[Causes, Json, Json], None]] = {
    "Deployment": _deployment,
    "Ingress": _ingress,
    "Job": _job,
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "Pod": _pod,
    "PodDisruptionBudget": _conditions,
    "ResourceQuota": _quota,
    "Service": _service,
}

"""What a pod names must exist: its service account, its priority class, its runtime class.

Source: plugin/pkg/admission/{serviceaccount,priority,runtimeclass} of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperpod_ray_sandbox.kubernetes.validation.policy import SYSTEM_PRIORITIES

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


def fill(api: Objects, pod: Json) -> str:
    """Give a pod its account and priority; why it is refused, or nothing."""
    spec, namespace = pod["spec"], pod["metadata"].get("namespace", "")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if api.store.get(("/serviceaccounts", namespace, account)) is None:
        return f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
    runtime = spec.get("runtimeClassName")
    if runtime and api.store.get(("node.k8s.io/runtimeclasses", "", runtime)) is None:
        return f'pod rejected: RuntimeClass "{runtime}" not found'
    return _priority(api, spec)


def _priority(api: Objects, spec: Json) -> str:
    name = spec.get("priorityClassName") or ""
    value, preemption = 0, "PreemptLowerPriority"
    if name:
        priority_class = api.store.get(("scheduling.k8s.io/priorityclasses", "", name))
        if priority_class is None and name not in SYSTEM_PRIORITIES:
            return f"no PriorityClass with name {name} was found"
        value = int(priority_class["value"]) if priority_class else SYSTEM_PRIORITIES[name]
        preemption = (priority_class or {}).get("preemptionPolicy") or preemption
    else:
        for priority_class in api.store.objects("scheduling.k8s.io/priorityclasses"):
            if priority_class.get("globalDefault"):
                spec["priorityClassName"] = priority_class["metadata"]["name"]
                value, preemption = int(priority_class["value"]), priority_class.get("preemptionPolicy") or preemption
    if spec.get("priority") not in (None, value):
        return (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name"
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", preemption)
    return ""


def second_default(api: Objects, obj: Json) -> str:
    """Why a PriorityClass cannot be the default, or nothing."""
    if not obj.get("globalDefault"):
        return ""
    for rival in api.store.objects("scheduling.k8s.io/priorityclasses"):
        if rival.get("globalDefault") and rival["metadata"]["name"] != obj["metadata"]["name"]:
            return f"PriorityClass {rival['metadata']['name']} is already marked as default. Only one default can exist"
    return ""

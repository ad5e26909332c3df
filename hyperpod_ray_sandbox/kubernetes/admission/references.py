"""What a pod names must exist: its service account, its priority class, its runtime class.

Source: plugin/pkg/admission/{serviceaccount,priority,runtimeclass} of Kubernetes.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.validation.policy import SYSTEM_PRIORITIES

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

ROOT_CERTIFICATES = "kube-root-ca.crt"
_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105


def fill(api: Objects, pod: Json) -> str:
    """Give a pod its account and priority; why it is refused, or nothing."""
    spec, namespace = pod["spec"], pod["metadata"].get("namespace", "")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    stored = api.store.get(("/serviceaccounts", namespace, account))
    if stored is None:
        return f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
    if stored.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = copy(stored["imagePullSecrets"])
    if spec.get("automountServiceAccountToken", stored.get("automountServiceAccountToken", True)):
        _mount_token(spec)
    tolerate(spec)
    runtime = spec.get("runtimeClassName")
    if runtime and api.store.get(("node.k8s.io/runtimeclasses", "", runtime)) is None:
        return f'pod rejected: RuntimeClass "{runtime}" not found'
    if spec.get("overhead") and not runtime:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    return _priority(api, spec)


def _mount_token(spec: Json) -> None:
    """Give each container the token of the pod's account, where it has nothing else at its place."""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    bare = [c for c in containers if all(m.get("mountPath") != _TOKEN_FOLDER for m in c.get("volumeMounts") or [])]
    if not bare:
        return
    name = "kube-api-access-" + "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": ROOT_CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]
            }
        },
    ]
    spec.setdefault("volumes", []).append({"name": name, "projected": {"sources": sources, "defaultMode": 0o644}})
    for container in bare:
        mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_FOLDER}
        container.setdefault("volumeMounts", []).append(mount)


def tolerate(spec: Json) -> None:
    """Let a pod stay five minutes on a node that went silent, where it says nothing else."""
    tolerations = spec.get("tolerations") or []
    for key in (names.NOT_READY, names.UNREACHABLE):
        if any(t.get("key", "") in ("", key) and t.get("effect", "") in ("", "NoExecute") for t in tolerations):
            continue
        added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        tolerations = [*tolerations, added]
    if tolerations:
        spec["tolerations"] = tolerations


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
    if spec.get("preemptionPolicy") not in (None, preemption):
        return (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {preemption} from the given PriorityClass name"
        )
    spec["priority"], spec["preemptionPolicy"] = value, preemption
    return ""


def second_default(api: Objects, obj: Json) -> str:
    """Why a PriorityClass cannot be the default, or nothing."""
    if not obj.get("globalDefault"):
        return ""
    for rival in api.store.objects("scheduling.k8s.io/priorityclasses"):
        if rival.get("globalDefault") and rival["metadata"]["name"] != obj["metadata"]["name"]:
            return f"PriorityClass {rival['metadata']['name']} is already marked as default. Only one default can exist"
    return ""

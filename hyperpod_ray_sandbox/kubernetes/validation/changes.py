"""What cannot change once it is set.

Source: the Validate…Update functions of pkg/apis/*/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.amounts import quality
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.validation import cluster
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.storage import PV_FIELDS, claim_change

Json = dict[str, Any]

IMMUTABLE = "field is immutable"
# kind -> fields that must stay as they are
_FIXED: dict[str, tuple[str, ...]] = {
    "StorageClass": ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    "Deployment": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "ReplicaSet": ("spec.selector",),
    "Job": (
        "spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.managedBy", "spec.successPolicy",
        "spec.backoffLimitPerIndex",
    ),
    "ControllerRevision": ("data",),
    "EndpointSlice": ("addressType",),
    "RuntimeClass": ("handler",),
    "VolumeAttachment": ("spec",),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "CustomResourceDefinition": ("spec.group", "spec.names.kind", "spec.names.plural", "spec.scope"),
    "PriorityClass": ("value", "preemptionPolicy"),
    "CSIDriver": ("spec.attachRequired",),
    "IngressClass": ("spec.controller",),
    "ResourceQuota": ("spec.scopes", "spec.scopeSelector"),
}  # fmt: skip
_STATEFUL = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
# what the template of a suspended Job may change: where its pods go, how big they are, and what marks them
_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")
_POD_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def change(  # noqa: PLR0912
    new: Json, old: Json, *, expandable: Callable[[str], bool], internal: bool
) -> Causes:
    """Judge a change of a built-in object; `internal` for the scheduler, who binds pods to nodes."""
    causes, kind = Causes(), new["kind"]
    for path in _FIXED.get(kind, ()):
        if _at(new, path) != _at(old, path):
            causes.invalid(path, _at(new, path), IMMUTABLE)
    if kind == "Job":
        _job(causes, new, old)
    elif kind == "StatefulSet":
        before, after = ({k: v for k, v in o["spec"].items() if k not in _STATEFUL} for o in (old, new))
        if before != after:
            fields = ", ".join(f"'{field}'" for field in _STATEFUL[:-1])
            why = f"updates to statefulset spec for fields other than {fields} and '{_STATEFUL[-1]}' are forbidden"
            causes.forbidden("spec", why)
    elif kind == "Node":
        cluster.node_change(causes, new, old)
    elif kind == "Pod":
        _pod(causes, new, old, internal=internal)
    elif kind == "PersistentVolumeClaim":
        causes += claim_change(new, old, expandable)
    elif kind == "PersistentVolume":
        sources = [{k: v for k, v in o["spec"].items() if k not in PV_FIELDS} for o in (old, new)]
        if sources[0] != sources[1]:
            causes.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
        affinity = old["spec"].get("nodeAffinity")
        if affinity and affinity != new["spec"].get("nodeAffinity"):
            why = f"{IMMUTABLE}, except for updating from beta label to GA"
            causes.invalid("nodeAffinity", _internal(new["spec"].get("nodeAffinity")), why)
        if old["spec"].get("volumeMode") != new["spec"].get("volumeMode"):
            causes.invalid("volumeMode", new["spec"].get("volumeMode"), IMMUTABLE)
    elif kind in ("ConfigMap", "Secret") and old.get("immutable"):
        if any(new.get(f) != old.get(f) for f in ("data", "binaryData", "immutable")):
            causes.forbidden("data", "field is immutable when `immutable` is set")
    elif kind == "Service":
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and before != after and new["spec"].get("type") != "ExternalName":
            causes.invalid("spec.clusterIPs[0]", after, IMMUTABLE)
        types = {o["spec"].get("type") for o in (old, new)}
        if types == {"LoadBalancer"} and _at(new, "spec.loadBalancerClass") != _at(old, "spec.loadBalancerClass"):
            causes.invalid("spec.loadBalancerClass", _at(new, "spec.loadBalancerClass"), "may not change once set")
    elif kind == "Secret" and new.get("type") != old.get("type"):
        causes.invalid("type", new.get("type"), IMMUTABLE)
    return causes


def _internal(value: Any) -> Any:
    """A value with its fields named as in Go, as the API server shows what it holds."""
    if isinstance(value, dict):
        shown = {k[:1].upper() + k[1:]: _internal(v) for k, v in value.items()}
        return {**shown, "MatchFields": shown.get("MatchFields")} if "MatchExpressions" in shown else shown
    return [_internal(element) for element in value] if isinstance(value, list) else value


def _job(causes: Causes, new: Json, old: Json) -> None:
    """Judge a change of a Job: its template may go elsewhere while it is suspended."""
    before, after = copy(old["spec"]["template"]), copy(new["spec"]["template"])
    status = old.get("status") or {}
    waits = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in status.get("conditions") or [])
    if old["spec"].get("suspend") and (waits or not status.get("startTime")) and not status.get("active"):
        for template in (before, after):
            meta = template.setdefault("metadata", {})
            for field in ("labels", "annotations"):
                meta.pop(field, None)
            spec = template["spec"]
            for field in _SUSPENDED:
                spec.pop(field, None)
            affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
            spec.pop("affinity", None)
            if affinity:
                spec["affinity"] = affinity
            for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
                container.pop("resources", None)
    if before != after:
        causes.invalid("spec.template", new["spec"]["template"], IMMUTABLE)
    counts = old["spec"].get("completions"), new["spec"].get("completions")
    if counts[0] != counts[1]:
        elastic = new["spec"].get("completionMode") == "Indexed" and counts[1] == new["spec"].get("parallelism")
        if not elastic:
            causes.invalid("spec.completions", counts[1], IMMUTABLE)


def _pod(causes: Causes, new: Json, old: Json, *, internal: bool) -> None:
    before, after = copy(old["spec"]), copy(new["spec"])
    gates = {gate.get("name") for gate in before.get("schedulingGates") or []}
    for index, gate in enumerate(after.get("schedulingGates") or []):
        if gate.get("name") not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            causes.forbidden(f"spec.schedulingGates[{index}].name", why)
    if gates and before.get("nodeName") is None:
        _gated(causes, before, after)
    kept = [_untimed(toleration) for toleration in before.get("tolerations") or []]
    if any(t not in [_untimed(toleration) for toleration in after.get("tolerations") or []] for t in kept):
        causes.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    deadlines = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if deadlines[0] is not None and (deadlines[1] is None or deadlines[1] > deadlines[0]):
        causes.invalid("spec.activeDeadlineSeconds", deadlines[1], "must be less than or equal to previous value")
    for spec in (before, after):
        for field in ("tolerations", "activeDeadlineSeconds", "schedulingGates"):
            spec.pop(field, None)
        if internal:
            spec.pop("nodeName", None)
        for field in ("containers", "initContainers"):
            for container in spec.get(field) or []:
                container.pop("image", None)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        after["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before != after:
        causes.forbidden("spec", _POD_RULE)


def resize(new: Json, old: Json) -> Causes:
    """Judge a change of a pod's size: cpu and memory of containers that run, and none is taken away.

    Source: ValidatePodResize of pkg/apis/core/validation.
    """
    causes = Causes()
    if quality(old["spec"]) != quality(new["spec"]):
        causes.invalid("spec", quality(old["spec"]), "Pod QOS Class may not change as a result of resizing")
    for field in ("initContainers", "containers"):
        before, after = old["spec"].get(field) or [], new["spec"].get(field) or []
        for index, (was, becomes) in enumerate(zip(before, after, strict=True)):
            if field == "containers" or was.get("restartPolicy") == "Always":
                _sizes(causes, f"spec.{field}[{index}].resources", was.get("resources"), becomes.get("resources"))
            elif was.get("resources") != becomes.get("resources"):
                causes.forbidden("spec", "resources for non-sidecar init containers are immutable")
    return causes


def debuggers(pod: Json, stored: Json) -> Causes:
    """Judge a change of a pod's ephemeral containers: they are added, and stay as they are.

    Source: ValidatePodEphemeralContainersUpdate of pkg/apis/core/validation.
    """
    causes = Causes()
    path, field = "spec.ephemeralContainers", "ephemeralContainers"
    after = {container["name"]: container for container in pod["spec"].get(field) or []}
    for container in stored["spec"].get(field) or []:
        name = container["name"]
        if after.get(name) != container:
            verb = "changed" if name in after else "removed"
            causes.forbidden(path, f'existing ephemeral containers "{name}" may not be {verb}\n')
    return causes


def _sizes(causes: Causes, path: str, before: Json | None, after: Json | None) -> None:
    for field in ("requests", "limits"):
        amounts = ((before or {}).get(field) or {}), ((after or {}).get(field) or {})
        if set(amounts[0]) - set(amounts[1]):
            causes.forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
        fixed = [{k: v for k, v in side.items() if k not in ("cpu", "memory")} for side in amounts]
        if fixed[0] != fixed[1]:
            causes.forbidden("spec", "only cpu and memory resources are mutable")


def _untimed(toleration: Json) -> Json:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gated(causes: Causes, before: Json, after: Json) -> None:
    """Let the node selection of a gated pod get narrower, and judge that it does."""
    selectors = before.pop("nodeSelector", None) or {}, after.pop("nodeSelector", None) or {}
    if any(selectors[1].get(key) != value for key, value in selectors[0].items()):
        causes.invalid("spec.nodeSelector", selectors[1], "only additions are allowed (no mutations or deletions)")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinities = [(spec.get("affinity") or {}).get("nodeAffinity") or {} for spec in (before, after)]
    terms = [(affinity.get(required) or {}).get("nodeSelectorTerms") or [] for affinity in affinities]
    path = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
    if terms[0] and len(terms[0]) != len(terms[1]):
        causes.invalid(path, terms[1], "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
    elif terms[0]:
        for index, (was, becomes) in enumerate(zip(*terms, strict=True)):
            for field in ("matchExpressions", "matchFields"):
                if any(rule not in (becomes.get(field) or []) for rule in was.get(field) or []):
                    why = "only additions are allowed (no mutations or deletions)"
                    causes.invalid(f"{path}[{index}].{field}", becomes.get(field), why)
    for spec in (before, after):
        affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
        spec.pop("affinity", None)
        if affinity:
            spec["affinity"] = affinity

"""What a change of the node guard does: training never uses its pods, and recovery may."""

from __future__ import annotations

from itertools import product

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.facts import facts, source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject

_LIMITS = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
_RIGHTS = {"Role": "rules", "ClusterRole": "rules", "RoleBinding": "subjects", "ClusterRoleBinding": "subjects"}


def concerns(k8s_object: KubernetesObject) -> bool:
    """Whether an object is the guard's: in its namespace, or cluster-wide under its name."""
    return names.GUARD in (k8s_object.id.namespace, k8s_object.id.name)


def find(before: KubernetesObject | None, after: KubernetesObject | None, findings: Findings, *, runs: bool) -> None:
    """Rows for one of its objects that comes, goes or changes; `runs` when its pods are there afterwards."""
    k8s_object = after or before
    assert k8s_object is not None  # noqa: S101  (one of the two is there)
    if k8s_object.id.kind != "Deployment":
        findings.add(_part(before, after, k8s_object, less=_less(before, after) if runs else ""))
    elif before is None or after is None:
        _switched(k8s_object, findings, on=after is not None)
    else:
        copies_before, copies_after = _copies(before), _copies(after)
        if copies_after < copies_before:
            findings.add(
                Row(
                    code="node-guard-fewer",
                    what=str(after.id),
                    change=f"{copies_before} → {copies_after} pods",
                    consequence="After the deploy, nobody replaces the pods of a silent node until you run "
                    "'nodes free'."
                    if copies_after == 0
                    else "After the deploy, a fault of its own node stops the guard until its pod is elsewhere.",
                    where=after.where,
                    **severity.of_class("guard-less"),
                )
            )
        _slower(before, after, findings)
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="node-guard-changed",
                what=str(k8s_object.id),
                change="the program, its settings or its image",
                consequence="Its pods are replaced one at a time, and the other one stays. Training does not use them.",
                where=k8s_object.where,
            )
        )


def _slower(before: KubernetesObject, after: KubernetesObject, findings: Findings) -> None:
    patience_before, patience_after = _patience(before), _patience(after)
    if patience_before is None or patience_after is None or patience_after <= patience_before:
        return
    change = f"asks about a silent node after {patience_before} → {patience_after} s"
    findings.add(
        Row(
            code="node-guard-slower",
            what=str(after.id),
            change=change,
            consequence="After the deploy, the loss of a node stops training for that much longer.",
            where=after.where,
            **(severity.of_class("outage-longer") | {"source": source("node-recovery")}),
        )
    )
    findings.remark(Remark(direction="switched off", what="speed of the node guard", detail=change))


def _patience(k8s_object: KubernetesObject) -> int | None:
    """Seconds of its argument `--not-ready-seconds`; None where it has none."""
    pod = ((k8s_object.data.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or []:
        for argument in container.get("args") or []:
            name, _, value = str(argument).partition("=")
            if name == "--not-ready-seconds" and value.isdigit():
                return int(value)
    return None


def _switched(k8s_object: KubernetesObject, findings: Findings, *, on: bool) -> None:
    findings.add(
        Row(
            effect=Effect.SAFE if on else Effect.WEAKENS,
            code="node-guard-on" if on else "node-guard-off",
            what=str(k8s_object.id),
            change="new" if on else "left the manifests",
            consequence="After the deploy, the pods of a silent node are replaced where HyperPod calls its instance "
            "gone or failed."
            if on
            else "Nothing happens now. After the deploy, the pods of a silent node whose object stays are not "
            "replaced until you run 'nodes free'.",
            where=k8s_object.where,
        )
    )
    findings.remark(
        Remark(
            direction="switched on" if on else "switched off",
            what="node guard",
            detail=f"{k8s_object.id} {'is new' if on else 'left the manifests'}",
        )
    )


def _copies(k8s_object: KubernetesObject) -> int:
    """Its pods. Kubernetes' default is one."""
    replicas = (k8s_object.data.get("spec") or {}).get("replicas")
    return replicas if isinstance(replicas, int) else 1


def _less(before: KubernetesObject | None, after: KubernetesObject | None) -> str:
    """What a part that goes or changes takes from the guard, or lets it do; empty where it takes nothing."""
    if before is None:
        return ""
    if after is None:
        pruned = before.id.kind in facts()["kubernetes"]["pruned"]
        return "The guard's pods run without it, and may not replace those of a silent node." if pruned else ""
    if before.id.kind in _LIMITS and before.data.get("spec") != after.data.get("spec"):
        return "It limits what the guard may change in the cluster: read both."
    held = _RIGHTS.get(before.id.kind, "")
    if held and (_flat(before.data.get(held)) - _flat(after.data.get(held))):
        return "The guard loses a right, and may not replace the pods of a silent node."
    return ""


def _flat(entries: object) -> set[tuple[str, ...]]:
    """Rules or subjects, each as the single things that it names."""
    flat: set[tuple[str, ...]] = set()
    for entry in entries if isinstance(entries, list) else []:
        keys = sorted(key for key, value in entry.items() if value)
        choices = [entry[key] if isinstance(entry[key], list) else [entry[key]] for key in keys]
        flat |= {tuple(f"{key}={value}" for key, value in zip(keys, way, strict=True)) for way in product(*choices)}
    return flat


def _part(
    before: KubernetesObject | None, after: KubernetesObject | None, k8s_object: KubernetesObject, *, less: str
) -> Row:
    change = "new" if before is None else "left the manifests" if after is None else "changed"
    weaker = severity.of_class("guard-less") if less else {"effect": Effect.SAFE}
    return Row(
        code="node-guard-part",
        what=str(k8s_object.id),
        change=change,
        consequence=less or "A part of the node guard, which training does not use.",
        where=k8s_object.where,
        **weaker,
    )

"""What a change of the node guard does: training never uses its pods, and recovery may."""

from __future__ import annotations

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject


def concerns(k8s_object: KubernetesObject) -> bool:
    """Whether an object is the guard's: in its namespace, or cluster-wide under its name."""
    return names.GUARD in (k8s_object.id.namespace, k8s_object.id.name)


def find(before: KubernetesObject | None, after: KubernetesObject | None, findings: Findings) -> None:
    """Rows for one of its objects that comes, goes or changes."""
    k8s_object = after or before
    assert k8s_object is not None  # noqa: S101  (one of the two is there)
    if k8s_object.id.kind != "Deployment":
        findings.add(_part(before, after, k8s_object))
    elif before is None or after is None:
        _switched(k8s_object, findings, on=after is not None)
    else:
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


def _part(before: KubernetesObject | None, after: KubernetesObject | None, k8s_object: KubernetesObject) -> Row:
    change = "new" if before is None else "left the manifests" if after is None else "changed"
    return Row(
        effect=Effect.SAFE,
        code="node-guard-part",
        what=str(k8s_object.id),
        change=change,
        consequence="A part of the node guard, which training does not use.",
        where=k8s_object.where,
    )

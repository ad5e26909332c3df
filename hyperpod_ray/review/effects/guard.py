"""What a change of the node guard does: training never uses its pods, and recovery may."""

from __future__ import annotations

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject


def concerns(item: KubernetesObject) -> bool:
    """Whether an object is the guard's: in its namespace, or cluster-wide under its name."""
    return names.GUARD in (item.id.namespace, item.id.name)


def find(before: KubernetesObject | None, now: KubernetesObject | None, findings: Findings) -> None:
    """Rows for one of its objects that comes, goes or changes."""
    item = now or before
    assert item is not None  # noqa: S101  (one of the two is there)
    if item.id.kind != "Deployment":
        findings.add(_part(before, now, item))
    elif before is None or now is None:
        _switched(item, findings, on=now is not None)
    else:
        _slower(before, now, findings)
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="node-guard-changed",
                what=str(item.id),
                change="the program, its settings or its image",
                consequence="Its pods are replaced one at a time, and the other one stays. Training does not use them.",
                where=item.where,
            )
        )


def _slower(before: KubernetesObject, now: KubernetesObject, findings: Findings) -> None:
    old, new = _patience(before), _patience(now)
    if old is None or new is None or new <= old:
        return
    change = f"asks about a silent node after {old} → {new} s"
    findings.add(
        Row(
            code="node-guard-slower",
            what=str(now.id),
            change=change,
            consequence="After the deploy, the loss of a node stops training for that much longer.",
            where=now.where,
            **(severity.of_class("outage-longer") | {"source": source("node-recovery")}),
        )
    )
    findings.remark(Remark(direction="switched off", what="speed of the node guard", detail=change))


def _patience(item: KubernetesObject) -> int | None:
    """Seconds of its argument `--not-ready-seconds`; None where it has none."""
    pod = ((item.data.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or []:
        for argument in container.get("args") or []:
            name, _, value = str(argument).partition("=")
            if name == "--not-ready-seconds" and value.isdigit():
                return int(value)
    return None


def _switched(item: KubernetesObject, findings: Findings, *, on: bool) -> None:
    findings.add(
        Row(
            effect=Effect.SAFE if on else Effect.WEAKENS,
            code="node-guard-on" if on else "node-guard-off",
            what=str(item.id),
            change="new" if on else "left the manifests",
            consequence="After the deploy, the pods of a silent node are replaced where HyperPod calls its instance "
            "gone or failed."
            if on
            else "Nothing happens now. After the deploy, the pods of a silent node whose object stays are not "
            "replaced until you run 'nodes free'.",
            where=item.where,
        )
    )
    findings.remark(
        Remark(
            direction="switched on" if on else "switched off",
            what="node guard",
            detail=f"{item.id} {'is new' if on else 'left the manifests'}",
        )
    )


def _part(before: KubernetesObject | None, now: KubernetesObject | None, item: KubernetesObject) -> Row:
    change = "new" if before is None else "left the manifests" if now is None else "changed"
    return Row(
        effect=Effect.SAFE,
        code="node-guard-part",
        what=str(item.id),
        change=change,
        consequence="A part of the node guard, which training does not use.",
        where=item.where,
    )

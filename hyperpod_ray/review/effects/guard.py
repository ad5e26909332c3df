"""What a change of the node guard does: training never uses its pods, and recovery may."""

from __future__ import annotations

from hyperpod_ray.core import names
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

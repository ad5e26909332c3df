"""The verdict on a snapshot: Healthy, Steps unknown, Recovering or Action required.

A pure function: tests cover every case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from hyperpod_ray.ops.observe.snapshot import CONTROLLERS, HANGS, NODES, SLURM, TRAINING, Snapshot
from hyperpod_ray.ops.verdict import cluster, controllers, nodes, ray, slurm, stacks, storage, training, upkeep
from hyperpod_ray.ops.verdict.finding import Finding, State, Verdict, carries

__all__ = ["Finding", "State", "Verdict", "judge"]


RULES: tuple[tuple[str, Callable[[Snapshot], Iterable[Finding]]], ...] = (
    ("", stacks.unseen),
    ("", stacks.stacks),
    ("", cluster.cluster),
    ("", cluster.groups),
    (CONTROLLERS, controllers.controllers),
    ("", nodes.instances),
    (NODES, nodes.nodes),
    (NODES, nodes.racks),
    (SLURM, slurm.controller),
    (SLURM, slurm.nodes),
    ("", storage.storage),
    ("", storage.free_space),
    ("Kubernetes", ray.ray_clusters),
    ("Kubernetes", ray.pods),
    (TRAINING, ray.idle),
    ("Kubernetes", training.ray_jobs),
    (TRAINING, training.jobs),
    (HANGS, training.hangs),
    ("", upkeep.training_plans),
    ("", upkeep.images),
    ("", upkeep.control_plane),
)
"""What is judged of an environment that has a source; empty: of every one."""


def judge(snapshot: Snapshot) -> Verdict:
    """The verdict on a snapshot."""
    findings: list[Finding] = []
    if (
        snapshot.saw("CloudFormation")
        and snapshot.stacks
        and not any(stack.status for stack in snapshot.stacks)
        and snapshot.cluster is None
    ):
        return Verdict(state="Action required", findings=(stacks.not_deployed(snapshot),))
    for source, rule in RULES:
        if source in ("", *snapshot.sources):
            findings += rule(snapshot)
    findings = [
        replace(reported, recovery="pods") if carries(snapshot, reported.subject) else reported for reported in findings
    ]
    findings = [controllers.without_recovery(snapshot, reported) for reported in findings]
    order = {"action-required": 0, "recovering": 1, "note": 2}
    findings.sort(key=lambda finding: order[finding.kind])
    # what this machine cannot ask is no fault of the cluster, and no sign of its health either
    blind = any(reported.laptop for reported in snapshot.unseen)
    state: State = "Steps unknown" if training.unjudged(snapshot) or blind else "Healthy"
    if any(finding.kind == "recovering" for finding in findings):
        state = "Recovering"
    if any(finding.kind == "action-required" for finding in findings):
        state = "Action required"
    hidden = tuple(reported.source for reported in snapshot.unseen if reported.refused or reported.laptop)
    return Verdict(state=state, findings=tuple(findings), without=hidden)

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
    (SLURM, slurm.controller),
    (SLURM, slurm.nodes),
    ("", storage.storage),
    ("", storage.free_space),
    ("Kubernetes", ray.ray_clusters),
    ("Kubernetes", ray.pods),
    ("Kubernetes", training.ray_jobs),
    (TRAINING, training.jobs),
    (HANGS, training.hangs),
    ("", upkeep.training_plans),
    ("", upkeep.images),
)
"""What is judged of an environment that has a source; empty: of every one."""


def judge(seen: Snapshot) -> Verdict:
    """The verdict on a snapshot."""
    found: list[Finding] = []
    if (
        seen.saw("CloudFormation")
        and seen.stacks
        and not any(stack.status for stack in seen.stacks)
        and seen.cluster is None
    ):
        return Verdict(state="Action required", findings=(stacks.not_deployed(seen),))
    for source, rule in RULES:
        if source in ("", *seen.sources):
            found += rule(seen)
    found = [replace(item, recovery="pods") if carries(seen, item.subject) else item for item in found]
    found = [controllers.without_recovery(seen, item) for item in found]
    order = {"action-required": 0, "recovering": 1, "note": 2}
    found.sort(key=lambda finding: order[finding.kind])
    # what this machine cannot ask is no fault of the cluster, and no sign of its health either
    blind = any(item.laptop for item in seen.unseen)
    state: State = "Steps unknown" if training.unjudged(seen) or blind else "Healthy"
    if any(finding.kind == "recovering" for finding in found):
        state = "Recovering"
    if any(finding.kind == "action-required" for finding in found):
        state = "Action required"
    hidden = tuple(item.source for item in seen.unseen if item.refused or item.laptop)
    return Verdict(state=state, findings=tuple(found), without=hidden)

"""The verdict on a snapshot: Healthy, Recovering or Action required. A pure function: tests cover every case."""

from __future__ import annotations

from ops.snapshot import Snapshot
from ops.verdict import cluster, nodes, ray, stacks, storage
from ops.verdict.finding import Finding, State, Verdict

__all__ = ["Finding", "State", "Verdict", "judge"]


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
    rules = (
        stacks.unseen,
        stacks.stacks,
        cluster.cluster,
        cluster.groups,
        nodes.instances,
        nodes.nodes,
        storage.storage,
        ray.ray_clusters,
        ray.pods,
    )
    for rule in rules:
        found += rule(seen)
    order = {"action-required": 0, "recovering": 1, "note": 2}
    found.sort(key=lambda finding: order[finding.kind])
    state: State = "Healthy"
    if any(finding.kind == "recovering" for finding in found):
        state = "Recovering"
    if any(finding.kind == "action-required" for finding in found):
        state = "Action required"
    return Verdict(state=state, findings=tuple(found))

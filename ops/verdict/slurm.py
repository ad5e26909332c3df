"""Findings about what the Slurm controller says."""

from __future__ import annotations

from collections.abc import Iterator

from ops import durations
from ops.snapshot import SlurmNode, Snapshot
from ops.verdict.finding import Finding, command

RECOVERING = ("Action:Replace", "Action:Reboot")
"""Beginnings of a node's reason by which HyperPod repairs it."""


def controller(seen: Snapshot) -> Iterator[Finding]:
    """A controller that did not answer: jobs that run keep running, and none starts."""
    for item in seen.unseen:
        if item.source == "Slurm":
            yield Finding(
                kind="note",
                what="Slurm was not asked: nodes and jobs are HyperPod's view alone",
                why=item.why,
                next=item.next,
            )


def nodes(seen: Snapshot) -> Iterator[Finding]:
    """Nodes on which no job can run."""
    for node in seen.slurm.nodes if seen.slurm else ():
        if node.lost:
            yield _lost(seen, node)
        elif node.silent:
            yield Finding(
                kind="recovering",
                what=f"node {node.name} does not answer the Slurm controller ({node.state})",
                why="after SlurmdTimeout it counts as down, and its jobs are requeued or resumed",
                next=command(seen, "status"),
                subject=node.name,
            )
        elif node.drained:
            yield Finding(
                kind="note",
                what=f"node {node.name} is {node.state}: it takes no new job",
                why=node.reason,
                next=f"scontrol update node={node.name} state=resume",
                subject=node.name,
            )


def _lost(seen: Snapshot, node: SlurmNode) -> Finding:
    what = f"node {node.name} is {node.state} in Slurm"
    if node.reason.startswith(RECOVERING):
        usual = durations.REPLACEMENT if "Replace" in node.reason else durations.REBOOT
        return Finding(
            kind="recovering",
            what=f"{what}: HyperPod was asked to repair it, usually {usual}",
            why=node.reason,
            next=command(seen, "nodes"),
            subject=node.name,
        )
    return Finding(
        kind="action-required",
        what=what,
        why=node.reason,
        next=f'scontrol update node={node.name} state=down reason="Action:Replace", which ends the jobs on it',
        subject=node.name,
    )

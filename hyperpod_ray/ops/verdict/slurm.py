"""Findings about what the Slurm controller says."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.ops.observe.snapshot import REPLACE, SlurmNode, Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import Finding, command, nodes_command

REBOOTED = "Node unexpectedly rebooted"
"""slurmctld's reason for a node that came back with another boot time: it takes no job until somebody says so."""


def controller(snapshot: Snapshot) -> Iterator[Finding]:
    """A controller that did not answer: jobs that run keep running, and none starts."""
    for missing in snapshot.unseen:
        if missing.source == "Slurm":
            yield Finding(
                kind="note",
                what="Slurm was not asked: nodes and jobs are HyperPod's view alone",
                why=missing.why,
                next=missing.next,
            )


def nodes(snapshot: Snapshot) -> Iterator[Finding]:
    """Nodes on which no job can run."""
    for node in snapshot.slurm.nodes if snapshot.slurm else ():
        if node.lost:
            yield _lost(snapshot, node)
        elif node.silent:
            yield Finding(
                kind="recovering",
                what=f"node {node.name} does not answer the Slurm controller ({node.state})",
                why="after SlurmdTimeout it counts as down, and its jobs are requeued or resumed",
                next=command(snapshot, "status"),
                subject=node.name,
            )
        elif node.reserved:
            yield Finding(
                kind="note",
                what=f"node {node.name} is {node.state}: a reservation keeps other jobs off it",
                why="HyperPod reserves nodes while it makes deep health checks",
                next="on the controller: scontrol show reservation",
                subject=node.name,
            )
        elif node.drained:
            yield Finding(
                kind="note",
                what=f"node {node.name} is {node.state}: it takes no new job",
                why=node.reason,
                next=f"on the controller, when the cause is gone: {resume(node)}",
                subject=node.name,
            )


def resume(node: SlurmNode) -> str:
    """The command that lets a node take jobs again."""
    return f"sudo scontrol update nodename={node.name} state=resume"


def _lost(snapshot: Snapshot, node: SlurmNode) -> Finding:
    summary = f"node {node.name} is {node.state} in Slurm"
    if node.repaired:
        usual = durations.REPLACEMENT if node.reason.startswith(REPLACE) else durations.REBOOT
        jobs = ", ".join(job.id for job in (snapshot.slurm.on(node.name) if snapshot.slurm else ()))
        after_jobs = f" after its jobs end ({jobs})" if jobs else ""
        return Finding(
            kind="recovering",
            what=f"{summary}: HyperPod was asked to repair it{after_jobs}, usually {usual}",
            why=node.reason,
            next=command(snapshot, "nodes"),
            subject=node.name,
        )
    if node.reason.startswith(REBOOTED):
        return Finding(
            kind="action-required",
            what=f"{summary}: it restarted, and Slurm waits for your word",
            why=node.reason,
            next=f"on the controller, when the node is well: {resume(node)}",
            subject=node.name,
        )
    return Finding(
        kind="action-required",
        what=summary,
        why=node.reason,
        next=nodes_command(snapshot, "replace", f"{node.name} --when now") + ", which ends the jobs on it",
        subject=node.name,
    )

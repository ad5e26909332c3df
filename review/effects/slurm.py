"""What a change does to the jobs of a cluster that Slurm orchestrates."""

from __future__ import annotations

from typing import Any

from review.changes import Changes, Kind, ResourceChange
from review.effects.groups import Group, groups, instance_type
from review.facts import source
from review.findings import Effect, Findings, Row

DATABASE = ("Orchestrator", "Slurm", "AccountingDatabase")
STRATEGY = ("Orchestrator", "Slurm", "SlurmConfigStrategy")


def find(changes: Changes, findings: Findings) -> None:
    """Rows for the controller, for partitions and roles, and for what the whole cluster is configured with."""
    for change in changes.of_type("AWS::SageMaker::Cluster"):
        if change.kind is Kind.CHANGED and _by_slurm(change.base) and _by_slurm(change.head):
            _cluster(change, findings)
            _controller(change, findings)
            _parts(change, findings)


def _by_slurm(resource: dict[str, Any] | None) -> bool:
    return "Slurm" in ((resource or {}).get("Properties", {}).get("Orchestrator") or {})


def _part(group: Group) -> str:
    return str((group.get("SlurmConfig") or {}).get("NodeType", ""))


def _partition(group: Group) -> str:
    return ", ".join((group.get("SlurmConfig") or {}).get("PartitionNames") or []) or "none"


def _cluster(change: ResourceChange, findings: Findings) -> None:
    what = f"HyperPod cluster {change.now('ClusterName')}"
    if change.differs(*STRATEGY):
        overwrites = change.now(*STRATEGY) == "Overwrite"
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if overwrites else Effect.SAFE,
                code="slurm-config-strategy",
                what=what,
                change=f"SlurmConfigStrategy {change.before(*STRATEGY)} → {change.now(*STRATEGY)}",
                consequence="HyperPod writes the partitions of slurm.conf from the file: partitions that were "
                "added by hand go, and jobs that wait in them never start."
                if overwrites
                else "In place; nodes and jobs are not touched.",
                unavailable="partitions that were added by hand" if overwrites else "",
                source=source("slurm-strategy"),
                where=change.title,
            )
        )
    if change.differs(*DATABASE):
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="slurm-accounting",
                what=what,
                change=f"AccountingDatabase {_host(change.before(*DATABASE))} → {_host(change.now(*DATABASE))}",
                consequence="Slurm reads and writes another database: job history, users and limits of the old one "
                "are not there. What becomes of jobs during the change is not documented: expect that none starts.",
                unavailable="job history and limits of the old database",
                source=source("slurm-strategy"),
                where=change.title,
            )
        )


def _host(database: Any) -> str:
    return str(database.get("Endpoint")) if isinstance(database, dict) else "on the controller"


def _controller(change: ResourceChange, findings: Findings) -> None:
    """The node that holds the queue: its type or name cannot change without another node."""
    old = {name: group for name, group in groups(change.base).items() if _part(group) == "Controller"}
    new = groups(change.head)
    for name, group in old.items():
        now = new.get(name)
        if now is not None and instance_type(now) == instance_type(group):
            continue
        kept = change.before(*DATABASE) is not None
        findings.add(
            Row(
                effect=Effect.LOSES_NODES if kept else Effect.LOSES_DATA,
                code="slurm-controller",
                what=f"group {name}",
                change="removed" if now is None else f"type {instance_type(group)} → {instance_type(now)}",
                consequence="The controller's node is deleted, and with it the queue: jobs that run end, jobs that "
                "wait are gone, and nobody can submit until the new controller runs."
                + ("" if kept else " The accounting database is on that node and goes with it."),
                unavailable="the queue, and every job in it",
                source=source("slurm-configuration"),
                where=change.title,
                lost=() if kept else (("accounting database", 1),),
            )
        )


def _parts(change: ResourceChange, findings: Findings) -> None:
    before, now = groups(change.base), groups(change.head)
    for name in before:
        if name not in now or before[name].get("SlurmConfig") == now[name].get("SlurmConfig"):
            continue
        common: dict[str, Any] = {
            "what": f"group {name}",
            "source": source("slurm-configuration"),
            "where": change.title,
        }
        if _part(before[name]) != _part(now[name]):
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="slurm-role",
                    change=f"NodeType {_part(before[name])} → {_part(now[name])}",
                    consequence="What the service does to the nodes of a group whose part changes is not documented: "
                    "expect that jobs on them end. Add a group with the new part, then remove this one.",
                    unavailable=f"group {name}",
                    **common,
                )
            )
        else:
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="slurm-partition",
                    change=f"partition {_partition(before[name])} → {_partition(now[name])}",
                    consequence="The nodes change their partition. Jobs that wait in the old one have fewer nodes, or "
                    "none, and never start; jobs that run there are not promised to survive.",
                    unavailable=f"partition {_partition(before[name])}, as far as group {name} was it",
                    **common,
                )
            )

"""What a change does to the jobs of a cluster that Slurm orchestrates."""

from __future__ import annotations

from typing import Any

from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Row
from hyperpod_ray.review.instance_groups import Group, groups, instance_type, storage

DATABASE = ("Orchestrator", "Slurm", "AccountingDatabase")
STRATEGY = ("Orchestrator", "Slurm", "SlurmConfigStrategy")


def find(changes: Changes, findings: Findings) -> None:
    """Rows for the controller, partitions and roles, the file system, and the configuration of the whole cluster."""
    for change in changes.of_type("AWS::SageMaker::Cluster"):
        if not _by_slurm(change.base):
            continue
        if change.kind is Kind.REMOVED or (change.kind is Kind.REPLACED and not change.same_name):
            _goes_with_the_cluster(change, findings)
        elif change.kind is Kind.CHANGED:  # of the same orchestrator, which is create-only
            _cluster(change, findings)
            _controller(change, findings)
            _parts(change, findings)
            _partitions(change, findings)
            _file_system(change, findings)


def _by_slurm(resource: dict[str, Any] | None) -> bool:
    return "Slurm" in ((resource or {}).get("Properties", {}).get("Orchestrator") or {})


def _part(group: Group) -> str:
    return str((group.get("SlurmConfig") or {}).get("NodeType", ""))


def _partition(group: Group) -> str:
    return ", ".join((group.get("SlurmConfig") or {}).get("PartitionNames") or []) or "none"


def _cluster(change: ResourceChange, findings: Findings) -> None:
    cluster = f"HyperPod cluster {change.now('ClusterName')}"
    if change.differs(*STRATEGY):
        overwrites = change.now(*STRATEGY) == "Overwrite"
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if overwrites else Effect.SAFE,
                code="slurm-config-strategy",
                what=cluster,
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
                what=cluster,
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
    controllers = {name: group for name, group in groups(change.base).items() if _part(group) == "Controller"}
    groups_after = groups(change.head)
    for name, group in controllers.items():
        successor = groups_after.get(name)
        if successor is None or instance_type(successor) != instance_type(group):
            how = "removed" if successor is None else f"type {instance_type(group)} → {instance_type(successor)}"
            _controller_goes(name, how, change, findings)


def _goes_with_the_cluster(change: ResourceChange, findings: Findings) -> None:
    for name, group in groups(change.base).items():
        if _part(group) == "Controller":
            _controller_goes(name, f"{change.kind.value} with the cluster", change, findings)


def _controller_goes(name: str, how: str, change: ResourceChange, findings: Findings) -> None:
    kept = change.before(*DATABASE) is not None
    findings.add(
        Row(
            effect=Effect.LOSES_NODES if kept else Effect.LOSES_DATA,
            code="slurm-controller",
            what=f"group {name}",
            change=how,
            consequence="The controller's node is deleted, and with it the queue: jobs that run end, jobs that "
            "wait are gone, and nobody can submit until a new controller runs."
            + ("" if kept else " The accounting database is on that node and goes with it."),
            unavailable="the queue, and every job in it",
            source=source("slurm-configuration"),
            where=change.title,
            lost=() if kept else (("accounting database", 1),),
        )
    )


def _parts(change: ResourceChange, findings: Findings) -> None:
    before, after = groups(change.base), groups(change.head)
    for name in before:
        if name not in after or before[name].get("SlurmConfig") == after[name].get("SlurmConfig"):
            continue
        common: dict[str, Any] = {
            "what": f"group {name}",
            "source": source("slurm-configuration"),
            "where": change.title,
        }
        if _part(before[name]) != _part(after[name]):
            findings.add(
                Row(
                    effect=Effect.INTERRUPTS,
                    code="slurm-role",
                    change=f"NodeType {_part(before[name])} → {_part(after[name])}",
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
                    change=f"partition {_partition(before[name])} → {_partition(after[name])}",
                    consequence="The nodes change their partition. Jobs that wait in the old one have fewer nodes, or "
                    "none, and never start; jobs that run there are not promised to survive.",
                    unavailable=f"partition {_partition(before[name])}, as far as group {name} was it",
                    **common,
                )
            )


def _partitions(change: ResourceChange, findings: Findings) -> None:
    """Partitions whose last group is removed; of a group that changes its partition, `_parts` reports it."""
    before, after = groups(change.base), groups(change.head)
    remaining = {_partition(group) for group in after.values()}
    gone = {
        name: _partition(group) for name, group in before.items() if name not in after and _part(group) == "Compute"
    }
    for partition in sorted({*gone.values()} - remaining):
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="slurm-partition-gone",
                what=f"partition {partition}",
                change="its last group is removed",
                consequence="Jobs that wait in the partition never start, and scripts that name it are refused.",
                unavailable=f"partition {partition}",
                source=source("slurm-configuration"),
                where=change.title,
            )
        )


def _file_system(change: ResourceChange, findings: Findings) -> None:
    """What nodes mount: one row for all groups that change in the same way."""
    before, after = groups(change.base), groups(change.head)
    changed: dict[tuple[str, str], list[str]] = {}
    for name in (name for name in before if name in after):
        for config_name in ("FsxLustreConfig", "FsxOpenZfsConfig"):
            mounts = [storage(side[name], config_name) for side in (before, after)]
            if mounts[0] != mounts[1]:
                changed.setdefault((_mounted(mounts[0]), _mounted(mounts[1])), []).append(name)
    for (mount_before, mount_after), names in changed.items():
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="slurm-file-system",
                what=f"group{'s' if len(names) > 1 else ''} {', '.join(names)}",
                change=f"mounts {mount_before} → {mount_after}",
                consequence="Runs, environments and home folders are on the file system that nodes mount. Whether "
                "running nodes mount the other one is not documented: expect some nodes on each, and jobs that end.",
                unavailable="what is on the file system, while nodes differ",
                source=source("slurm-configuration"),
                where=change.title,
            )
        )


def _mounted(mounts: list[Any]) -> str:
    """A mount in words; a DNS name that is no text is the stack's own file system's."""
    if not mounts:
        return "nothing"
    mount = mounts[0]
    name = mount.get("DnsName")
    where = name.partition(".")[0] if isinstance(name, str) else "the stack's file system"
    return f"{where} at {mount.get('MountPath')}"

"""Nodes of an environment on Slurm, and what runs on them, as a snapshot shows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.node_rows import Row, replacements, row_of
from hyperpod_ray.ops.observe.snapshot import Instance, Slurm, SlurmNode, Snapshot
from hyperpod_ray.ops.orchestrators.interface import Work

if TYPE_CHECKING:
    from rich.table import Table


def rows(seen: Snapshot) -> list[Row]:
    """Instances with their nodes of Slurm, then nodes without an instance."""
    replaced = replacements(seen)
    slurm = seen.slurm or Slurm()
    left = {node.name: node for node in slurm.nodes}
    listed = []
    for instance in seen.instances:
        node = slurm.of(instance)
        row = row_of(seen, instance, None, replaced.get(instance.id, 0))
        if node is not None:
            left.pop(node.name, None)
            listed.append(replace(row, **_of_slurm(slurm, node)))
        else:
            listed.append(replace(row, name=instance.host, slurm=_not_in_slurm(seen, instance)))
    listed += [
        Row(id="", group="", type="", status="gone", kubernetes="", health="", fault="", launched=None, replacements=0,
            pods=(), **_of_slurm(slurm, node))
        for node in left.values()
    ]  # fmt: skip
    return listed


def _of_slurm(slurm: Slurm, node: SlurmNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "slurm": node.state,
        "partitions": node.partitions,
        "reason": node.reason,
        "jobs": tuple(job.id for job in slurm.on(node.name)),
    }


def _not_in_slurm(seen: Snapshot, instance: Instance) -> str:
    """Slurm lists the nodes that run jobs; its controller and where people log in are none of them."""
    group = seen.group(instance.group)
    if group is not None and group.role in ("Controller", "Login"):
        return ""
    return "?" if seen.slurm is None or not instance.host else "not joined"


def table(rows: Sequence[Row], *, wide: bool) -> Table:
    """HyperPod's node beside Slurm's, which has another name, a partition, jobs, and a reason why it takes none."""
    nodes = output.table(
        "=Node", "Group", *(["=Type"] if wide else []), "HyperPod", "=Slurm name", "Slurm", "Partition", "Jobs",
        "Reason", ">Age", *([">Repl."] if wide else []),
    )  # fmt: skip
    for row in rows:
        nodes.add_row(
            row.id, row.group, *([row.type] if wide else []), row.status, row.name, row.slurm,
            ", ".join(row.partitions), ", ".join(row.jobs), row.reason or row.fault, output.age(row.launched),
            *([str(row.replacements or "")] if wide else []),
        )  # fmt: skip
    return nodes


def work(seen: Snapshot) -> Work:
    """Slurm's jobs by node; which of them train Slurm does not know."""
    slurm = seen.slurm
    nodes = {names.node_name(instance.id): slurm.of(instance) for instance in seen.instances} if slurm else {}
    return Work(
        known=slurm is not None,
        trains_known=False,
        busy=frozenset(name for name, node in nodes.items() if slurm and node and slurm.on(node.name)),
        ready=frozenset(name for name, node in nodes.items() if node and node.usable) if slurm else None,
        ready_since={},
        idle="no job of Slurm on",
    )

"""Nodes of an environment on EKS, and what runs on them, as a snapshot shows it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.observe.node_rows import Row, ready, replacements, row_of
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.orchestrators.interface import Work

if TYPE_CHECKING:
    from rich.table import Table


def rows(seen: Snapshot) -> list[Row]:
    """Instances with their nodes, then nodes without an instance."""
    by_name = {node.name: node for node in seen.nodes}
    replaced = replacements(seen)
    listed = []
    for instance in seen.instances:
        node = by_name.pop(names.node_name(instance.id), None)
        without = "not joined" if seen.saw_nodes else "?"
        listed.append(row_of(seen, instance, node, replaced.get(instance.id, 0), without=without))
    for node in by_name.values():
        pods = tuple(pod.name for pod in seen.pods if pod.node == node.name)
        listed.append(
            Row(id=names.instance_id(node.name), group=node.group, type="", status="gone", kubernetes=ready(node),
                health=node.health, fault=node.fault, launched=node.created, replacements=0, pods=pods)
        )  # fmt: skip
    return listed


def table(rows: Sequence[Row], *, wide: bool) -> Table:
    """HyperPod's node beside the one of Kubernetes."""
    nodes = output.table(
        "=Node", "Group", *(["=Type"] if wide else []), "HyperPod", "Kubernetes", "Fault", ">Age", ">Repl."
    )
    for row in rows:
        seen_as = " ".join(filter(None, [row.kubernetes, _worded(row.health) if row.health != "Schedulable" else ""]))
        kind = [row.type] if wide else []
        number = str(row.replacements or "")
        nodes.add_row(row.id, row.group, *kind, row.status, seen_as, row.fault, output.age(row.launched), number)
    return nodes


def _worded(health: str) -> str:
    """The label's value, with a place where a narrow column may fold it."""
    return health.replace("UnschedulablePending", "Unschedulable Pending")


def work(seen: Snapshot) -> Work:
    """Ray's workers by node, and whether Ray said which of them train."""
    known = seen.saw("Kubernetes")
    return Work(
        known=known,
        trains_known=known and seen.saw("Ray jobs"),
        busy=frozenset(pod.node for pod in seen.pods if pod.role == "worker" and pod.ready and not pod.deleting_since),
        ready=frozenset(node.name for node in seen.nodes if node.ready) if seen.saw_nodes else None,
        ready_since={node.name: node.since for node in seen.nodes},
        idle="no Ray worker on",
    )

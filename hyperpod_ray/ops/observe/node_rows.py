"""The nodes of a snapshot: HyperPod's instances joined with the nodes and work of Kubernetes or Slurm. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Node, Slurm, SlurmNode, Snapshot


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the list: HyperPod's instance with its node in Kubernetes or Slurm."""

    id: str
    group: str
    type: str
    status: str
    kubernetes: str
    health: str
    fault: str
    launched: datetime | None
    replacements: int
    pods: tuple[str, ...]
    name: str = ""
    """Its name in Slurm."""
    slurm: str = ""
    """Its state in Slurm; `?` where Slurm was not asked."""
    partitions: tuple[str, ...] = ()
    reason: str = ""
    """Why it is so, as Slurm has it."""
    jobs: tuple[str, ...] = ()
    """IDs of the Slurm jobs that have it."""


def joined(snapshot: Snapshot) -> list[Row]:
    """Instances with their nodes, then nodes without an instance."""
    if snapshot.orchestrator == "slurm":
        return _joined_slurm(snapshot)
    by_name = {node.name: node for node in snapshot.nodes}
    replaced = replacements(snapshot)
    rows = []
    for instance in snapshot.instances:
        node = by_name.pop(names.node_name(instance.id), None)
        rows.append(_row(snapshot, instance, node, replaced.get(instance.id, 0)))
    for node in by_name.values():
        pods = tuple(pod.name for pod in snapshot.pods if pod.node == node.name)
        rows.append(
            Row(id=names.instance_id(node.name), group=node.group, type="", status="gone", kubernetes=_ready(node),
                health=node.health, fault=node.fault, launched=node.created, replacements=0, pods=pods)
        )  # fmt: skip
    return rows


def _row(snapshot: Snapshot, instance: Instance, node: Node | None, replaced: int) -> Row:
    message = instance.message if instance.status not in ("Running",) else ""
    return Row(
        id=instance.id,
        group=instance.group,
        type=instance.type,
        status=instance.status,
        kubernetes=_ready(node) if node else _without_node(snapshot),
        health=node.health if node else "",
        fault=(node.fault if node else "") or message,
        launched=instance.launched,
        replacements=replaced,
        pods=tuple(pod.name for pod in snapshot.pods if node and pod.node == node.name),
    )


def _joined_slurm(snapshot: Snapshot) -> list[Row]:
    """Instances with their nodes of Slurm, then nodes without an instance."""
    replaced = replacements(snapshot)
    slurm = snapshot.slurm or Slurm()
    unmatched = {node.name: node for node in slurm.nodes}
    rows = []
    for instance in snapshot.instances:
        node = slurm.of(instance)
        row = _row(snapshot, instance, None, replaced.get(instance.id, 0))
        if node is not None:
            unmatched.pop(node.name, None)
            rows.append(replace(row, **_of_slurm(slurm, node)))
        else:
            rows.append(replace(row, name=instance.host, slurm=_not_in_slurm(snapshot, instance)))
    rows += [
        Row(id="", group="", type="", status="gone", kubernetes="", health="", fault="", launched=None, replacements=0,
            pods=(), **_of_slurm(slurm, node))
        for node in unmatched.values()
    ]  # fmt: skip
    return rows


def _of_slurm(slurm: Slurm, node: SlurmNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "slurm": node.state,
        "partitions": node.partitions,
        "reason": node.reason,
        "jobs": tuple(job.id for job in slurm.on(node.name)),
    }


def _not_in_slurm(snapshot: Snapshot, instance: Instance) -> str:
    """Slurm lists the nodes that run jobs; its controller and where people log in are none of them."""
    group = snapshot.group(instance.group)
    if group is not None and group.role in ("Controller", "Login"):
        return ""
    return "?" if snapshot.slurm is None or not instance.host else "not joined"


def _without_node(snapshot: Snapshot) -> str:
    if snapshot.orchestrator != "eks":
        return ""
    return "not joined" if snapshot.saw_nodes else "?"


def _ready(node: Node) -> str:
    if node.unreachable:
        return "unreachable"
    text = "Ready" if node.ready else "NotReady"
    return f"{text}, cordoned" if node.cordoned else text


def replacements(snapshot: Snapshot) -> dict[str, int]:
    """How many instances of the same group left within the events that the service still lists, before this one came.

    HyperPod does not count; its events say which instances were there. An instance that is gone counts for the next one
    launched in its group after it was last heard of.
    """
    present = {instance.id for instance in snapshot.instances}
    last_heard: dict[str, ClusterEvent] = {}
    for event in sorted(snapshot.events, key=lambda event: event.time):
        if event.instance and event.instance not in present:
            last_heard[event.instance] = event
    counted: dict[str, int] = {}
    for event in last_heard.values():
        heirs = sorted(
            (i for i in snapshot.instances if i.group == event.group and i.launched and i.id not in counted),
            key=lambda i: i.launched or event.time,
            reverse=True,
        )
        if heirs:
            counted[heirs[0].id] = 1
    return counted

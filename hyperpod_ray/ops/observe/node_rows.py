"""The nodes of a snapshot: HyperPod's instances joined with the nodes and work of Kubernetes or Slurm. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Node, Snapshot


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


def row_of(seen: Snapshot, instance: Instance, node: Node | None, replaced: int, *, without: str = "") -> Row:
    """The line of an instance; `without` says of Kubernetes that no node of it is there."""
    message = instance.message if instance.status not in ("Running",) else ""
    return Row(
        id=instance.id,
        group=instance.group,
        type=instance.type,
        status=instance.status,
        kubernetes=ready(node) if node else without,
        health=node.health if node else "",
        fault=(node.fault if node else "") or message,
        launched=instance.launched,
        replacements=replaced,
        pods=tuple(pod.name for pod in seen.pods if node and pod.node == node.name),
    )


def ready(node: Node) -> str:
    """A node's condition in words."""
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

"""The nodes of a snapshot: HyperPod's instances joined with the nodes and work of Kubernetes or Slurm. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Node, SlurmNode, Snapshot


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
    network: tuple[str, ...] = ()
    """Network nodes above it, the nearest last; empty where Kubernetes does not say."""

    @property
    def states(self) -> tuple[str, ...]:
        """What each service says of it; of Slurm's state without its marks."""
        base = self.slurm.rstrip("*~#!%$@^-+").lower()
        return tuple(filter(None, (self.status, self.kubernetes, self.health, self.slurm, base)))


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
        pods=tuple(pod.name for pod in seen.pods_on(node.name)) if node else (),
        network=node.network if node else (),
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
    for event in sorted(last_heard.values(), key=lambda event: event.time):
        heirs = [
            (instance.launched, instance.id)
            for instance in snapshot.instances
            if instance.group == event.group and instance.launched and instance.launched > event.time
        ]
        if heir := min((heir for heir in heirs if heir[1] not in counted), default=None):
            counted[heir[1]] = 1
    return counted


Tone = Literal["good", "busy", "bad", "none"]
"""Whether something is well, on its way, needs attention, or nothing is known of it."""


def tone_of(row: Row) -> Tone:
    """Whether a node can take work, is on its way to it, or needs attention."""
    if row.status in ("Failure", "gone") or row.kubernetes == "unreachable":
        return "bad"
    if row.name or row.slurm:
        return _tone_of_slurm(row)
    if row.status == "Running":
        if row.kubernetes == "?":  # Kubernetes was not asked: HyperPod's word is all there is
            return "none"
        if row.kubernetes == "Ready" and row.health in ("", "Schedulable"):
            return "good"
        return "busy" if row.kubernetes in ("Ready", "not joined", "Ready, cordoned") else "bad"
    return "busy"


def _tone_of_slurm(row: Row) -> Tone:
    if row.status != "Running":
        return "busy"
    node = SlurmNode(name=row.name, state=row.slurm, reason=row.reason)
    if node.lost and not node.repaired:
        return "bad"
    if row.slurm == "?":
        return "none"
    return "busy" if node.lost or node.silent or node.drained or node.reserved or row.slurm == "not joined" else "good"


FOLDED = 64
"""More nodes are listed by what they have in common, unless each is asked for."""
NAMED = 20
"""Nodes of one trouble that are listed each."""


def folded(rows: Sequence[Row]) -> list[Row]:
    """Nodes that are well in one line for each group and state, and of one trouble the first; all, where they are few.

    A line for several has their number in place of an ID, and the age of the oldest.
    """
    if len(rows) <= FOLDED:
        return list(rows)
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.group, row.type, row.status, row.kubernetes, row.health, row.slurm, row.fault, row.partitions,
               row.reason, tone_of(row) == "good")  # fmt: skip
        alike.setdefault(key, []).append(row)
    lines: list[Row] = []
    for members in alike.values():
        listed = [] if tone_of(members[0]) == "good" else members[:NAMED]
        rest = members[len(listed) :]
        lines += listed
        if len(rest) == 1:
            lines += rest
        elif rest:
            launched = min((row.launched for row in rest if row.launched), default=None)
            jobs = tuple(dict.fromkeys(job for row in rest for job in row.jobs))
            more = " more" if listed else ""
            lines.append(
                replace(rest[0], id=f"{len(rest)}{more} nodes", name="", launched=launched, jobs=jobs,
                        replacements=sum(row.replacements for row in rest))
            )  # fmt: skip
    return lines

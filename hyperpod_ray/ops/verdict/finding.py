"""What a verdict is made of, and the small parts that the rules share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from hyperpod_ray.core import names
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, Instance, Snapshot
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.durations import Usual

State = Literal["Healthy", "Steps unknown", "Recovering", "Action required"]
"""`Steps unknown`: nothing is wrong that can be seen, and a job runs of which nobody can say whether it trains."""
Kind = Literal["recovering", "action-required", "note"]

UNREACHABLE_GRACE = timedelta(minutes=5)
"""A node that does not answer for longer, and whose object stays, is not coming back by itself: Kubernetes then keeps
its pods as Terminating and makes no replacement."""
JOIN_GRACE = timedelta(minutes=15)
"""Running in HyperPod until Ready in Kubernetes."""
QUIET = timedelta(minutes=30)
"""How long missing nodes may be missing without any sign of work on them."""
DEAD_STACK = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it should be, or worth knowing."""

    kind: Kind
    what: str
    why: str = ""
    since: datetime | None = None
    expected_by: datetime | None = None
    next: str = ""
    subject: str = ""
    """What it is about: a node, pod, group, file system or stack."""
    recovery: Literal["", "pods"] = ""
    """What has to be created again for it to be over; `pods` needs the controllers that do that."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The worst finding decides."""

    state: State
    findings: tuple[Finding, ...]
    without: tuple[str, ...] = ()
    """What it does not cover: what these credentials may not see."""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong as far as can be seen."""
        return self.state in ("Healthy", "Steps unknown")

    @property
    def action_required(self) -> tuple[Finding, ...]:
        """What needs action."""
        return tuple(finding for finding in self.findings if finding.kind == "action-required")

    @property
    def recovering(self) -> tuple[Finding, ...]:
        """What recovers by itself."""
        return tuple(finding for finding in self.findings if finding.kind == "recovering")


FOLDED = 5
"""More findings that differ in nothing but what they are about are shown as one."""

NUMBERED = re.compile(r"(?<!')\b[\w.-]*\d[\w.-]*")
"""What differs between equal findings: IDs of nodes, names of pods, durations. Groups and runs are in quotes."""


def folded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings as people read them: the same of many nodes or pods is one, with the first names. JSON lists each."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.kind, *(NUMBERED.sub("#", text) for text in (finding.what, finding.why, finding.next)))
        alike.setdefault(key if finding.subject else (*key, finding.what), []).append(finding)
    folded_findings: list[Finding] = []
    for members in alike.values():
        if len(members) <= FOLDED:
            folded_findings += members
            continue
        finding, since = members[0], [member.since for member in members if member.since]
        subjects = ", ".join(member.subject for member in members[:3])
        folded_findings.append(
            replace(finding, what=f"{len(members)} ×, such as {subjects}: {finding.what}",
                    since=min(since, default=None),
                    expected_by=max((member.expected_by for member in members if member.expected_by), default=None))
        )  # fmt: skip
    return tuple(folded_findings)


def several(texts: Sequence[str], *, limit: int = 8) -> str:
    """Names in a sentence; of many, the first."""
    return ", ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")


def command(snapshot: Snapshot, text: str) -> str:
    """A command of `ops` on this environment: `status`, `logs --node …`."""
    verb, _, rest = text.partition(" ")
    return " ".join(filter(None, ["hyperpod-ray", verb, snapshot.environment, rest]))


def nodes_command(snapshot: Snapshot, verb: str, node: str) -> str:
    """A command of `ops nodes` on one node."""
    return " ".join(["hyperpod-ray", "nodes", verb, snapshot.environment, node])


def deploy(snapshot: Snapshot) -> str:
    """The command that creates or repairs the environment."""
    return f"hyperpod-ray deploy {snapshot.environment}"


def usual_of(instance: Instance) -> Usual:
    """How long the state of an instance usually lasts."""
    return {
        "SystemUpdating": durations.SOFTWARE,
        "DeepHealthCheckInProgress": durations.DEEP_CHECK,
        "ShuttingDown": durations.REBOOT,
    }.get(instance.status, durations.REBOOT if "reboot" in instance.message.lower() else durations.NODE)


def under_way(
    snapshot: Snapshot,
    summary: str,
    *,
    since: datetime | None,
    usual: Usual,
    next_: str,
    subject: str,
    why: str = "",
    recovery: Literal["", "pods"] = "",
) -> Finding:
    """Something that takes its time: Recovering, until it takes far longer than usual."""
    if usual.overdue(since, snapshot.at):
        return Finding(
            kind="action-required",
            what=f"{summary}, far longer than the usual {usual}",
            why=why,
            since=since,
            next=next_,
            subject=subject,
        )
    return Finding(
        kind="recovering",
        what=summary,
        why=why,
        since=since,
        expected_by=usual.by(since),
        subject=subject,
        recovery=recovery,
    )


def last_event(
    events: tuple[ClusterEvent, ...], *, instance: str = "", resource: str = "", level: str = ""
) -> ClusterEvent | None:
    """The newest event that matches."""
    matching = [
        event
        for event in events
        if (not instance or event.instance == instance)
        and (not resource or event.resource == resource)
        and (not level or event.level == level)
    ]
    return max(matching, key=lambda event: event.time, default=None)


def last_heard(snapshot: Snapshot, instance: Instance) -> datetime | None:
    """When the newest event of an instance was."""
    event = last_event(snapshot.events, instance=instance.id)
    return event.time if event else None


def fault_of(snapshot: Snapshot, instance: Instance) -> str:
    """The fault that Kubernetes tells of an instance."""
    return next((node.fault for node in snapshot.nodes if node.name == names.node_name(instance.id)), "")


def carries(snapshot: Snapshot, subject: str) -> bool:
    """Whether a finding's subject is a node with one of Ray's pods on it."""
    return bool(subject) and any(
        pod.role and names.instance_id(pod.node) == names.instance_id(subject) for pod in snapshot.pods
    )


def training(snapshot: Snapshot, instance: Instance) -> str:
    """What a node's trouble means for training: which of Ray's pods are on it, or that every one runs elsewhere."""
    on_node = sorted(
        (pod for pod in snapshot.pods if pod.role and pod.node == names.node_name(instance.id)),
        key=lambda pod: pod.name,
    )
    if heads := [pod.name for pod in on_node if pod.role == "head"]:
        workers = [pod.name for pod in on_node if pod.role != "head"]
        return f"; Ray's head is on it: {heads[0]}" + (f", and {', '.join(workers)}" if workers else "")
    if on_node:
        return (
            f"; Ray's {'pod is' if len(on_node) == 1 else 'pods are'} on it: {', '.join(pod.name for pod in on_node)}"
        )
    return "; Ray has all its workers without it" if snapshot.ray_clusters and _complete(snapshot) else ""


def _complete(snapshot: Snapshot) -> bool:
    """Whether every RayCluster has its head and all its workers on nodes that are ready."""
    for ray in snapshot.ray_clusters:
        running = [
            pod
            for pod in snapshot.pods
            if pod.cluster == ray.name
            and pod.namespace == ray.namespace
            and pod.ready
            and not pod.deleting_since
            and snapshot.answers(pod.node)
        ]
        workers = [pod for pod in running if pod.role == "worker"]
        if len(workers) < ray.desired_workers or not any(pod.role == "head" for pod in running):
            return False
    return True

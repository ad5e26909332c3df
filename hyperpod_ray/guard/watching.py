"""The guard's loop: look, act on what is certain, wait until something changes.

Two of them may run side by side. Nothing is remembered that matters: times are the node's own, a change names the
version of the node that it was decided for, and an event has the name of what it reports. The second changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from hyperpod_ray.guard import MARK, NAME, judge
from hyperpod_ray.guard.hyperpod import NoAnswerError
from hyperpod_ray.guard.judge import Node
from hyperpod_ray.guard.kubernetes import KubernetesError
from hyperpod_ray_rules.names import EVENTS_OF_NODES, OUT_OF_SERVICE, OUT_OF_SERVICE_VALUE, instance_id

Json = dict[str, Any]
log = logging.getLogger(NAME)

QUIET_SECONDS = 60
"""How long a watch lasts while every node is ready."""
FIRST_PAUSE, LONGEST_PAUSE = 2, 30
"""Seconds until HyperPod is asked again about a silent node; doubled while nothing changes."""
PROOF_SECONDS = 300
"""How often HyperPod is asked although nothing is silent, so that a missing right shows before it is needed."""


class Cluster(Protocol):
    """What the loop needs of Kubernetes."""

    def nodes(self) -> tuple[list[Json], str]: ...  # noqa: D102
    def watch_nodes(self, version: str, *, seconds: int, until: Callable[[Json], bool]) -> None: ...  # noqa: D102
    def patch_node(self, name: str, patch: Json) -> None: ...  # noqa: D102
    def create_event(self, namespace: str, event: Json) -> None: ...  # noqa: D102


class Service(Protocol):
    """What the loop needs of HyperPod."""

    def statuses(self) -> dict[str, str]: ...  # noqa: D102
    def status(self, instance: str) -> str: ...  # noqa: D102


class Guard:
    """Looks at the nodes, again and again.

    Args:
        node: Name of the node that this pod is on: a list of instances without it is not believed.
        not_ready_seconds: How long a node is silent before HyperPod is asked about it.
        ready_file: Exists while Kubernetes and HyperPod answer.
    """

    def __init__(
        self,
        *,
        kubernetes: Cluster,
        hyperpod: Service,
        node: str,
        not_ready_seconds: int,
        ready_file: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kubernetes, self._hyperpod = kubernetes, hyperpod
        self._node, self._seconds = node, not_ready_seconds
        self._ready_file, self._clock = ready_file, clock
        self._states: dict[str, tuple[str, str, bool]] = {}
        self._version = ""
        self._pause: float = FIRST_PAUSE
        self._proven = 0.0
        self._reported: dict[str, str] = {}

    def turn(self) -> None:
        """Look once, then wait until something changes or it is time to look again."""
        seconds = self.look()
        self._kubernetes.watch_nodes(
            self._version,
            seconds=max(1, round(seconds)),
            until=lambda node_object: self._changed(judge.node_of(node_object)),
        )

    def look(self) -> float:
        """Look at every node and act; return the seconds until the next look."""
        items, self._version = self._kubernetes.nodes()
        nodes = [judge.node_of(node_object) for node_object in items]
        states = {node.name: node.state for node in nodes}
        if states != self._states:
            self._pause = FIRST_PAUSE
        self._states = states
        self._reported = {name: reason for name, reason in self._reported.items() if name in states}
        for node in judge.returned(nodes):
            self._take_off(node)
        silent = judge.silent(nodes)
        if not silent:
            return self._prove()
        now = self._clock()
        due = [node for node in silent if now - node.since >= self._seconds]
        if not due:
            return min(self._seconds - (now - node.since) for node in silent)
        if judge.disrupted(nodes):
            for node in due:
                self._report(
                    node, "NodeGuardTooMany", "so many nodes are silent that the network is the likelier fault"
                )
        else:
            self._judge(due, now)
        pause, self._pause = self._pause, min(LONGEST_PAUSE, 2 * self._pause)
        return pause

    def _judge(self, due: list[Node], now: float) -> None:
        try:
            statuses = self._statuses()
            for node in due:
                status = statuses.get(node.instance) or self._hyperpod.status(node.instance)
                if judge.frees(node, status, now=now):
                    self._put_on(node, status)
                else:
                    self._report(node, "NodeGuardWaits", _why_not(status))
        except NoAnswerError as error:
            self._unproven(error)
            for node in due:
                self._report(node, "NodeGuardCannotAsk", "HyperPod does not answer: the guard leaves its pods alone")

    def _statuses(self) -> dict[str, str]:
        statuses = self._hyperpod.statuses()
        own_instance = instance_id(self._node)
        if own_instance not in statuses:
            raise NoAnswerError(f"ListClusterNodes lacks {own_instance}, on which the guard runs: not believed")
        self._proven = self._clock()
        self._ready_file.touch()
        return statuses

    def _prove(self) -> float:
        """Ask HyperPod from time to time; a pod that may not ask is not ready."""
        if self._clock() - self._proven < PROOF_SECONDS and self._ready_file.exists():
            return QUIET_SECONDS
        try:
            self._statuses()
        except NoAnswerError as error:
            self._unproven(error)
            pause, self._pause = self._pause, min(LONGEST_PAUSE, 2 * self._pause)
            return pause
        self._pause = FIRST_PAUSE
        return QUIET_SECONDS

    def _unproven(self, error: NoAnswerError) -> None:
        log.warning("HyperPod does not answer: %s", error)
        self._ready_file.unlink(missing_ok=True)

    def _changed(self, node: Node) -> bool:
        return bool(node.instance) and node.state != self._states.get(node.name)

    def _put_on(self, node: Node, status: str) -> None:
        moment = _written(self._clock())
        added = {"key": OUT_OF_SERVICE, "value": OUT_OF_SERVICE_VALUE, "effect": "NoExecute", "timeAdded": moment}
        if self._patch(node, mark=moment, taints=[*node.taints, added]):
            gone = {judge.GONE: "does not have its instance"}.get(status, f"says {status} of its instance")
            self._report(
                node, "NodeGuardFreed", f"it is silent and HyperPod {gone}: its pods are freed ({OUT_OF_SERVICE})"
            )

    def _take_off(self, node: Node) -> None:
        kept = [taint for taint in node.taints if taint.get("key") != OUT_OF_SERVICE]
        if self._patch(node, mark=None, taints=kept):
            self._report(
                node, "NodeGuardReturned", f"it is ready again: pods may run on it ({OUT_OF_SERVICE} taken off)"
            )

    def _patch(self, node: Node, *, mark: str | None, taints: list[Json]) -> bool:
        """Change a node that is still as it was when this was decided; say whether this guard did it."""
        meta = {"resourceVersion": node.version, "annotations": {MARK: mark}}
        try:
            self._kubernetes.patch_node(node.name, {"metadata": meta, "spec": {"taints": taints}})
        except KubernetesError as error:
            if error.code not in (404, 409):
                raise
            return False  # it changed or went: the next look decides
        self._pause = 1  # the next look sees the change
        return True

    def _report(self, node: Node, reason: str, message: str) -> None:
        """Log, and write an Event with the name of what it reports: the same is written once."""
        name = f"{node.name}.{reason.lower()}.{int(node.since):x}"
        if self._reported.get(node.name) == name + message:
            return
        self._reported[node.name] = name + message
        log.warning("%s: %s: %s", node.name, reason, message)
        now = _written(self._clock())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": EVENTS_OF_NODES},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
            "reason": reason,
            "message": message,
            "type": "Normal" if reason == "NodeGuardReturned" else "Warning",
            "source": {"component": NAME},
            "reportingComponent": NAME,
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._kubernetes.create_event(EVENTS_OF_NODES, event)
        except KubernetesError as error:
            if error.code != 409:
                log.warning("no event could be written: %s", error)


def _why_not(status: str) -> str:
    if status in judge.FAILED:
        return f"HyperPod says {status}, and the kubelet answers: it has {judge.KUBELET_SECONDS} s to end its pods"
    return f"HyperPod says {status}: the guard leaves its pods alone"


def _written(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

"""What the guard decides, as functions of what Kubernetes and HyperPod say; nothing here is remembered."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray.guard import MARK
from hyperpod_ray_rules.names import OUT_OF_SERVICE, instance_id

Json = dict[str, Any]

INSTANCE = re.compile(r"i-[a-f0-9]{8}(?:[a-f0-9]{9})?")
"""`ClusterNodeId`."""
GONE = "NotFound"
"""What HyperPod says of an instance that it does not have; a value of `ClusterInstanceStatus` too."""
LEAVING = frozenset({GONE, "ShuttingDown"})
"""The instance is no more, or on its way out: nothing of it comes back."""
FAILED = LEAVING | {"Failure"}
"""Values of `InstanceStatus` with which a silent node's pods are freed. The others are `Running`, `Pending`,
`SystemUpdating` and `DeepHealthCheckInProgress`: a node that is restarted, or a network that is cut."""
KUBELET_SECONDS = 300
"""How long a kubelet that answers, and calls its node not ready, may take to end the pods of a failed instance."""
DISRUPTED_SHARE = 0.55
DISRUPTED_NODES = 2
"""Kubernetes' own measure of a network that is cut (`--unhealthy-zone-threshold`): this share of the nodes, and more
than this number. https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A Kubernetes node, as far as the guard looks at it."""

    name: str
    uid: str
    version: str
    """`resourceVersion`: a change is written for this version or not at all."""
    ready: str
    """Status of the condition `Ready`: `True`, `False` (the kubelet says so) or `Unknown` (the kubelet is silent)."""
    since: float
    """When that condition last changed, in seconds since 1970."""
    mark: str
    """The guard's annotation: when it put the taint there. Empty: it did not."""
    taints: Sequence[Json] = field(default_factory=list)

    @property
    def instance(self) -> str:
        """The HyperPod instance behind it; empty for a node of another kind."""
        identifier = instance_id(self.name)
        return identifier if identifier != self.name and INSTANCE.fullmatch(identifier) else ""

    @property
    def tainted(self) -> bool:
        """Whether it is out of service, by the guard or by somebody else."""
        return any(taint.get("key") == OUT_OF_SERVICE for taint in self.taints)

    @property
    def state(self) -> tuple[str, str, bool]:
        """What must change before the guard looks again."""
        return self.ready, self.mark, self.tainted


def node_of(node_object: Json) -> Node:
    """Read a Node object."""
    meta = node_object["metadata"]
    ready: Json = {}
    for condition in (node_object.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            ready = condition
    return Node(
        name=meta["name"],
        uid=meta.get("uid", ""),
        version=meta.get("resourceVersion", ""),
        # without the condition a node has not come up yet: there is nothing to free
        ready=ready.get("status", "True"),
        since=epoch(ready.get("lastTransitionTime", "")),
        mark=(meta.get("annotations") or {}).get(MARK, ""),
        taints=(node_object.get("spec") or {}).get("taints") or [],
    )


def epoch(text: str) -> float:
    """Seconds since 1970 of a time as Kubernetes writes it; 0 for none."""
    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else 0.0


def silent(nodes: Sequence[Node]) -> list[Node]:
    """HyperPod nodes that are not ready, and that nobody has dealt with.

    A mark without the taint is your decision: you took the taint off a node that is not ready.
    """
    return [node for node in nodes if node.instance and node.ready != "True" and not node.tainted and not node.mark]


def returned(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that are ready again and carry the guard's mark. A taint without the mark is somebody else's."""
    return [node for node in nodes if node.ready == "True" and node.mark]


def disrupted(nodes: Sequence[Node]) -> bool:
    """Whether so many nodes are silent that the network is the likelier fault.

    Kubernetes counts so too before it stops evicting pods. Nodes that are out of service already are not counted.
    """
    counted = [node for node in nodes if node.instance and not node.tainted]
    lost = [node for node in counted if node.ready != "True"]
    if len(lost) == len(counted):
        return bool(counted)
    return len(lost) > DISRUPTED_NODES and len(lost) / len(counted) >= DISRUPTED_SHARE


def frees(node: Node, status: str, *, now: float) -> bool:
    """Whether a silent node's pods are freed, given what HyperPod says of its instance.

    A kubelet that answers (`False` and not `Unknown`) ends evicted pods itself. On an instance that failed but is
    there, it gets the time for that: two pods in one place would be worse than a late one.
    """
    if status in LEAVING:
        return True
    return status in FAILED and (node.ready == "Unknown" or now - node.since >= KUBELET_SECONDS)

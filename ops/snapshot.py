"""What is seen of an environment at one moment, joined from HyperPod, Kubernetes, Ray and FSx. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A CloudFormation stack of the environment; `status` is empty where it does not exist."""

    name: str
    status: str = ""
    reason: str = ""
    protected: bool = False


@dataclass(frozen=True, kw_only=True)
class Group:
    """An instance group as HyperPod reports it."""

    name: str
    type: str
    target: int
    current: int
    status: str = ""
    accelerated: bool = False


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The HyperPod cluster."""

    name: str
    arn: str
    status: str
    failure: str = ""
    node_recovery: str = "Automatic"
    created: datetime | None = None
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A node as HyperPod reports it."""

    id: str
    group: str
    type: str
    status: str
    message: str = ""
    launched: datetime | None = None
    logical_id: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterEvent:
    """One entry of ListClusterEvents; `failure` is known only once the event was described."""

    id: str
    time: datetime
    level: str
    description: str
    resource: str = "Cluster"
    group: str = ""
    instance: str = ""
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A Node object of Kubernetes."""

    name: str
    ready: bool
    """False also where the kubelet no longer reports (condition Unknown)."""
    unreachable: bool = False
    """The node controller's taint `node.kubernetes.io/unreachable`."""
    since: datetime | None = None
    """When the Ready condition last changed."""
    created: datetime | None = None
    group: str = ""
    health: str = ""
    """Label `node-health-status`."""
    deep_check: str = ""
    """Label `deep-health-check-status`."""
    fault: str = ""
    """Fault type, reason and details as far as they are known."""
    cordoned: bool = False
    out_of_service: bool = False


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod of Ray."""

    name: str
    namespace: str
    cluster: str
    role: str
    """`head` or `worker`."""
    group: str
    """Ray's worker group."""
    phase: str
    ready: bool = False
    node: str = ""
    reason: str = ""
    """Why it does not run: Unschedulable, ImagePullBackOff, CrashLoopBackOff, OOMKilled …"""
    message: str = ""
    created: datetime | None = None
    deleting_since: datetime | None = None
    instance_group: str = ""
    """The HyperPod group that its node selector asks for."""
    restarts: int = 0


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """A RayCluster object; what it says of itself is not always so."""

    name: str
    namespace: str
    state: str
    desired_workers: int
    ready_workers: int
    suspended: bool = False
    reason: str = ""
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class FileSystem:
    """An FSx for Lustre file system of the environment."""

    id: str
    lifecycle: str
    capacity_gib: int
    made_by_claim: bool = False
    failure: str = ""
    created: datetime | None = None
    stack: str = ""
    interfaces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim in a Ray namespace."""

    name: str
    namespace: str
    phase: str
    volume: str = ""
    storage_class: str = ""
    created: datetime | None = None
    deleting_since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class KubernetesEvent:
    """A warning of a Ray namespace."""

    time: datetime | None
    reason: str
    object: str
    message: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """A source that did not answer, and why."""

    source: str
    why: str
    next: str = ""
    refused: bool = False
    """Kubernetes answers, but these credentials may not see it: nothing is wrong with the cluster."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything at one moment. What could not be asked is in `unseen`, never silently empty."""

    environment: str
    at: datetime
    namespace: str = "ray"
    ray_cluster: str = "ray"
    storage_mode: str = "static"
    stacks: tuple[Stack, ...] = ()
    cluster: Cluster | None = None
    instances: tuple[Instance, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    ray_clusters: tuple[RayCluster, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    claims: tuple[Claim, ...] = ()
    warnings: tuple[KubernetesEvent, ...] = ()
    unseen: tuple[Unseen, ...] = field(default_factory=tuple)

    def saw(self, source: str) -> bool:
        """Whether a source answered."""
        return all(item.source != source for item in self.unseen)

    @property
    def saw_nodes(self) -> bool:
        """Whether Kubernetes answered which nodes there are."""
        return self.saw("Kubernetes") and self.saw("Kubernetes nodes")

    def group(self, name: str) -> Group | None:
        """The instance group of that name, where HyperPod knows it."""
        return next((group for group in (self.cluster.groups if self.cluster else ()) if group.name == name), None)

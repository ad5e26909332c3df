"""What is seen of an environment at one moment, joined from HyperPod, Kubernetes, Ray and FSx. Data only."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime

from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.reach.ray_pods import Pod

NODES = "Kubernetes nodes"
"""Part of source Kubernetes, but asked apart: a user of a namespace may not see nodes, and has a RayCluster."""
CONTROLLERS = "controllers"
TRAINING = "Ray jobs"
HANGS = "hang events"
FREE_SPACE = "free space"
PLANS = "training plans"
SLURM = "Slurm"
EKS = "EKS"
SOURCES = (
    "CloudFormation", EKS, "HyperPod", "HyperPod events", "Kubernetes", "FSx", CONTROLLERS, TRAINING, HANGS, FREE_SPACE,
    PLANS, SLURM,
)  # fmt: skip
KUBERNETES_SOURCES = (*(source for source in SOURCES if source != SLURM), NODES)
"""Sources of an environment on EKS."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A CloudFormation stack of the environment; `status` is empty where it does not exist."""

    name: str
    status: str = ""
    reason: str = ""
    protected: bool = False
    failed_resource: str = ""
    """Logical ID and type of the resource that failed first in the last operation."""
    failed_reason: str = ""
    """That resource's own words (DescribeStackEvents)."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """An instance group as HyperPod reports it."""

    name: str
    type: str
    target: int
    current: int
    status: str = ""
    accelerated: bool = False
    role: str = ""
    """Its part in Slurm: Controller, Login or Compute; empty on EKS."""
    training_plan: str = ""
    """ARN of the training plan that the group takes its capacity from."""
    image_status: str = ""
    """`ImageVersionStatus`: UpToDate, UpdateAvailable, SecurityUpdateRequired or EndOfLife."""
    image_release: str = ""
    """Release of the AMI that its nodes run, a day such as 2026.08.18."""
    image_available: str = ""
    """Release of the newest AMI that HyperPod has for it."""
    own_image: str = ""
    """`image_id` of the file: an AMI of the user, which HyperPod does not update."""
    update_status: str = ""
    """`SoftwareUpdateStatus` of the last software update."""
    next_patch: datetime | None = None
    """`NextPatchDate` that HyperPod goes by: when it patches the AMI of its nodes by `auto_patch`."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A training plan that instance groups take their capacity from. When it ends, HyperPod takes the nodes away."""

    arn: str
    name: str
    status: str
    start: datetime | None = None
    end: datetime | None = None
    groups: tuple[str, ...] = ()
    unhealthy: int = 0


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
    host: str = ""
    """Its host name without the domain, such as `ip-10-0-1-23`: a node's name in Slurm."""
    software_updated: datetime | None = None
    """When its software was last updated; None since it was launched."""
    image_release: str = ""


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
    network: tuple[str, ...] = ()
    """Network nodes above it, the nearest last, as EC2 has them; empty where its labels do not say."""


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
    """An FSx file system of the environment: the shared one, or that of home folders."""

    id: str
    lifecycle: str
    capacity_gib: int
    made_by_claim: bool = False
    failure: str = ""
    created: datetime | None = None
    stack: str = ""
    interfaces: tuple[str, ...] = ()
    homes: bool = False
    """Whether it is FSx for OpenZFS, with home folders; otherwise FSx for Lustre."""
    elastic: bool = False
    """Whether it has no size, but grows and shrinks with its data (Intelligent-Tiering); `capacity_gib` is then 0."""
    free_gib: float | None = None
    """Free space for data, over all of its servers (CloudWatch); None where that is not known."""
    free_at: datetime | None = None
    """When that was measured."""

    @property
    def size(self) -> str:
        """Its size in words."""
        return "elastic" if self.elastic else f"{self.capacity_gib} GiB"


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
class Controller:
    """A controller or daemon that the environment deploys, and how much of it runs."""

    name: str
    """What it is called in messages: `KubeRay operator`."""
    purpose: str
    """What does not work without it."""
    namespace: str
    kind: str
    """Deployment or DaemonSet."""
    workload: str
    """Name of the object; a part of it where it does not exist."""
    wanted: int = 0
    """Pods that should run. A DaemonSet has none where no node is of its kind."""
    ready: int = 0
    present: bool = True
    recovers: bool = False
    """Whether pods of Ray's are not replaced without it."""
    since: datetime | None = None
    """Since when the pod is not ready that has not been for the longest time."""
    why: str = ""
    """Why that pod is not ready."""
    nodes: tuple[str, ...] = ()
    """Nodes of the pods that are not ready."""
    types: tuple[str, ...] = ()
    """Instance types that it serves; empty for all."""


@dataclass(frozen=True, kw_only=True)
class RayJob:
    """A RayJob object of KubeRay."""

    name: str
    namespace: str
    status: str = ""
    """`jobStatus`, which is Ray's: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED; empty before the job is submitted."""
    deployment_status: str = ""
    """`jobDeploymentStatus`: Initializing, Waiting, Running, Complete, Failed, Suspended, ValidationFailed …"""
    job_id: str = ""
    cluster: str = ""
    """RayCluster that it runs on."""
    reason: str = ""
    message: str = ""
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    suspended: bool = False


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of Ray's Jobs API, on the environment's RayCluster or on one of a RayJob."""

    id: str
    state: str
    """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""
    cluster: str
    namespace: str
    command: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    message: str = ""
    exit_code: int | None = None
    run: str = ""
    """Name of the training run that it publishes; empty where it publishes none."""
    ray_id: str = ""
    """Ray's ID of it, such as `01000000`, by which HyperPod's agent names a job. Empty before its driver starts."""
    actors: dict[str, int] = field(default_factory=dict)
    """Number of its actors by Ray's state (ALIVE, PENDING_CREATION …); asked of a job that publishes no run."""
    gpu_percent: float | None = None
    """Mean use of the GPUs of the nodes with its actors, by Ray's metrics; None where Ray knows none."""

    def named(self, name: str) -> bool:
        """Whether an event that names a job, or none, may be of this one."""
        return name in {"", self.id, self.ray_id}


@dataclass(frozen=True, kw_only=True)
class Hang:
    """A `HANG_DETECTED` of HyperPod's job monitoring agent."""

    at: datetime
    instance: str
    group: str
    job: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """A source that did not answer, and why."""

    source: str
    why: str
    next: str = ""
    refused: bool = False
    """Kubernetes answers, but these credentials may not see it: nothing is wrong with the cluster."""
    laptop: bool = False
    """This machine lacks what it takes to ask: nothing is known to be wrong with the cluster."""


@dataclass(frozen=True, kw_only=True)
class QuotaUse:
    """What a team's jobs have of its quota, as its LocalQueue says."""

    namespace: str
    reserved: dict[str, float] = field(default_factory=dict)
    """GPUs or Neuron devices by instance type."""
    changed: datetime | None = None
    """The newest change that its Workloads show: a job that got, lost, or gave back its nodes. A Workload goes with its
    job, so that a later one may be gone. Without any: when the queue was created."""


PARTS = {
    "pods": "pods",
    "ray_clusters": "RayClusters",
    "ray_jobs": "RayJobs",
    "claims": "volume claims",
    "warnings": "warnings",
    "quotas": "queues",
}
"""What a message calls a part of a namespace."""


def part_of(part: str, namespace: str) -> str:
    """The source that a part of a namespace is."""
    return f"{PARTS[part]} of namespace {namespace}"


REPLACE, REBOOT = "Action:Replace", "Action:Reboot"
REPAIRS = (REPLACE, REBOOT)
"""Reasons of a Slurm node by which HyperPod repairs it.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html
"""


@dataclass(frozen=True, kw_only=True)
class SlurmNode:
    """A node as the Slurm controller sees it."""

    name: str
    """Its host name, such as `ip-10-0-1-23`."""
    state: str
    """As `sinfo` writes it: `idle`, `allocated`, `mixed`, `down*`, `drained`, `fail` …"""
    partitions: tuple[str, ...] = ()
    reason: str = ""
    address: str = ""
    """`NodeAddr`: its IP address or a name that leads there."""

    @property
    def lost(self) -> bool:
        """Whether no job can run there, by a fault or by a request for a replacement."""
        return self.state.rstrip("*~#!%$@^-+").lower() in ("down", "fail", "failing", "error", "unknown")

    @property
    def silent(self) -> bool:
        """Whether the controller gets no answer from it."""
        return self.state.endswith("*")

    @property
    def usable(self) -> bool:
        """Whether jobs run there, or can."""
        return not (self.lost or self.silent)

    @property
    def repaired(self) -> bool:
        """Whether its reason asks HyperPod for a repair."""
        return self.reason.startswith(REPAIRS)

    @property
    def drained(self) -> bool:
        """Whether somebody keeps new jobs off it."""
        return "drain" in self.state.lower()

    @property
    def reserved(self) -> bool:
        """Whether a reservation keeps jobs off it, as HyperPod's does during deep health checks."""
        return self.state.lower().startswith(("maint", "reserved"))


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """A job as `squeue` lists it."""

    id: str
    name: str
    user: str
    state: str
    elapsed: str
    nodes: int
    where: str
    """Its nodes, or in parentheses why it waits."""
    hosts: tuple[str, ...] = ()
    """Names of its nodes."""
    batch_host: str = ""
    """The node on which its batch script runs; empty before it has one."""


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """What the Slurm controller says."""

    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[SlurmJob, ...] = ()

    def of(self, instance: Instance) -> SlurmNode | None:
        """The node that an instance is, by name or address; None where Slurm has none."""
        address = instance.host.removeprefix("ip-").replace("-", ".")
        addresses = {instance.host, address} - {""}
        return next((node for node in self.nodes if {node.name, node.address} & addresses), None)

    def on(self, node: str) -> tuple[SlurmJob, ...]:
        """Jobs that have a node."""
        return tuple(job for job in self.jobs if node in job.hosts)


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """The environment's own EKS cluster, as it is and as the file says."""

    name: str
    version: str
    version_of_file: str
    protected: bool
    """Whether EKS refuses to delete it."""
    protected_by_file: bool
    created: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything at one moment. What could not be asked is in `unseen`, never silently empty."""

    environment: str
    at: datetime
    orchestrator: str = "eks"
    sources: tuple[str, ...] = KUBERNETES_SOURCES
    """What the environment has, whether it was asked or not."""
    namespace: str = "ray"
    ray_cluster: str = "ray"
    storage_mode: str = "static"
    homes_mode: str = ""
    """`new` or `existing`; empty without home folders."""
    eks_cluster: str = ""
    idle_hours: float | None = None
    """Hours without a job after which a RayCluster is idle (`ray.idle_hours`); None: no such finding."""
    stacks: tuple[Stack, ...] = ()
    control_plane: ControlPlane | None = None
    cluster: Cluster | None = None
    instances: tuple[Instance, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    ray_clusters: tuple[RayCluster, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    claims: tuple[Claim, ...] = ()
    warnings: tuple[KubernetesEvent, ...] = ()
    controllers: tuple[Controller, ...] = ()
    ray_jobs: tuple[RayJob, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    jobs: tuple[Job, ...] = ()
    """Newest first."""
    runs: tuple[Run, ...] = ()
    hangs: tuple[Hang, ...] = ()
    """Newest first."""
    training_plans: tuple[TrainingPlan, ...] = ()
    slurm: Slurm | None = None
    """What the Slurm controller says; None where nothing of it was asked, or it did not answer."""
    unseen: tuple[Unseen, ...] = field(default_factory=tuple)

    def saw(self, source: str) -> bool:
        """Whether a source answered."""
        return all(missing.source != source for missing in self.unseen)

    @property
    def saw_nodes(self) -> bool:
        """Whether Kubernetes answered which nodes there are."""
        return NODES in self.sources and self.saw("Kubernetes") and self.saw(NODES)

    def answers(self, node: str) -> bool:
        """Whether a node is ready, as far as may be seen: without a view of nodes, none counts as lost."""
        if not self.saw_nodes:
            return True
        return node in self._ready_nodes

    @functools.cached_property
    def _ready_nodes(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes if node.ready)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node."""
        return self._pods_by_node.get(node, [])

    @functools.cached_property
    def _pods_by_node(self) -> dict[str, list[Pod]]:
        pods: dict[str, list[Pod]] = {}
        for pod in self.pods:
            pods.setdefault(pod.node, []).append(pod)
        return pods

    def group(self, name: str) -> Group | None:
        """The instance group of that name, where HyperPod knows it."""
        return next((group for group in (self.cluster.groups if self.cluster else ()) if group.name == name), None)

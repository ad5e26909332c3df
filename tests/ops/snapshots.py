"""Snapshots for the tests of verdicts: a healthy environment, and small changes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hyperpod_ray.core.names import STACKS, node_name
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    Cluster,
    ClusterEvent,
    Controller,
    FileSystem,
    Group,
    Instance,
    Job,
    Node,
    RayCluster,
    Snapshot,
    Stack,
)
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import Verdict

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def instance(number: int, group: str = "workers", status: str = "Running", **more: object) -> Instance:
    kind = "ml.m5.2xlarge" if group == "head" else "ml.g5.8xlarge"
    return replace(Instance(id=f"i-{number:017x}", group=group, type=kind, status=status, launched=ago(300)), **more)  # type: ignore[arg-type]


def node(of: Instance, **more: object) -> Node:
    usual = Node(name=node_name(of.id), ready=True, group=of.group, health="Schedulable", since=ago(300))
    return replace(usual, **more)  # type: ignore[arg-type]


def pod(name: str, on: Instance | None, role: str = "worker", **more: object) -> Pod:
    made = Pod(
        name=name, namespace="ray", cluster="ray", role=role, group="gpu", phase="Running", ready=True,
        node=node_name(on.id) if on else "", created=ago(200), instance_group="head" if role == "head" else "workers",
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def event(
    minutes: float, of: Instance | None = None, *, level: str = "Info", group: str = "", failure: str = ""
) -> ClusterEvent:
    return ClusterEvent(
        id=f"event-{minutes}", time=ago(minutes), level=level, description="something", failure=failure,
        resource="Instance" if of else "InstanceGroup" if group else "Cluster",
        group=of.group if of else group, instance=of.id if of else "",
    )  # fmt: skip


HEAD, SPARE_HEAD = instance(1, "head"), instance(2, "head")
ONE, TWO, THREE = instance(3), instance(4), instance(5)


def healthy() -> Snapshot:
    everyone = (HEAD, SPARE_HEAD, ONE, TWO, THREE)
    groups = (
        Group(name="head", type="ml.m5.2xlarge", target=2, current=2, accelerated=False),
        Group(name="workers", type="ml.g5.8xlarge", target=3, current=3, accelerated=True),
    )
    return Snapshot(
        environment="demo",
        at=NOW,
        stacks=tuple(Stack(name=f"demo-{name}", status="CREATE_COMPLETE") for name in STACKS),
        cluster=Cluster(name="c", arn="arn:…/abc", status="InService", groups=groups, created=ago(600)),
        instances=everyone,
        nodes=tuple(node(item) for item in everyone),
        pods=(pod("ray-head", HEAD, role="head"), pod("w1", ONE), pod("w2", TWO)),
        ray_clusters=(
            RayCluster(name="ray", namespace="ray", state="ready", desired_workers=2, ready_workers=2, since=ago(200)),
        ),
        file_systems=(FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200),),
        claims=(Claim(name="fsx", namespace="ray", phase="Bound"),),
        controllers=tuple(controller(item) for item in CONTROLLERS),
        eks_cluster="c-eks",
    )


CONTROLLERS = (
    ("KubeRay operator", "kuberay-operator", "Deployment", "kuberay-operator", 2, True),
    ("CoreDNS", "kube-system", "Deployment", "coredns", 2, True),
    ("FSx CSI driver's controller", "kube-system", "Deployment", "fsx-csi-controller", 2, False),
    ("FSx CSI driver's node daemon", "kube-system", "DaemonSet", "fsx-csi-node", 5, True),
    ("HyperPod's health-monitoring agent", "aws-hyperpod", "DaemonSet", "health-monitoring-agent", 3, False),
    ("NVIDIA device plugin", "kube-system", "DaemonSet", "hyperpod-dependencies-nvidia-device-plugin", 3, True),
)


def controller(of: tuple[str, str, str, str, int, bool]) -> Controller:
    name, namespace, kind, workload, count, recovers = of
    return Controller(
        name=name, purpose="something stops", namespace=namespace, kind=kind, workload=workload, wanted=count,
        ready=count, recovers=recovers, types=("ml.g5.8xlarge",) if "agent" in name or "plugin" in name else (),
    )  # fmt: skip


def with_controller(seen: Snapshot, name: str, **more: object) -> Snapshot:
    changed = tuple(replace(item, **more) if item.name == name else item for item in seen.controllers)  # type: ignore[arg-type]
    assert changed != seen.controllers, name
    return replace(seen, controllers=changed)


JOB = Job(
    id="raysubmit_1", state="RUNNING", cluster="ray", namespace="ray", command="python train.py", started=ago(100)
)
RUN = Run(
    name="first", job="raysubmit_1", cluster="ray", namespace="ray", state="running", at=NOW, step=4000,
    step_seconds=0.9, best_step_seconds=0.8, longest_pause_seconds=6.0, steps_total=10_000, started=ago(99),
    state_since=ago(98), last_step_at=NOW - timedelta(seconds=1), last_checkpoint_at=ago(4), last_checkpoint_step=3900,
    events=tuple(RunEvent(at=ago(minutes), kind="save") for minutes in (16, 12, 8, 4)),
)  # fmt: skip


def trains(job: Job = JOB, run: Run | None = RUN, **more: object) -> Snapshot:
    """A healthy environment with one job, which publishes a run with some fields changed."""
    runs = () if run is None else (replace(run, **more),)  # type: ignore[arg-type]
    return replace(healthy(), jobs=(replace(job, run=run.name if run else ""),), runs=runs)


def with_instance(seen: Snapshot, old: Instance, **more: object) -> Snapshot:
    changed = replace(old, **more)  # type: ignore[arg-type]
    return replace(seen, instances=tuple(changed if item.id == old.id else item for item in seen.instances))


def with_node(seen: Snapshot, of: Instance, **more: object) -> Snapshot:
    name = node_name(of.id)
    return replace(seen, nodes=tuple(replace(item, **more) if item.name == name else item for item in seen.nodes))  # type: ignore[arg-type]


def with_pod(seen: Snapshot, name: str, **more: object) -> Snapshot:
    return replace(seen, pods=tuple(replace(item, **more) if item.name == name else item for item in seen.pods))  # type: ignore[arg-type]


def with_cluster(seen: Snapshot, **more: object) -> Snapshot:
    assert seen.cluster
    return replace(seen, cluster=replace(seen.cluster, **more))  # type: ignore[arg-type]


def with_stack(seen: Snapshot, name: str, status: str, reason: str = "") -> Snapshot:
    stacks = tuple(replace(s, status=status, reason=reason) if s.name == f"demo-{name}" else s for s in seen.stacks)
    return replace(seen, stacks=stacks)


def without(seen: Snapshot, *gone: Instance) -> Snapshot:
    ids = {item.id for item in gone}
    return replace(
        seen,
        instances=tuple(item for item in seen.instances if item.id not in ids),
        nodes=tuple(item for item in seen.nodes if item.name not in {node_name(i) for i in ids}),
    )


def replaced(status: str, minutes: float, *, old: Instance = THREE) -> Snapshot:
    """`old` has gone and a fresh instance is in a state since so many minutes."""
    fresh = instance(9, status=status, launched=ago(minutes))
    seen = without(healthy(), old)
    return replace(seen, instances=(*seen.instances, fresh), events=(event(minutes, fresh),))


def said(verdict: Verdict) -> str:
    return " | ".join(f"{f.kind}: {f.what} ({f.why}) next {f.next}" for f in verdict.findings)

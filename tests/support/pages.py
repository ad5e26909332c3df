"""Views that tests and the browser look at: an environment in trouble, a run that lost a node, names that attack."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.names import STACKS, node_name
from hyperpod_ray.ops.journal.record import Record, read
from hyperpod_ray.ops.money.spend import run_usd, run_usd_per_hour
from hyperpod_ray.ops.observe.snapshot import (
    Cluster,
    ClusterEvent,
    FileSystem,
    Group,
    Instance,
    KubernetesEvent,
    Node,
    RayCluster,
    Snapshot,
    Stack,
    Unseen,
)
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.view import RunLine, View
from hyperpod_ray.pricing import price_file

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\"' onload=alert(2) &amp;"
"""A name that HTML must show as it is."""
FILE = """
account: "000000000001"
region: us-west-2
network: {availability_zone_ids: [usw2-az1, usw2-az2]}
hyperpod:
  cluster_name: ray-ops
  instance_groups:
    - {name: head, type: ml.m5.2xlarge, count: 2}
    - {name: workers, type: ml.p5.48xlarge, count: 5, data_volume_gib: 500}
storage: {mode: static, on_destroy: delete}
image: {on_destroy: delete}
ray:
  head: {instance_group: head, cpu: 2, memory_gib: 8}
  workers:
    - {name: gpu, instance_group: workers, replicas: 4}
"""


def plan(folder: Path) -> Plan:
    """The environment that the views are of."""
    (folder / "demo.yaml").write_text(FILE)
    return load("demo", folder=folder).plan


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def healthy() -> Snapshot:
    """Five GPU nodes, four of which train; two for the head."""
    heads = [_instance(number, "head", "ml.m5.2xlarge") for number in (1, 2)]
    workers = [_instance(number, "workers", "ml.p5.48xlarge") for number in range(3, 8)]
    return Snapshot(
        environment="demo",
        at=NOW,
        stacks=tuple(Stack(name=f"demo-{name}", status="CREATE_COMPLETE") for name in STACKS),
        cluster=Cluster(
            name="ray-ops", arn="arn:aws:sagemaker:us-west-2:000000000001:cluster/abc", status="InService",
            created=ago(3000), groups=(
                Group(name="head", type="ml.m5.2xlarge", target=2, current=2),
                Group(name="workers", type="ml.p5.48xlarge", target=5, current=5, accelerated=True),
            ),
        ),
        instances=(*heads, *workers),
        nodes=tuple(
            Node(name=node_name(one.id), ready=True, group=one.group, health="Schedulable", since=ago(300))
            for one in (*heads, *workers)
        ),
        pods=(_pod("ray-head-x2x4k", heads[0], "head"),
              *(_pod(f"ray-gpu-worker-{index}", one) for index, one in enumerate(workers[:4]))),
        ray_clusters=(RayCluster(name="ray", namespace="ray", state="ready", desired_workers=4, ready_workers=4),),
        file_systems=(
            FileSystem(id="fs-0123456789abcdef0", lifecycle="AVAILABLE", capacity_gib=4800, created=ago(3100)),
        ),
        events=tuple(
            ClusterEvent(id=f"e{number}", time=ago(290 - number), level="Info",
                         description="Instance joined the cluster", resource="Instance", group="workers",
                         instance=workers[number].id)
            for number in range(5)
        ),
    )  # fmt: skip


def troubled() -> Snapshot:
    """One node faulty with a fault that attacks, one source that does not answer."""
    from dataclasses import replace

    seen = healthy()
    lost = seen.instances[5]
    assert seen.cluster is not None
    return replace(
        seen,
        cluster=replace(seen.cluster, node_recovery="None"),
        instances=tuple(
            replace(instance, status="Failure", message=f"GPU fault {EVIL}") if instance.id == lost.id else instance
            for instance in seen.instances
        ),
        nodes=tuple(
            replace(node, ready=False, unreachable=True, since=ago(14), health="UnschedulablePendingReplacement",
                    fault=f"NVRM: Xid 79 {EVIL}") if node.name == node_name(lost.id) else node
            for node in seen.nodes
        ),
        events=(
            ClusterEvent(id="bad", time=ago(15), level="Error", resource="Instance", group="workers", instance=lost.id,
                         description="Instance is unhealthy", failure=f"Xid 79: GPU has fallen off the bus {EVIL}"),
            *seen.events,
        ),
        warnings=(KubernetesEvent(time=ago(13), reason="NodeNotReady", object="Pod/ray-gpu-worker-3",
                                  message=f"Node is not ready {EVIL}", count=3),),
        unseen=(Unseen(source="FSx metrics", why=f"not allowed {EVIL}", refused=True),),
    )  # fmt: skip


def _instance(number: int, group: str, kind: str) -> Instance:
    return Instance(id=f"i-{number:017x}", group=group, type=kind, status="Running", launched=ago(2900 - number))


def _pod(name: str, on: Instance, role: str = "worker") -> Pod:
    return Pod(
        name=name, namespace="ray", cluster="ray", role=role, group="gpu", phase="Running", ready=True,
        node=node_name(on.id), created=ago(200), instance_group="head" if role == "head" else "workers",
    )  # fmt: skip


def journal(*, steps: int = 900, every: float = 8.0, end: datetime = NOW) -> tuple[str, list[str]]:
    """`progress.json` and `events.jsonl` of a run that lost a node 14 minutes ago, and once did so before."""
    events: list[dict[str, object]] = []
    lost: dict[int, tuple[tuple[str, dict[str, object]], float, int, str]] = {
        380: (("lost", {"rank": 7, "node": "10.0.3.7", "message": "connection closed"}), 45.0, 375, "memory"),
        795: (("error", {"message": f"ActorDiedError: the worker's node died {EVIL}"}), 260.0, 750, "/fsx/runs/a"),
    }
    t, step = 0.0, 0

    def put(kind: str, **fields: object) -> None:
        events.append({"t": t, "kind": kind, **fields})

    while step < steps:
        step += 1
        t += every
        put(
            "step",
            step=step,
            loss=round(2.2 + 8 * math.exp(-step / 160) + 0.05 * math.sin(step * 12.9898), 5),
            world=32,
        )
        if step % 75 == 0:
            put("save", step=step, reason="interval", seconds=6.1, stall_s=0.4, world=32)
        if step in lost:
            (kind, fields), pause, back, path = lost.pop(step)
            t += 2
            put(kind, **fields)
            t += pause - every - 2
            put("restore", step=back, path=path, seconds=1.2, world=32)
            step = back
    assert not lost
    began, t = end.timestamp() - t, end.timestamp()
    lines = [json.dumps({**event, "t": round(began + float(str(event["t"])), 3)}) for event in events]
    progress = {
        "version": 1, "name": "llama", "state": "running", "t": t, "last_step": step, "last_step_t": t,
        "total_steps": 5000, "world_size": 32, "metrics": {"loss": 2.231}, "last_checkpoint_step": 900,
        "last_checkpoint_t": t, "last_checkpoint_path": "/fsx/runs/llama/step-00000900",
    }  # fmt: skip
    return json.dumps(progress), lines


def record(name: str = "llama-7b-first") -> Record:
    progress, lines = journal()
    return read(name, progress, lines)


def environment(folder: Path, seen: Snapshot | None = None, *, name: str = f"llama-7b {EVIL}") -> View:
    """The page's data of an environment with one run."""
    from dataclasses import replace

    made, prices, run = plan(folder), price_file.recorded(), record(name)
    shown = seen or troubled()
    return replace(
        view(made, shown, judge(shown), prices=prices),
        runs=(
            RunLine(name=run.name, state="RUNNING", tone="good", record=run,
                    usd=run_usd(made, prices, run),
                    usd_per_hour=run_usd_per_hour(made, prices, ranks=32)),
            RunLine(name="sweep-3", state="FAILED", tone="bad", started=ago(400), ended=ago(380),
                    command=f"python train.py --name {EVIL}", message=f"exit code 1 {EVIL}",
                    why_no_record="Its events lie on the shared file system."),
        ),
    )  # fmt: skip

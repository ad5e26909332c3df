"""What tests of `durations`, `hostlist`, `node_repair`, `ops_slurm`, `snapshot` share."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hyperpod_ray.ops.observe import slurm
from hyperpod_ray.ops.observe.snapshot import (
    SLURM,
    Cluster,
    Group,
    Instance,
    Snapshot,
)

RECORDED = Path(__file__).parent / "slurm_outputs"
ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
CONTROLLER = Instance(id="i-0123456789abcdef0", group="controller", type="ml.m5.4xlarge", status="Running")
WORKER = Instance(id="i-0123456789abcdef1", group="workers", type="ml.p5.48xlarge", status="Running")
CLUSTER = Cluster(
    name="train-slurm",
    arn=ARN,
    status="InService",
    groups=(
        Group(name="controller", type="ml.m5.4xlarge", target=1, current=1, role="Controller"),
        Group(name="workers", type="ml.p5.48xlarge", target=1, current=1, accelerated=True, role="Compute"),
    ),
)


def answer(state: str) -> str:
    """What the command prints in a recorded state, between what Session Manager prints around it."""
    nodes = (RECORDED / f"sinfo-N-{state}.txt").read_text(encoding="utf-8").splitlines()
    jobs = (RECORDED / f"squeue-o-{state}.txt").read_text(encoding="utf-8")
    return "\n".join(
        ["", "Starting session with SessionId: x", *nodes, slurm.MARK, jobs, slurm.DONE, "Exiting session", ""]
    )


def seen(state: str) -> Snapshot:
    return Snapshot(
        environment="slurm",
        at=datetime(2026, 11, 22, tzinfo=UTC),
        orchestrator="slurm",
        sources=("CloudFormation", "HyperPod", "HyperPod events", "FSx", SLURM),
        cluster=CLUSTER,
        instances=(CONTROLLER, WORKER),
        slurm=slurm.parsed(answer(state)),
    )


def judged(name: str) -> Any:
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))

"""A third orchestrator as a test double: Ray by KubeRay on a cluster that is a dictionary. It knows no AWS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from hyperpod_ray.core import names
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.core.loader import GoodFile
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.observe.node_rows import Row, row_of
from hyperpod_ray.ops.observe.snapshot import (
    Claim,
    Cluster,
    ClusterEvent,
    Group,
    Instance,
    RayCluster,
    Snapshot,
    Unseen,
)
from hyperpod_ray.ops.orchestrators.interface import (
    Inside,
    Noted,
    Orchestrator,
    Waits,
    Work,
)
from hyperpod_ray.ops.orchestrators.node_check import Measured, Request
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair, Verb, When
from hyperpod_ray.ops.orchestrators.run_files import File, Opened
from hyperpod_ray.ops.orchestrators.run_list import Run, Source, pick
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.tunnel import Mode

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)


class KubeRayEnvironment(Environment):
    """Its environment files."""

    orchestrator: Literal["kuberay"]  # type: ignore[assignment]


class KubeRayPlan(Plan):
    """What follows from them."""


@dataclass
class Cloud:
    """Everything that is there, and what was done to it."""

    nodes: dict[str, str] = field(default_factory=dict)
    """State of each node."""
    runs: dict[str, Run] = field(default_factory=dict)
    done: list[tuple[str, ...]] = field(default_factory=list)


CLOUD = Cloud()


class NoAws:
    """Credentials that nobody asks for anything else."""

    def require_account(self) -> str:
        return "nobody"


class KubeRayTarget(AnyTarget):
    """One environment."""

    def __init__(self, file: GoodFile, *, folder: Path | None) -> None:
        super().__init__(file, folder=folder)
        self.aws = NoAws()  # type: ignore[assignment]


def instances() -> tuple[Instance, ...]:
    return tuple(
        Instance(id=name, group="workers", type="ml.g5.48xlarge", status=state, launched=AT)
        for name, state in CLOUD.nodes.items()
    )


def cluster() -> Cluster:
    count = len(CLOUD.nodes)
    group = Group(name="workers", type="ml.g5.48xlarge", target=count, current=count, accelerated=True)
    return Cluster(name="kube", arn="", status="InService", node_recovery="None", groups=(group,), created=None)


@dataclass
class Operations:
    """All of it in one class: the interfaces are small enough."""

    target: KubeRayTarget
    group: str = "pods of kube"
    waits = Waits(
        goals=("cluster", "healthy"), after_cluster="Ray's pods start", mounts="pods", after_group="pods move"
    )

    def __post_init__(self) -> None:
        self.sources = self.nodes = self.jobs = self.runs = self.logs = self.repair = self.workloads = self
        self.node_check = self

    # --- node check
    def measured(self, request: Request) -> Measured:
        return Measured(answer={"answers": [], "busy": []}, hosts={})

    # --- sources
    def tasks(self, unseen: list[Unseen], noted: Noted) -> dict[str, Callable[[], dict[str, Any]]]:
        return {"kube": lambda: {"cluster": cluster(), "instances": instances()}}

    def identity(self) -> dict[str, Any]:
        return {}

    # --- nodes
    def look(self) -> Snapshot:
        return Snapshot(
            environment=self.target.name, at=AT, orchestrator="kuberay", sources=("kube",),
            cluster=cluster(), instances=instances(),
        )  # fmt: skip

    def find(self, name: str) -> Instance:
        for instance in instances():
            if instance.id == name:
                return instance
        raise OpsError(f"node: '{name}'", expected="a node of kube", fix="nodes list", code=BAD_USE)

    def details(self, instance: Instance) -> dict[str, Any]:
        return {"Kernel": "6.1"}

    def events(self, *, node: str = "", group: str = "", limit: int) -> list[ClusterEvent]:
        return [ClusterEvent(id="e1", time=AT, level="Error", description="kubelet stopped", instance=node)][:limit]

    def described(self, event: ClusterEvent) -> ClusterEvent:
        return replace(event, failure="disk full")

    def session(self, instance: Instance) -> str:
        return f"kube/{instance.id}"

    # --- jobs
    def submit(self, file: JobFile, *, runtime_env: Path | None, submission_id: str, address: str, wait: bool) -> int:
        name = submission_id or "job-1"
        CLOUD.runs[name] = Run(
            id=name, state="RUNNING", command=file.job.command, started=AT, ended=None, message="", exit_code=None,
            variables=(), working_dir="",
        )  # fmt: skip
        output.write_line(name)
        return OK

    def example(self) -> str:
        return "kubectl create -f rayjob.yaml"

    # --- runs
    def refuse(self, source: Source) -> None:
        if source.storage:
            raise OpsError("--storage", expected="none", fix="remove it", code=BAD_USE)

    def listed(
        self, source: Source, *, state: str, progress: bool, names: Sequence[str]
    ) -> tuple[list[Run], dict[str, State]]:
        runs = [run for run in CLOUD.runs.values() if state in ("", run.state.lower())]
        return [pick(runs, name, environment=self.target.name) for name in names] or runs, {}

    def tail(self, run: Run, source: Source, *, lines: int) -> list[str] | None:
        return ["step 1", "step 2"][-lines:]

    def log(self, name: str, *, following: bool, source: Source) -> int:
        output.write_line(f"log of {pick(list(CLOUD.runs.values()), name, environment=self.target.name).id}")
        return 7 if following else OK

    def stop(self, name: str, *, yes: bool, source: Source, limit_s: float) -> int:
        CLOUD.runs[name] = replace(CLOUD.runs[name], state="STOPPED", ended=AT)
        return OK

    @contextlib.contextmanager
    def files(self, folder: str, patterns: Sequence[str], source: Source) -> Iterator[Opened]:
        @contextlib.contextmanager
        def read(name: str) -> Iterator[Iterator[bytes]]:
            yield iter([b"weights"])

        yield [File(name="model.pt", bytes=7, crc32=None)], read

    # --- logs
    def reader(self, kind: str, *, node: str) -> Operations:
        CLOUD.done.append(("reader", kind, node))
        return self

    def read(self, begin: datetime, end: datetime | None) -> list[dict[str, Any]]:
        return [{"time": "2026-11-23T12:00:00Z", "kind": "lifecycle", "stream": "n1", "message": "joined"}]

    # --- repair
    def planned(self, nodes: Sequence[str], *, verb: Verb, when: When | None) -> NodeRepair:
        return NodeRepair(when=when or "now", instances=tuple(map(self.find, nodes)), lines=("no pod is there",))

    def outcome(self, verb: Verb) -> str:
        return "the node pool starts another one"

    def carry_out(self, repair: NodeRepair, *, verb: Verb) -> str:
        for instance in repair.instances:
            CLOUD.nodes[instance.id] = "Pending"
            CLOUD.done.append((verb, instance.id, repair.when))
        return "watch the pool"

    def drill(self, node: str, *, action: str, yes: bool) -> int:
        CLOUD.done.append(("drill", node, action))
        return OK

    def free(self, node: str, *, yes: bool) -> int:
        CLOUD.done.append(("free", node))
        return OK

    # --- workloads
    def inside(self) -> Inside | None:
        return None

    def created_for(self, claim: Claim) -> bool:
        return False

    def delete(self, ray_clusters: Sequence[RayCluster], jobs: Sequence[str]) -> None: ...

    def left(self) -> list[str]:
        return []

    def delete_claims(self, claims: Sequence[Claim]) -> None: ...

    def deletes_volumes(self, driver: str = names.CSI_DRIVER) -> bool:
        return False

    def way(self) -> tuple[str, Callable[[], Any]] | None:
        return None


class KubeRay:
    """The orchestrator."""

    def target(self, file: GoodFile, *, folder: Path | None, mode: Mode) -> KubeRayTarget:
        return KubeRayTarget(file, folder=folder)

    def operations(self, target: KubeRayTarget) -> Operations:
        return Operations(target)

    def rows(self, seen: Snapshot) -> list[Row]:
        return [row_of(seen, instance, None, 0, without="in kube") for instance in seen.instances]

    def table(self, rows: Sequence[Row], *, wide: bool) -> Table:
        table = output.table("Node", "Kube")
        for row in rows:
            table.add_row(row.id, row.kubernetes)
        return table

    def work(self, seen: Snapshot) -> Work:
        return Work(known=True, trains_known=False, busy=frozenset({"n1"}), ready_since={}, idle="nothing on")


ORCHESTRATOR: Orchestrator[GoodFile, KubeRayTarget] = KubeRay()

"""Slurm: jobs of sbatch on the nodes themselves. What its commands do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core.loader import SlurmFile
from hyperpod_ray.ops.observe.node_rows import Row
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.orchestrators.hyperpod_logs import HyperPodLogs
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from hyperpod_ray.ops.orchestrators.interface import Orchestrator, Waits, Work
from hyperpod_ray.ops.orchestrators.slurm import nodes
from hyperpod_ray.ops.orchestrators.slurm.jobs import SlurmJobs
from hyperpod_ray.ops.orchestrators.slurm.node_check import SlurmNodeCheck
from hyperpod_ray.ops.orchestrators.slurm.repair import SlurmRepair
from hyperpod_ray.ops.orchestrators.slurm.runs import SlurmRuns
from hyperpod_ray.ops.orchestrators.slurm.sources import SlurmSources
from hyperpod_ray.ops.orchestrators.slurm.workloads import SlurmWorkloads
from hyperpod_ray.ops.reach.clients import SlurmTarget
from hyperpod_ray.ops.reach.tunnel import Mode

if TYPE_CHECKING:
    from rich.table import Table

WAITS = Waits(
    goals=("cluster", "storage", "healthy"),
    after_cluster="nodes join Slurm, then jobs start",
    mounts="nodes",
    after_group="jobs start there",
)


class SlurmOperations:
    """The operations of one environment."""

    waits = WAITS

    def __init__(self, target: SlurmTarget) -> None:
        self.target = target
        self.sources = SlurmSources(target)
        self.nodes = HyperPodNodes(target)
        self.jobs = SlurmJobs(target)
        self.runs = SlurmRuns(target)
        self.logs = HyperPodLogs(target, self.nodes)
        self.repair = SlurmRepair(target, self.nodes)
        self.node_check = SlurmNodeCheck(target, self.nodes)
        self.workloads = SlurmWorkloads()

    def way(self) -> tuple[str, Callable[[], Any]] | None:
        """The nodes are reached one by one, when they are asked."""
        return None


class Slurm:
    """The orchestrator: its environments, and how a snapshot of one reads."""

    def target(self, file: SlurmFile, *, folder: Path | None, mode: Mode) -> SlurmTarget:
        """An environment, from its file."""
        del mode  # there is no Kubernetes API to tunnel to
        return SlurmTarget(file, folder=folder)

    def operations(self, target: SlurmTarget) -> SlurmOperations:
        """The operations of an environment."""
        return SlurmOperations(target)

    def rows(self, seen: Snapshot) -> list[Row]:
        """Instances with their nodes, then nodes without an instance."""
        return nodes.rows(seen)

    def table(self, rows: Sequence[Row], *, wide: bool) -> Table:
        """Nodes as a table."""
        return nodes.table(rows, wide=wide)

    def work(self, seen: Snapshot) -> Work:
        """What runs where."""
        return nodes.work(seen)


ORCHESTRATOR: Orchestrator[SlurmFile, SlurmTarget] = Slurm()

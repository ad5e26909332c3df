"""EKS: Ray on Kubernetes. What its commands do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core.loader import EnvironmentFile
from hyperpod_ray.ops.observe.node_rows import Row
from hyperpod_ray.ops.observe.snapshot import Snapshot
from hyperpod_ray.ops.orchestrators.eks import nodes, way
from hyperpod_ray.ops.orchestrators.eks.jobs import EksJobs
from hyperpod_ray.ops.orchestrators.eks.node_check import EksNodeCheck
from hyperpod_ray.ops.orchestrators.eks.repair import EksRepair
from hyperpod_ray.ops.orchestrators.eks.runs import EksRuns
from hyperpod_ray.ops.orchestrators.eks.sources import EksSources
from hyperpod_ray.ops.orchestrators.eks.workloads import EksWorkloads
from hyperpod_ray.ops.orchestrators.hyperpod_logs import HyperPodLogs
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from hyperpod_ray.ops.orchestrators.interface import Orchestrator, Waits, Work
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.tunnel import Mode

if TYPE_CHECKING:
    from rich.table import Table

WAITS = Waits(
    goals=("cluster", "storage", "ray", "healthy"),
    after_cluster="nodes join, then Ray's pods start",
    mounts="Ray's pods",
    after_group="Ray's pods move in",
)


class EksOperations:
    """The operations of one environment."""

    waits = WAITS

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sources = EksSources(target)
        self.nodes = HyperPodNodes(target)
        self.jobs = EksJobs(target)
        self.runs = EksRuns(target)
        self.logs = HyperPodLogs(target, self.nodes)
        self.repair = EksRepair(target, self.nodes)
        self.node_check = EksNodeCheck(target, self.nodes)
        self.workloads = EksWorkloads(target)

    def way(self) -> tuple[str, Callable[[], Any]] | None:
        """The Kubernetes API from this machine."""
        return "way to Kubernetes", lambda: way.way(self.target)


class Eks:
    """The orchestrator: its environments, and how a snapshot of one reads."""

    def target(self, file: EnvironmentFile, *, folder: Path | None, mode: Mode) -> Target:
        """An environment, from its file."""
        return Target(file, folder=folder, mode=mode)

    def operations(self, target: Target) -> EksOperations:
        """The operations of an environment."""
        return EksOperations(target)

    def rows(self, seen: Snapshot) -> list[Row]:
        """Instances with their nodes, then nodes without an instance."""
        return nodes.rows(seen)

    def table(self, rows: Sequence[Row], *, wide: bool) -> Table:
        """Nodes as a table."""
        return nodes.table(rows, wide=wide)

    def work(self, seen: Snapshot) -> Work:
        """What runs where."""
        return nodes.work(seen)


ORCHESTRATOR: Orchestrator[EnvironmentFile, Target] = Eks()

"""What an orchestrator has to have, as interfaces. `eks/` and `slurm/` implement them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hyperpod_ray.core import names
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.core.loader import GoodFile
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.observe.node_rows import Row
from hyperpod_ray.ops.observe.snapshot import Claim, ClusterEvent, Instance, RayCluster, Snapshot, Unseen
from hyperpod_ray.ops.orchestrators.node_check import Measured, Request
from hyperpod_ray.ops.orchestrators.node_repair import NodeRepair, Verb, When
from hyperpod_ray.ops.orchestrators.run_files import Opened
from hyperpod_ray.ops.orchestrators.run_list import Run, Source
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.tunnel import Mode

if TYPE_CHECKING:
    from rich.table import Table

File_contra = TypeVar("File_contra", bound=GoodFile, contravariant=True)
TargetT = TypeVar("TargetT", bound=AnyTarget)
Noted = Callable[[str], AbstractContextManager[None]]
"""Notes a failure inside as a source that did not answer."""


class Sources(Protocol):
    """What a snapshot asks."""

    def tasks(self, unseen: list[Unseen], noted: Noted) -> dict[str, Callable[[], dict[str, Any]]]:
        """Every source by its name, with what asks it for parts of the snapshot."""

    def identity(self) -> dict[str, Any]:
        """Parts of the snapshot that are known without a question, such as the name of the RayCluster."""


class Nodes(Protocol):
    """Nodes and what is known of each."""

    def look(self) -> Snapshot:
        """What concerns nodes; an error where they cannot be named."""

    def find(self, name: str) -> Instance:
        """The node that a name or a unique beginning of its ID means; an error where it means none or several."""

    def details(self, instance: Instance) -> dict[str, Any]:
        """What the service says of one node beside its state."""

    def events(self, *, node: str = "", group: str = "", limit: int) -> list[ClusterEvent]:
        """Events of the cluster, a group or a node, newest first, without failure messages."""

    def described(self, event: ClusterEvent) -> ClusterEvent:
        """An event with its failure message."""

    def session(self, instance: Instance) -> str:
        """How Session Manager names the node."""


class Jobs(Protocol):
    """Submission of a job."""

    def submit(self, file: JobFile, *, runtime_env: Path | None, submission_id: str, address: str, wait: bool) -> int:
        """Check, submit and follow a job; the exit code of the job where it failed."""

    def example(self) -> str:
        """A command line that submits a job."""


class Runs(Protocol):
    """Runs, by what started them or by their folders."""

    def refuse(self, source: Source) -> None:
        """Refuse options that have no meaning here."""

    def listed(
        self, source: Source, *, state: str, progress: bool, names: Sequence[str]
    ) -> tuple[list[Run], dict[str, State]]:
        """Runs of a source, newest first or as `names` has them, and what their folders say."""

    def tail(self, run: Run, source: Source, *, lines: int) -> list[str] | None:
        """The newest lines of a run's log; None where no command shows the log."""

    def log(self, name: str, *, following: bool, source: Source) -> int:
        """Print a run's log."""

    def stop(self, name: str, *, yes: bool, source: Source, limit_s: float) -> int:
        """Stop a run, and wait until it has ended."""

    def files(self, folder: str, patterns: Sequence[str], source: Source) -> AbstractContextManager[Opened]:
        """Files of a folder on the shared file system."""


class LogReader(Protocol):
    """Log lines of nodes."""

    group: str
    """Where they are kept."""

    def read(self, begin: datetime, end: datetime | None) -> list[dict[str, Any]]:
        """Lines that were not read before, by time, each with `time`, `kind`, `stream` and `message`."""


class Logs(Protocol):
    """Logs of nodes."""

    def reader(self, kind: str, *, node: str) -> LogReader:
        """What reads logs of a kind, or `all`, of every node or of one."""


class Repair(Protocol):
    """Repair of nodes."""

    def planned(self, nodes: Sequence[str], *, verb: Verb, when: When | None) -> NodeRepair:
        """What is done when, and what it costs; an error where it must not be done."""

    def outcome(self, verb: Verb) -> str:
        """What becomes of a node's name, address and disks."""

    def carry_out(self, repair: NodeRepair, *, verb: Verb) -> str:
        """Do it; write the nodes that it was accepted for. Returns the advice for whoever waits."""

    def drill(self, node: str, *, action: str, yes: bool) -> int:
        """Make a node faulty on purpose."""

    def free(self, node: str, *, yes: bool) -> int:
        """Free the work of a node that is gone for good."""


class NodeCheck(Protocol):
    """The acceptance test of nodes."""

    def measured(self, request: Request) -> Measured:
        """What the programs of `nodes check` answer; an error where they cannot run."""


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What of an environment is inside its cluster."""

    ray_clusters: tuple[RayCluster, ...] = ()
    jobs: tuple[str, ...] = ()
    """RayJobs, as `NAMESPACE/NAME`."""
    claims: tuple[Claim, ...] = ()
    balancers: tuple[str, ...] = ()
    """Services with a load balancer, which no stack knows, as `NAMESPACE/NAME`."""


class Workloads(Protocol):
    """What goes before the stacks do."""

    def inside(self) -> Inside | None:
        """What is inside the cluster; None where there is no cluster that could hold it."""

    def created_for(self, claim: Claim) -> bool:
        """Whether a claim's volume was created for it."""

    def delete(self, ray_clusters: Sequence[RayCluster], jobs: Sequence[str]) -> None:
        """Delete RayJobs and RayClusters."""

    def left(self) -> list[str]:
        """Pods that are still there."""

    def delete_claims(self, claims: Sequence[Claim]) -> None:
        """Delete volume claims."""

    def deletes_volumes(self, driver: str = names.CSI_DRIVER) -> bool:
        """Whether something in the cluster still deletes what a CSI driver created for claims."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """What can be waited for, and what follows it."""

    goals: tuple[str, ...]
    """Besides instance groups."""
    after_cluster: str
    mounts: str
    """Who mounts the shared file system."""
    after_group: str


@dataclass(frozen=True, kw_only=True)
class Work:
    """What runs where, as a snapshot shows it. Nodes have their names in Kubernetes."""

    known: bool
    trains_known: bool
    """Whether it is known which job trains."""
    busy: frozenset[str] = frozenset()
    ready: frozenset[str] | None = None
    """Nodes that can take work; None where that is not known."""
    ready_since: Mapping[str, datetime | None]
    idle: str
    """Says of nodes that they have no work; continues with their names."""


class Operations(Protocol):
    """The operations of one environment."""

    @property
    def sources(self) -> Sources:
        """What a snapshot asks."""

    @property
    def nodes(self) -> Nodes:
        """Nodes."""

    @property
    def jobs(self) -> Jobs:
        """Submission."""

    @property
    def runs(self) -> Runs:
        """Runs."""

    @property
    def logs(self) -> Logs:
        """Logs of nodes."""

    @property
    def repair(self) -> Repair:
        """Repair of nodes."""

    @property
    def node_check(self) -> NodeCheck:
        """The acceptance test of nodes."""

    @property
    def workloads(self) -> Workloads:
        """What teardown deletes before the stacks."""

    @property
    def waits(self) -> Waits:
        """What `wait` waits for."""

    def way(self) -> tuple[str, Callable[[], Any]] | None:
        """Title and check of the way to the cluster, for `preflight`; None where there is none to check."""


class Orchestrator(Protocol[File_contra, TargetT]):
    """One orchestrator: what `ORCHESTRATOR` of its package is."""

    def target(self, file: File_contra, *, folder: Path | None, mode: Mode) -> TargetT:
        """An environment of its own, from its file."""

    def operations(self, target: TargetT) -> Operations:
        """The operations of an environment of its own."""

    def rows(self, seen: Snapshot) -> list[Row]:
        """Instances joined with their nodes, then nodes without an instance."""

    def table(self, rows: Sequence[Row], *, wide: bool) -> Table:
        """Nodes as a table."""

    def work(self, seen: Snapshot) -> Work:
        """What runs where."""


AnyOrchestrator = Orchestrator[GoodFile, AnyTarget]
"""One of those that are registered, whichever."""

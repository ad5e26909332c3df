"""What can be set for a rehearsal, and what follows from it: the run's length, the pods there must be."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hyperpod_ray_sandbox.rehearsal.fault_names import require_known
from hyperpod_ray_sandbox.rehearsal.ray_hosts.errors import LocalError
from hyperpod_ray_sandbox.rehearsal.ray_hosts.manifest import Manifest
from hyperpod_ray_sandbox.rehearsal.report import FaultReport

PROJECT = Path(__file__).resolve().parents[2]
OUT = Path(".rehearsal")

FINAL = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Listener(Protocol):
    """Whoever shows a rehearsal's progress."""

    def line(self, t: float, text: str) -> None:
        """Something happened, `t` seconds after the start."""

    def progress(self, *, run: str, step: int, steps: int, loss: float | None, doing: str) -> None:
        """Where the run is."""

    def fault(self, report: FaultReport) -> None:
        """A fault is over."""


class Silent:
    """Shows nothing."""

    def line(self, t: float, text: str) -> None:
        """Nothing."""

    def progress(self, *, run: str, step: int, steps: int, loss: float | None, doing: str) -> None:
        """Nothing."""

    def fault(self, report: FaultReport) -> None:
        """Nothing."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be set for a rehearsal.

    Args:
        faults: names, in this order; see `hyperpod_ray_sandbox.rehearsal.faults.FAULTS`.
        job: folder in `jobs/`.
        job_folder: a folder with a `train.py` of the same arguments, instead of `jobs/JOB` (a baseline's).
        interval: steps between two checkpoints.
        step_delay_s: seconds each step is slowed down by.
        replace_after_s: seconds from a lost machine to its replacement's start (minutes on HyperPod).
        elastic_gap_s: for `elastic`: seconds of work at the smaller size before the lost machine's replacement starts.
        drain_s: seconds from SIGTERM to the end of a drained pod (`RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S`; the
            environment's is longer).
        fault_timeout_s: most seconds to wait for the job's first steps, and for a new step after a fault.
        max_pods: most pods of one worker group.
        spares: nodes that stand by, beyond those that train; 0 rehearses a run without spares.
        ranks_per_node: training processes of a node.
        pod_env: set on every pod on top of the manifest's (a baseline without the tuned settings, for example).
        job_env: set on driver and workers.
        job_arguments: further arguments of the job.
        undisturbed: hold the losses against an undisturbed run; off only for baselines that cannot agree with one.
    """

    faults: tuple[str, ...] = ("worker", "node", "freeze")
    job: str = "finetune"
    job_folder: Path | None = None
    interval: int = 10
    step_delay_s: float = 0.15
    replace_after_s: float = 2.0
    elastic_gap_s: float = 3.0
    drain_s: int = 12
    fault_timeout_s: float = 240.0
    max_pods: int = 2
    spares: int = 0
    ranks_per_node: int = 1
    pod_env: dict[str, str] = field(default_factory=dict)
    job_env: dict[str, str] = field(default_factory=dict)
    job_arguments: tuple[str, ...] = ()
    undisturbed: bool = True

    @property
    def standbys(self) -> bool:
        """Whether each node with workers has a standby; off only for baselines."""
        return self.job_env.get("RESILIENCE_STANDBY_WORKERS") != "0"

    @property
    def run_env(self) -> dict[str, str]:
        """What the disturbed run is started with; a driver stands by only where a fault kills the driver."""
        # its imports take seconds of a processor beside the ranks' own
        return self.job_env if "driver" in self.faults else {"RESILIENCE_STANDBY_DRIVER": "false"} | self.job_env

    def __post_init__(self) -> None:
        require_known(self.faults)
        for name, seconds in (("step-delay", self.step_delay_s), ("fault-timeout", self.fault_timeout_s)):
            if not seconds > 0:
                raise LocalError(f"--{name}: {seconds:g}", expected="more than 0", fix="correct the option")
        if self.interval < 4:
            raise LocalError(
                f"--interval: {self.interval}",
                expected="4 or more: a fault must fit between two checkpoints",
                fix="correct the option",
            )
        for name, value, minimum in (("spares", self.spares, 0), ("ranks-per-node", self.ranks_per_node, 1)):
            if value < minimum:
                raise LocalError(f"--{name}: {value}", expected=f"{minimum} or more", fix="correct the option")


def with_spare_pods(manifest: Manifest, *, max_replicas: int, spares: int) -> Manifest:
    """The manifest with `spares` more pods in its first group that has any; the others keep at most `max_replicas`."""
    if not spares:
        return manifest
    out: dict[str, Any] = copy.deepcopy(dict(manifest))
    group = next((g for g in out["spec"]["workerGroupSpecs"] if int(g.get("replicas") or 0)), None)
    if group is None:
        raise LocalError(
            "--spares: no worker group with a pod", expected="one", fix="set replicas of a worker group to 1 or more"
        )
    group["replicas"] = min(int(group["replicas"]) * int(group.pop("numOfHosts", None) or 1), max_replicas) + spares
    return out

"""What a rehearsal on Slurm found, beside the figures that were measured before. No process and no clock in here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hyperpod_ray_sandbox.rehearsal.report import FaultReport, RunReport
from hyperpod_ray_training.history import Event

SCHEMA_VERSION = 1
BEFORE_S = {
    ("node", "tuned"): 15.2,
    ("batch-host", "tuned"): 33.9,
    ("batch-host", "default"): 150.1,
}
"""Seconds to the first new step: Debian 12, slurm-wlm 22.05.8, two cores at load 11, replacement after 3 s."""
NOT_SHOWN = (
    "HyperPod's auto-resume plugin: a stand-in does what the guide says of it; the plugin's own times are not known",
    "node replacement: HyperPod takes minutes to tens of minutes; here it is a set delay",
    "health checks: a lost node is noticed after a second here; DCGM, EFA and stress checks do not run",
    "NCCL, EFA and FSx for Lustre: training here is gloo on loopback and a local folder",
)
HEADINGS = ("fault", "at step", "back in", "before", "lost", "by", "nodes")


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One fault.

    Args:
        report: Times and losses, as of every rehearsal.
        by: What brought the run back: `auto-resume`, `requeue`, `spare`, `Ray` within the running step, or `no pause`.
        nodes_before: Nodes of the job when the fault hit.
        nodes_after: Its nodes at the first new step.
        restarts: `Restarts` of the job then: how often Slurm queued it again.
    """

    report: FaultReport
    by: str
    nodes_before: tuple[str, ...]
    nodes_after: tuple[str, ...]
    restarts: int


@dataclass(frozen=True, kw_only=True)
class SlurmReport:
    """The whole rehearsal."""

    slurm: str
    launcher: str
    job: str
    timers: str
    settings: dict[str, Any]
    faults: list[Recovery]
    run: RunReport
    seconds: float
    machine: dict[str, Any]
    log: list[list[Any]] = field(default_factory=list)
    not_shown: tuple[str, ...] = NOT_SHOWN
    version: int = SCHEMA_VERSION

    @property
    def survived(self) -> bool:
        """Every fault was survived, and every loss is the undisturbed run's."""
        return (
            all(fault.report.survived for fault in self.faults)
            and self.run.status == "COMPLETED"
            and self.run.equal
            and self.run.steps_compared > 0
            and self.run.steps_different == 0
        )

    def to_json(self) -> str:
        """As JSON, with `survived`."""
        return json.dumps({**asdict(self), "survived": self.survived}, indent=1, default=str)


def how(*, restarts_before: int, restarts_after: int, interrupted: bool, started: bool, from_memory: bool) -> str:
    """What brought the run back.

    Args:
        restarts_before: How often Slurm had queued the job again before the fault.
        restarts_after: And after it.
        interrupted: Whether work was restored.
        started: Whether the training script began again, and not its workers alone.
        from_memory: Whether the others gave their state to the rank that was lost.
    """
    if restarts_after > restarts_before:
        return "requeue"
    if not interrupted:
        return "no pause"
    if started:
        return "auto-resume"
    return "spare" if from_memory else "Ray"


def warm_spares(events: Sequence[Event], *, since: float) -> int:
    """How many spares could take a rank at once, as the coordinator last said; 0 where it has said nothing since."""
    counts = (
        event.values["warm_spares"] for event in reversed(events) if "warm_spares" in event.values and event.t > since
    )
    return int(next(counts, 0))


def rank_to_lose(ranks: Mapping[str, Mapping[str, Any]], *, batch_host: str, first_address: int) -> str:
    """The node of the highest rank that is not on the batch host, whose loss nothing on the node survives.

    Args:
        ranks: Of a `generation` event: who holds each rank.
        batch_host: Where Ray's head is.
        first_address: Node nK has the address whose last part is this and K.
    """
    hosts = [f"n{int(str(ranks[rank]['node']).rpartition('.')[2]) - first_address}" for rank in sorted(ranks, key=int)]
    return next(name for name in reversed(hosts) if name != batch_host)


def rows(report: SlurmReport) -> list[tuple[str, ...]]:
    """The table's lines."""
    out: list[tuple[str, ...]] = []
    for outcome in report.faults:
        fault_report = outcome.report
        back = (
            "never"
            if not fault_report.survived
            else f"{fault_report.recovery_s:.1f} s"
            if fault_report.interrupted
            else "no pause"
        )
        before = BEFORE_S.get((fault_report.fault, report.timers)) if report.launcher == "torchrun" else None
        changed = outcome.nodes_before != outcome.nodes_after
        nodes = ",".join(outcome.nodes_before) + (f" → {','.join(outcome.nodes_after)}" if changed else "")
        out.append(
            (
                fault_report.fault, str(fault_report.step), back, "-" if before is None else f"{before:.1f} s",
                str(fault_report.steps_lost), outcome.by, nodes,
            )
        )  # fmt: skip
    return out


def verdict(report: SlurmReport) -> str:
    """One line."""
    run = report.run
    if not report.survived:
        return (
            f"not survived: job {run.status}, {run.steps_different} of {run.steps_compared} losses differ from the "
            "undisturbed run's"
        )
    return (
        f"survived: {run.steps_compared} losses are the undisturbed run's to the last bit, final loss {run.final_loss}"
    )


def needed_steps(faults: Sequence[str], *, interval: int, step_delay_s: float, away_s: float) -> int:
    """Steps of a run that has room for each fault. Training continues while the controller is away."""
    alone = sum(fault == "controller" for fault in faults)
    return interval * (2 * len(faults) + 2) + alone * int(2 * away_s / step_delay_s)

"""What a rehearsal found, and the arithmetic that gets there. No process and no clock in here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray_training.history import Event, steps

SCHEMA_VERSION = 1
NOT_SHOWN = (
    "NCCL and EFA: training here is gloo on CPU; a broken fabric or a GPU fault looks different and is found otherwise",
    "node replacement time: HyperPod takes minutes (reboot 1-3, replacement 20-30); here it is a set delay",
    "FSx for Lustre: checkpoints here go to a local folder; on the cluster their size and the file system set the time",
    "Kubernetes: no kubelet, scheduler or KubeRay runs here; what they would do is done by the rehearsal",
)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Something the rehearsal saw from outside the job: a node's or job's state changing."""

    t: float
    what: str


@dataclass(frozen=True, kw_only=True)
class Injected:
    """A fault as it was done."""

    fault: str
    t: float
    step: int
    target: str
    run: str


@dataclass(frozen=True, kw_only=True)
class FaultReport:
    """What became of one fault. Seconds unless the name says otherwise; None: did not happen.

    Args:
        fault: worker, node, freeze, hang, drain, elastic, driver or head.
        run: the run it hit.
        target: pod, process or rank.
        t: unix seconds of the fault.
        step: newest step when it hit.
        detected_after_s: from the fault to the first sign of it (`detected_by`).
        resumed_after_s: from the fault to the first new step.
        recovery_s: without progress: from the fault, or from the last step where work continued after it (a drain),
            to the first new step.
        steps_lost: steps done that had to be done again.
        checkpoint_step: the step it resumed from; None where nothing was interrupted.
        checkpoint: the folder it resumed from.
        interrupted: whether the workers were restarted.
        resubmitted: whether the job had to be submitted again.
        survived: whether a new step followed.
        world: workers after it.
        full_size_after_s: (elastic) from the fault to the first step at full size again.
        head_back_after_s: (head) from the fault to the new head's first list of nodes.
        taken_over_by: who has the lost rank: a standby, a spare, a new worker or nobody (fewer workers); None where all
            workers were started again.
    """

    fault: str
    run: str
    target: str
    t: float
    step: int
    detected_after_s: float | None
    detected_by: str | None
    resumed_after_s: float | None
    recovery_s: float | None
    steps_lost: int
    checkpoint_step: int | None
    checkpoint: str | None
    interrupted: bool
    resubmitted: bool
    survived: bool
    world: int | None
    full_size_after_s: float | None = None
    head_back_after_s: float | None = None
    taken_over_by: str | None = None


def measure(
    injected: Injected,
    events: Sequence[Event],
    *,
    until: float,
    observations: Sequence[Observation] = (),
    heads: Sequence[float] = (),
    resubmitted: bool = False,
    recovered: bool = True,
) -> FaultReport:
    """Times and losses of one fault.

    Args:
        injected: what was done.
        events: all events of the run, in order.
        until: unix seconds; the next fault, or the end. Later events belong to something else.
        observations: what was seen from outside.
        heads: when a new head first answered.
        resubmitted: whether the job was submitted again because of it.
        recovered: False where the rehearsal gave up waiting; a step that was under way when the fault hit is then not
            taken for a recovery.
    """
    window = [event for event in events if injected.t < event.t <= until]
    restart = next((event for event in window if event.kind == "restore"), None)
    from_zero = next((event for event in window if event.kind == "start" and event.worker), None)
    resumption = restart or from_zero
    done = [event for event in steps(list(events)) if resumption is None or event.t < resumption.t]
    before = [event for event in done if resumption is not None or event.t <= injected.t]
    last_step = before[-1] if before else None
    recovered_step = (
        next((event for event in steps(window) if resumption is None or event.t > resumption.t), None)
        if recovered
        else None
    )

    signs = [(event.t, _sign(event)) for event in window if event.kind in _SIGNS]
    signs += [(o.t, o.what) for o in observations if injected.t < o.t <= until]
    signs += [(event.t, "new workers") for event in window if event.kind == "start" and event.worker]
    signs = (
        [sign for sign in signs if recovered_step is None or sign[0] <= recovered_step.t]
        if resumption is not None
        else signs
    )
    first_sign = min(signs, default=None)

    restored = (restart.step or 0) if restart else 0
    full = None
    if injected.fault == "elastic" and last_step is not None:
        world = last_step.values.get("world")
        shrunk = next((e for e in steps(window) if e.values.get("world", 0) < (world or 0)), None)
        grown = next((e for e in steps(window) if shrunk and e.t > shrunk.t and e.values.get("world") == world), None)
        full = grown.t - injected.t if grown else None
    return FaultReport(
        fault=injected.fault,
        run=injected.run,
        target=injected.target,
        t=injected.t,
        step=injected.step,
        detected_after_s=_round(first_sign[0] - injected.t) if first_sign else None,
        detected_by=first_sign[1] if first_sign else None,
        resumed_after_s=_round(recovered_step.t - injected.t) if recovered_step else None,
        recovery_s=_round(recovered_step.t - max(injected.t, last_step.t if last_step else injected.t))
        if recovered_step
        else None,
        steps_lost=max(0, (last_step.step or 0) - restored) if resumption is not None and last_step else 0,
        checkpoint_step=restored if resumption is not None else None,
        checkpoint=Path(str(restart.values["path"])).name if restart and restart.values.get("path") else None,
        interrupted=resumption is not None or not recovered,
        resubmitted=resubmitted,
        survived=recovered_step is not None,
        world=int(recovered_step.values["world"])
        if recovered_step and recovered_step.values.get("world") is not None
        else None,
        full_size_after_s=None if full is None else _round(full),
        head_back_after_s=next((_round(t - injected.t) for t in heads if t > injected.t), None)
        if injected.fault == "head"
        else None,
        taken_over_by=_successor(window, recovered_step),
    )


def _successor(window: Sequence[Event], recovered_step: Event | None) -> str | None:
    """Who has the rank that was lost, as the coordinator says."""
    until_then = [event for event in window if recovered_step is not None and event.t <= recovered_step.t]
    lost = [event for event in until_then if event.kind == "lost" and event.values.get("rank") is not None]
    generations = [event for event in until_then if event.kind == "generation"]
    if not lost or not generations or any(event.kind == "fallback" for event in until_then):
        return None
    # a lost node ends process by process: its standby may have the seat for a moment, and is lost too
    for at, event in enumerate(until_then):
        if event.kind != "spare" or "instead_of" not in event.values:
            continue
        if all(loss.kind != "lost" or loss.values.get("node") != event.values.get("node") for loss in until_then[at:]):
            return "a standby"
    first_of_rank = {event.values["rank"]: event for event in reversed(lost)}
    if int(next(iter(first_of_rank.values())).values.get("warm_spares", 0)) > 0:
        return "a spare"
    fewer = int(generations[-1].values.get("world", 0)) <= max(int(event.values["rank"]) for event in lost)
    return "nobody, fewer workers" if fewer else "a new worker"


_SIGNS = {
    "error": "Ray Train: a worker failed",
    "drain": "drain notice",
    "resize": "resize",
    "lost": "coordinator",
    "move": "coordinator: drain notice",
}


def _sign(event: Event) -> str:
    return _SIGNS[event.kind]


def _round(seconds: float) -> float:
    return round(seconds, 2)


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """One run against the undisturbed one.

    Args:
        name: the run.
        status: the last status the Jobs API gave.
        submissions: how often it was submitted.
        final_loss: the loss of its last step.
        undisturbed_loss: the same step's loss in the undisturbed run.
        equal: whether they are the same to the last bit.
        steps_compared: steps, repeated ones included, whose loss was compared with the undisturbed run's.
        steps_different: how many of those differ in any bit.
        largest_difference: the largest absolute difference of a loss; 0.0 where all bits agree.
        bound: what `largest_difference` may be, and why it may be more than 0.
        unexplained_restarts: returns to a checkpoint after a fault was over and before the next one: nobody asked for
            them, and each costs the work since that checkpoint.
    """

    name: str
    status: str
    submissions: int
    final_loss: float | None
    undisturbed_loss: float | None
    equal: bool
    steps_compared: int
    steps_different: int
    largest_difference: float
    bound: str
    unexplained_restarts: int = 0


def unexplained(events: Sequence[Event], windows: Sequence[tuple[float, float]]) -> int:
    """Returns to a checkpoint outside the time of every fault, each from its injection to the first new step."""
    back = [event.t for event in events if event.kind == "restore" and event.values.get("path") != "memory"]
    return sum(not any(start < t <= stop for start, stop in windows) for t in back)


def compare(
    *,
    name: str,
    status: str,
    submissions: int,
    events: Sequence[Event],
    undisturbed: Sequence[Event],
    elastic: bool,
    windows: Sequence[tuple[float, float]] | None = None,
) -> RunReport:
    """Hold every step of a run, also those done twice, against the undisturbed run's.

    Args:
        name: the run.
        status: the last status the Jobs API gave.
        submissions: how often it was submitted.
        events: of the run.
        undisturbed: of its twin.
        elastic: whether its size changed.
        windows: from when to when each fault lasted; None where faults overlap.
    """
    truth = {event.step: event.loss for event in steps(list(undisturbed))}
    pairs = [(event.loss, truth[event.step]) for event in steps(list(events)) if event.step in truth]
    differences = [abs(got - want) for got, want in pairs if got is not None and want is not None]
    last_step = max(steps(list(events)), key=lambda event: (event.step or 0, event.t), default=None)
    final = last_step.loss if last_step else None
    expected = truth.get(last_step.step) if last_step else None
    return RunReport(
        name=name,
        status=status,
        submissions=submissions,
        final_loss=final,
        undisturbed_loss=expected,
        equal=final is not None and final == expected,
        steps_compared=len(differences),
        steps_different=sum(1 for difference in differences if difference > 0),
        largest_difference=max(differences, default=0.0),
        bound="1e-3: other world sizes add up gradients in another order"
        if elastic
        else "0: same world size, same order",
        unexplained_restarts=0 if windows is None else unexplained(events, windows),
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole rehearsal; `to_json` is its stable form (`schema_version`)."""

    environment: str
    job: str
    settings: dict[str, Any]
    cluster: dict[str, Any]
    faults: list[FaultReport]
    runs: list[RunReport]
    timeline: dict[str, Any]
    started_t: float
    seconds: float
    machine: dict[str, Any]
    log: list[list[Any]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def survived(self) -> bool:
        """Every fault was followed by new steps, every run SUCCEEDED and no result is off its bound."""
        return (
            all(fault.survived for fault in self.faults)
            and all(run.status == "SUCCEEDED" for run in self.runs)
            and all(
                run.largest_difference <= float(run.bound.split(":")[0]) and run.steps_compared for run in self.runs
            )
        )

    def to_json(self) -> str:
        """One JSON object; keys are added, never renamed, within a schema_version."""
        head = {"schema_version": SCHEMA_VERSION, "survived": self.survived, "not_shown": list(NOT_SHOWN)}
        return json.dumps(head | asdict(self), indent=1)


def timeline(
    runs: dict[str, Sequence[Event]], *, undisturbed: Sequence[Event], injected: Sequence[Injected], start: float
) -> dict[str, Any]:
    """What the picture draws: seconds since `start` for everything."""

    def at(event: Event | Injected) -> float:
        return round(event.t - start, 3)

    return {
        "undisturbed": [[event.step, event.loss] for event in steps(list(undisturbed))],
        "runs": {
            name: {
                "steps": [[at(e), e.step, e.loss, e.values.get("world")] for e in steps(list(events))],
                "saves": [[at(e), e.step, e.values.get("reason")] for e in events if e.kind == "save"],
                "restores": [[at(e), e.step or 0] for e in events if e.kind == "restore"],
            }
            for name, events in runs.items()
        },
        "faults": [[at(record), record.fault, record.step, record.run] for record in injected],
    }

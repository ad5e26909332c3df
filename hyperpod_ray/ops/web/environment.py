"""The page's data from a snapshot of an environment and its verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.journal.record import Record
from hyperpod_ray.ops.money.spend import run_usd, run_usd_per_hour, run_usd_per_useful_gpu_hour, spend
from hyperpod_ray.ops.observe.node_rows import Row, tone_of
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, FileSystem, Snapshot
from hyperpod_ray.ops.status import counts
from hyperpod_ray.ops.verdict import Verdict
from hyperpod_ray.ops.web.view import Fact, GroupLine, Happening, NodeLine, RunLine, Tone, View
from hyperpod_ray.pricing.prices import Prices

TONES: dict[str, Tone] = {"Healthy": "good", "Steps unknown": "none", "Recovering": "busy", "Action required": "bad"}
NO_RECORD = (
    "This job publishes no steps: it does not use the training library, or it has not begun. "
    "The picture needs what the library writes."
)
ENDED = {"SUCCEEDED", "FAILED", "STOPPED", "done", "failed"}
ENDED_SHOWN = 6
HISTORY = 12
"""Most entries of one node's history."""
GOOD = {"InService", "AVAILABLE", "Bound", "ready", "CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}


def view(
    plan: CommonPlan, snapshot: Snapshot, verdict: Verdict, *, prices: Prices | None = None, why_no_prices: str = ""
) -> View:
    """What the page shows of a snapshot.

    Args:
        prices: Known prices. None: no section of cost, for the reason in `why_no_prices`.
    """
    return View(
        environment=snapshot.environment,
        subject=_subject(plan, snapshot),
        at=snapshot.at,
        headline=verdict.state,
        tone=TONES[verdict.state],
        findings=verdict.findings,
        runs=tuple(_runs(plan, snapshot, prices)),
        groups=tuple(_groups(snapshot)),
        nodes=tuple(_node(snapshot, row) for row in orchestrators.named(snapshot.orchestrator).rows(snapshot)),
        events=tuple(_events(snapshot)),
        facts=tuple(_facts(snapshot)),
        spend=None if prices is None else spend(plan, snapshot, prices),
        spend_note=why_no_prices or ("" if snapshot.cluster else "No HyperPod cluster was seen."),
        not_shown=tuple(dict.fromkeys(f"{missing.source}: {missing.why}" for missing in snapshot.unseen)),
    )


def _runs(plan: CommonPlan, snapshot: Snapshot, prices: Prices | None) -> Iterator[RunLine]:
    """Runs with what they publish about themselves, then jobs that publish none; what has ended last and not all."""
    jobs = {job.id: job for job in snapshot.jobs}
    published = set()
    lines = []
    for run in snapshot.runs:
        job = jobs.get(run.job)
        published.add(run.job)
        written = run.record or Record(name=run.name, state=run.state)
        state = run.state if job is None or job.state == "RUNNING" else job.state
        lines.append(
            RunLine(
                name=run.name, state=state, tone=_job_tone(state), record=written,
                message=job.message if job and job.state == "FAILED" else "",
                usd=None if prices is None else run_usd(plan, prices, written),
                usd_per_hour=run_usd_per_hour(plan, prices, ranks=run.world_size)
                if prices and run.world_size else None,
                usd_per_useful_gpu_hour=run_usd_per_useful_gpu_hour(plan, prices, run) if prices else None,
            )
        )  # fmt: skip
    for unpublished in snapshot.jobs:
        if unpublished.id not in published:
            lines.append(
                RunLine(
                    name=unpublished.id, state=unpublished.state, started=unpublished.started, ended=unpublished.ended,
                    command=unpublished.command, message=unpublished.message, why_no_record=NO_RECORD,
                    # that it runs does not say that it trains
                    tone="none" if unpublished.state == "RUNNING" else _job_tone(unpublished.state),
                )
            )  # fmt: skip
    live = [line for line in lines if line.state not in ENDED]
    yield from live
    yield from [line for line in lines if line.state in ENDED][:ENDED_SHOWN]


def _job_tone(state: str) -> Tone:
    if state in ("FAILED", "failed"):
        return "bad"
    return "good" if state in ("RUNNING", "running", "SUCCEEDED", "done") else "none" if state == "STOPPED" else "busy"


def _subject(plan: CommonPlan, snapshot: Snapshot) -> str:
    where = f"account {plan.settings.account}, {plan.settings.region}"
    if snapshot.cluster is None:
        return where
    cluster = snapshot.cluster
    return f"HyperPod cluster {cluster.name} {cluster.status}, node recovery {cluster.node_recovery}, {where}"


def _groups(snapshot: Snapshot) -> list[GroupLine]:
    lines = []
    for group in snapshot.cluster.groups if snapshot.cluster else ():
        row = counts(snapshot, group)
        lines.append(
            GroupLine(
                name=group.name, type=group.type, asked=row["asked"], ready=row["ready"],
                checking=row["deep_health_check"], recovering=row["recovering"], missing=row["missing"],
            )
        )  # fmt: skip
    return lines


def _node(snapshot: Snapshot, row: Row) -> NodeLine:
    health = row.health if row.health != "Schedulable" else ""
    slurm = f"{row.slurm} in Slurm" if row.slurm not in ("", "?") else row.slurm
    state = ", ".join(filter(None, [row.status, row.kubernetes, health, slurm]))
    return NodeLine(
        id=row.id or row.name,
        group=row.group,
        tone=tone_of(row),
        state=state,
        fault=row.fault or row.reason,
        pods=row.pods or tuple(f"job {job}" for job in row.jobs),
        launched=row.launched,
        network=row.network[-1] if row.network else "",
        history=tuple(_happening(event) for event in snapshot.events if event.instance == row.id)[:HISTORY],
    )


def _happening(event: ClusterEvent) -> Happening:
    text = event.description + (f": {event.failure}" if event.failure else "")
    return Happening(time=event.time, where=event.instance or event.group or "cluster", what=text, level=event.level)


def _events(snapshot: Snapshot) -> list[Happening]:
    """HyperPod's events and Kubernetes' warnings, newest first."""
    happenings = [_happening(event) for event in snapshot.events]
    happenings += [
        Happening(
            time=warning.time, where=warning.object, level="Warning",
            what=f"{warning.reason}: {warning.message}" + (f" (× {warning.count})" if warning.count > 1 else ""),
        )
        for warning in snapshot.warnings
    ]  # fmt: skip
    return sorted(happenings, key=lambda happening: happening.time.timestamp() if happening.time else 0.0, reverse=True)


def _facts(snapshot: Snapshot) -> list[Fact]:
    facts = []
    for ray in snapshot.ray_clusters:
        complete = ray.ready_workers >= ray.desired_workers
        facts.append(
            Fact(
                kind="RayCluster", name=f"{ray.namespace}/{ray.name}", state=ray.state or "no state yet",
                tone="good" if complete and ray.state == "ready" else "busy",
                detail=f"{ray.ready_workers} of {ray.desired_workers} workers",
            )
        )  # fmt: skip
    for controller in snapshot.controllers:
        state = f"{controller.ready} of {controller.wanted} ready" if controller.present else "does not exist"
        well = controller.present and controller.ready >= controller.wanted
        # what does not work without it is said where it does not run: beside a green row it reads as a fault
        facts.append(
            Fact(kind="controller", name=controller.name, state=state, detail="" if well else controller.purpose,
                 tone="good" if well else "bad")
        )  # fmt: skip
    for system in snapshot.file_systems:
        kind = "home folders" if system.homes else "file system"
        facts.append(
            Fact(kind=kind, name=system.id, state=system.lifecycle, tone=_tone(system.lifecycle),
                 detail=", ".join(filter(None, [system.size, _free(system), system.failure])))
        )  # fmt: skip
    for claim in snapshot.claims:
        state = "Terminating" if claim.deleting_since else claim.phase
        facts.append(Fact(kind="claim", name=f"{claim.namespace}/{claim.name}", state=state, tone=_tone(state)))
    for stack in snapshot.stacks:
        state = stack.status or "does not exist"
        facts.append(Fact(kind="stack", name=stack.name, state=state, tone=_tone(state), detail=stack.reason))
    return facts


def _free(system: FileSystem) -> str:
    return "" if system.free_gib is None else f"{system.free_gib:,.0f} GiB free"


def _tone(state: str) -> Tone:
    if state in GOOD:
        return "good"
    return "bad" if any(word in state for word in ("FAILED", "ROLLBACK", "MISCONFIGURED", "Lost")) else "busy"

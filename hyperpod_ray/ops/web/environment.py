"""The page's data from a snapshot of an environment and its verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.journal.record import Record
from hyperpod_ray.ops.money.spend import run_usd, run_usd_per_hour, spend
from hyperpod_ray.ops.observe.node_rows import Row
from hyperpod_ray.ops.observe.snapshot import ClusterEvent, FileSystem, SlurmNode, Snapshot
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
    plan: CommonPlan, seen: Snapshot, verdict: Verdict, *, prices: Prices | None = None, why_no_prices: str = ""
) -> View:
    """What the page shows of a snapshot.

    Args:
        prices: Known prices. None: no section of cost, for the reason in `why_no_prices`.
    """
    return View(
        environment=seen.environment,
        subject=_subject(plan, seen),
        at=seen.at,
        headline=verdict.state,
        tone=TONES[verdict.state],
        findings=verdict.findings,
        runs=tuple(_runs(plan, seen, prices)),
        groups=tuple(_groups(seen)),
        nodes=tuple(_node(seen, row) for row in orchestrators.named(seen.orchestrator).rows(seen)),
        events=tuple(_events(seen)),
        facts=tuple(_facts(seen)),
        spend=None if prices is None or seen.cluster is None else spend(plan, seen, prices),
        spend_note=why_no_prices or ("" if seen.cluster else "No HyperPod cluster was seen: nothing can be counted."),
        not_shown=tuple(dict.fromkeys(f"{item.source}: {item.why}" for item in seen.unseen)),
    )


def _runs(plan: CommonPlan, seen: Snapshot, prices: Prices | None) -> Iterator[RunLine]:
    """Runs with what they publish about themselves, then jobs that publish none; what has ended last and not all."""
    jobs = {job.id: job for job in seen.jobs}
    published = set()
    lines = []
    for run in seen.runs:
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
            )
        )  # fmt: skip
    for one in seen.jobs:
        if one.id not in published:
            lines.append(
                RunLine(
                    name=one.id, state=one.state, started=one.started, ended=one.ended,
                    command=one.command, message=one.message, why_no_record=NO_RECORD,
                    # that it runs does not say that it trains
                    tone="none" if one.state == "RUNNING" else _job_tone(one.state),
                )
            )  # fmt: skip
    live = [line for line in lines if line.state not in ENDED]
    yield from live
    yield from [line for line in lines if line.state in ENDED][:ENDED_SHOWN]


def _job_tone(state: str) -> Tone:
    if state in ("FAILED", "failed"):
        return "bad"
    return "good" if state in ("RUNNING", "running", "SUCCEEDED", "done") else "none" if state == "STOPPED" else "busy"


def _subject(plan: CommonPlan, seen: Snapshot) -> str:
    where = f"account {plan.settings.account}, {plan.settings.region}"
    if seen.cluster is None:
        return where
    cluster = seen.cluster
    return f"HyperPod cluster {cluster.name} {cluster.status}, node recovery {cluster.node_recovery}, {where}"


def _groups(seen: Snapshot) -> list[GroupLine]:
    found = []
    for group in seen.cluster.groups if seen.cluster else ():
        row = counts(seen, group)
        found.append(
            GroupLine(
                name=group.name, type=group.type, asked=row["asked"], ready=row["ready"],
                checking=row["deep_health_check"], recovering=row["recovering"], missing=row["missing"],
            )
        )  # fmt: skip
    return found


def _node(seen: Snapshot, row: Row) -> NodeLine:
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
        history=tuple(_happening(event) for event in seen.events if event.instance == row.id)[:HISTORY],
    )


def tone_of(row: Row) -> Tone:
    """Whether a node can take work, is on its way to it, or needs attention."""
    if row.status in ("Failure", "gone") or row.kubernetes == "unreachable":
        return "bad"
    if row.name or row.slurm:
        return _tone_of_slurm(row)
    if row.status == "Running":
        if row.kubernetes == "?":  # Kubernetes was not asked: HyperPod's word is all there is
            return "none"
        if row.kubernetes == "Ready" and row.health in ("", "Schedulable"):
            return "good"
        return "busy" if row.kubernetes in ("Ready", "not joined", "Ready, cordoned") else "bad"
    return "busy"


def _tone_of_slurm(row: Row) -> Tone:
    if row.status != "Running":
        return "busy"
    node = SlurmNode(name=row.name, state=row.slurm, reason=row.reason)
    if node.lost and not node.repaired:
        return "bad"
    if row.slurm == "?":
        return "none"
    return "busy" if node.lost or node.silent or node.drained or node.reserved or row.slurm == "not joined" else "good"


def _happening(event: ClusterEvent) -> Happening:
    text = event.description + (f": {event.failure}" if event.failure else "")
    return Happening(time=event.time, where=event.instance or event.group or "cluster", what=text, level=event.level)


def _events(seen: Snapshot) -> list[Happening]:
    """HyperPod's events and Kubernetes' warnings, newest first."""
    found = [_happening(event) for event in seen.events]
    found += [
        Happening(
            time=item.time, where=item.object, level="Warning",
            what=f"{item.reason}: {item.message}" + (f" (× {item.count})" if item.count > 1 else ""),
        )
        for item in seen.warnings
    ]  # fmt: skip
    return sorted(found, key=lambda one: one.time.timestamp() if one.time else 0.0, reverse=True)


def _facts(seen: Snapshot) -> list[Fact]:
    found = []
    for ray in seen.ray_clusters:
        whole = ray.ready_workers >= ray.desired_workers
        found.append(
            Fact(
                kind="RayCluster", name=f"{ray.namespace}/{ray.name}", state=ray.state or "no state yet",
                tone="good" if whole and ray.state == "ready" else "busy",
                detail=f"{ray.ready_workers} of {ray.desired_workers} workers",
            )
        )  # fmt: skip
    for one in seen.controllers:
        state = f"{one.ready} of {one.wanted} ready" if one.present else "does not exist"
        found.append(
            Fact(kind="controller", name=one.name, state=state, detail=one.purpose,
                 tone="good" if one.present and one.ready >= one.wanted else "bad")
        )  # fmt: skip
    for system in seen.file_systems:
        found.append(
            Fact(kind="file system", name=system.id, state=system.lifecycle, tone=_tone(system.lifecycle),
                 detail=", ".join(filter(None, [f"{system.capacity_gib} GiB", _free(system), system.failure])))
        )  # fmt: skip
    for claim in seen.claims:
        state = "Terminating" if claim.deleting_since else claim.phase
        found.append(Fact(kind="claim", name=f"{claim.namespace}/{claim.name}", state=state, tone=_tone(state)))
    for stack in seen.stacks:
        state = stack.status or "does not exist"
        found.append(Fact(kind="stack", name=stack.name, state=state, tone=_tone(state), detail=stack.reason))
    return found


def _free(system: FileSystem) -> str:
    return "" if system.free_gib is None else f"{system.free_gib:,.0f} GiB free"


def _tone(state: str) -> Tone:
    if state in GOOD:
        return "good"
    return "bad" if any(word in state for word in ("FAILED", "ROLLBACK", "MISCONFIGURED", "Lost")) else "busy"

"""`status`: one screen that joins HyperPod, Kubernetes, Ray and storage, with a verdict."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core import names
from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import CONDITION_FALSE, OK
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.observe.interruptions import interruptions
from hyperpod_ray.ops.observe.snapshot import (
    ClusterEvent,
    Group,
    Instance,
    Slurm,
    Snapshot,
)
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.reach.ray_pods import Pod
from hyperpod_ray.ops.verdict import Finding, Verdict, judge
from hyperpod_ray.ops.verdict.finding import folded
from hyperpod_ray.planner import PlanError, checked_nodes
from hyperpod_ray.planner.checked_nodes import Checked

if TYPE_CHECKING:
    from rich.console import Console

DEEP = "DeepHealthCheckInProgress"
LAST_EVENTS = 5
STYLE = {"Healthy": "good", "Steps unknown": "note", "Recovering": "busy", "Action required": "bad"}
MARK = {"action-required": "!", "recovering": "~", "note": "-"}


def run(target: AnyTarget, *, form: Format, events: int = LAST_EVENTS) -> int:
    """Show the status. Exit code 0 where nothing is wrong that can be seen, 3 where something is."""
    snapshot = gather.snapshot(target)
    snapshot = with_failures(target, snapshot, limit=events)
    verdict = judge(snapshot)
    record = interruptions(target.plan, snapshot, now=output.now(), listed=hyperpod.EVENTS)
    if form is Format.json:
        checked, _ = last_check(target)
        data = {**as_data(snapshot, verdict), "interruptions": record}
        output.write_json("status", {**data, "nodes_check": asdict(checked) if checked else None})
    else:
        console = output.console(form)
        show(console, snapshot, verdict, events=events)
        if record:
            console.print()
            console.print(record.text)
        if sentence := last_check(target)[1]:
            console.print()
            console.print(sentence, highlight=False, markup=False)
    return OK if verdict.well else CONDITION_FALSE


def last_check(target: AnyTarget) -> tuple[Checked | None, str]:
    """The last test of the nodes, and what it says; empty where there was none."""
    try:
        checked = checked_nodes.newest(target.name, target.folder)
    except PlanError as error:
        return None, f"nodes check: {error}"
    return checked, f"nodes check: {checked.sentence}" if checked else ""


def with_failures(target: AnyTarget, snapshot: Snapshot, *, limit: int) -> Snapshot:
    """The snapshot with the failure messages of its newest errors: each costs a call of its own."""
    from dataclasses import replace

    error_ids = {event.id for event in [event for event in snapshot.events if event.level == "Error"][:limit]}
    if not error_ids:
        return snapshot
    return replace(
        snapshot,
        events=tuple(
            hyperpod.describe_event(target, event) if event.id in error_ids else event for event in snapshot.events
        ),
    )


def counts(snapshot: Snapshot, group: Group) -> dict[str, int]:
    """How many nodes of a group are asked for, ready, in deep health checks, recovering, and missing."""
    members = [instance for instance in snapshot.instances if instance.group == group.name]
    ready_nodes = {node.name for node in snapshot.nodes if node.ready and node.health in ("", "Schedulable")}
    kubernetes = snapshot.saw_nodes
    ready = {
        i.id
        for i in members
        if i.status == "Running"
        and (not kubernetes or names.node_name(i.id) in ready_nodes)
        and _in_slurm(snapshot, group, i)
    }
    checking = {i.id for i in members if i.status == DEEP or (i.id not in ready and _deep(snapshot, i.id))}
    alive = [i for i in members if i.status != "ShuttingDown"]
    return {
        "asked": group.target,
        "ready": len(ready),
        "deep_health_check": len(checking),
        "recovering": len([i for i in alive if i.id not in (ready | checking)]),
        "missing": max(0, group.target - len(alive)),
    }


def _in_slurm(snapshot: Snapshot, group: Group, instance: Instance) -> bool:
    """Whether Slurm can use a compute node; where it was not asked, or the node has no name, HyperPod's word counts."""
    if snapshot.slurm is None or group.role in ("Controller", "Login") or not instance.host:
        return True
    node = snapshot.slurm.of(instance)
    return node is not None and node.usable


def _deep(snapshot: Snapshot, instance: str) -> bool:
    return any(node.name == names.node_name(instance) and node.deep_check == "InProgress" for node in snapshot.nodes)


def as_data(snapshot: Snapshot, verdict: Verdict) -> dict[str, Any]:
    """The JSON of `status`."""
    return {
        "environment": snapshot.environment,
        "at": snapshot.at,
        "verdict": verdict,
        "cluster": None
        if snapshot.cluster is None
        else {
            "name": snapshot.cluster.name,
            "arn": snapshot.cluster.arn,
            "status": snapshot.cluster.status,
            "failure": snapshot.cluster.failure,
            "node_recovery": snapshot.cluster.node_recovery,
            "groups": [
                {
                    "name": g.name,
                    "type": g.type,
                    "accelerated": g.accelerated,
                    **counts(snapshot, g),
                    "training_plan": g.training_plan,
                    "image_status": g.image_status,
                    "image_release": g.image_release,
                    "image_available": g.image_available,
                    "update_status": g.update_status,
                    "next_patch": g.next_patch,
                }
                for g in snapshot.cluster.groups
            ],
        },
        "stacks": snapshot.stacks,
        "controllers": snapshot.controllers,
        "training_plans": snapshot.training_plans,
        "slurm": snapshot.slurm,
        "ray_clusters": snapshot.ray_clusters,
        "ray_jobs": snapshot.ray_jobs,
        "jobs": snapshot.jobs,
        "runs": [run_data(run) for run in snapshot.runs],
        "hangs": snapshot.hangs,
        "pods": snapshot.pods,
        "file_systems": snapshot.file_systems,
        "claims": snapshot.claims,
        "events": snapshot.events,
        "warnings": snapshot.warnings,
        "unseen": snapshot.unseen,
    }


def run_data(run: Run) -> dict[str, Any]:
    """A training run for JSON: what was read, and what follows from it."""
    data: dict[str, Any] = output.plain(replace(run, record=None))
    del data["record"]
    return {
        **data,
        "steps_per_second": run.steps_per_second,
        "goodput": run.goodput,
        "spent_seconds": run.spent_seconds,
        "lost_by_cause": run.lost_by_cause,
        "step_age_seconds": run.step_age_seconds,
        "checkpoint_age_seconds": run.checkpoint_age_seconds,
    }


def show(console: Console, snapshot: Snapshot, verdict: Verdict, *, events: int) -> None:
    """The screen: verdict first, because that is what one looks for."""
    headline(console, snapshot, verdict)
    if snapshot.cluster:
        console.print()
        _groups(console, snapshot)
    if snapshot.ray_clusters or snapshot.pods:
        console.print()
        _ray(console, snapshot)
    if snapshot.slurm:
        console.print()
        _slurm(console, snapshot.slurm)
    if snapshot.runs or snapshot.jobs:
        console.print()
        _runs(console, snapshot)
    if snapshot.controllers:
        console.print()
        _controllers(console, snapshot)
    if snapshot.file_systems or snapshot.claims:
        console.print()
        _storage(console, snapshot)
    if snapshot.events and events:
        console.print()
        _events(console, snapshot.events[:events])


def headline(console: Console, snapshot: Snapshot, verdict: Verdict) -> None:
    """The verdict and what led to it."""
    from rich.text import Text

    title = Text(f"{snapshot.environment}: ", style="bold")
    title.append(verdict.state, style=f"bold {STYLE[verdict.state]}")
    if verdict.without:
        title.append(f", without {', '.join(verdict.without)}", style="note")
    if snapshot.cluster:
        title.append(f"   cluster {snapshot.cluster.name} {snapshot.cluster.status}")
    console.print(title)
    for finding in folded(verdict.findings):
        for line in lines_of(finding):
            # a command is one line, however narrow the terminal: two lines cannot be copied as one command
            console.print(line, soft_wrap=isinstance(line, Text))


def lines_of(finding: Finding) -> list[Any]:
    """A finding: what; why; since and expected; next."""
    from rich.padding import Padding
    from rich.text import Text

    style = {"action-required": "bad", "recovering": "busy", "note": "note"}[finding.kind]
    title = Text(f"{MARK[finding.kind]} ", style=style).append(finding.what, style="default")
    when = []
    if finding.since:
        when.append(f"since {output.clock(finding.since)} ({output.age(finding.since)})")
    if finding.expected_by:
        when.append(f"expected by {output.clock(finding.expected_by)}")
    lines: list[Any] = [Padding(title, (0, 0, 0, 1))]
    for label, text in (("why", finding.why), ("when", ", ".join(when))):
        if text:
            lines.append(Padding(Text(f"{label}: ", style="note").append(text, style="default"), (0, 0, 0, 5)))
    if finding.next:
        lines.append(Text("     next: ", style="note").append(finding.next, style="default"))
    return lines


def _groups(console: Console, snapshot: Snapshot) -> None:
    assert snapshot.cluster is not None  # noqa: S101
    table = output.table("Instance group", "Type", ">Asked", ">Ready", ">Checking", ">Recovering", ">Missing")
    for group in snapshot.cluster.groups:
        row = counts(snapshot, group)
        table.add_row(
            group.name, group.type, *(str(row[key]) if row[key] or key in ("asked", "ready") else "" for key in row)
        )
    console.print(table)


def _ray(console: Console, snapshot: Snapshot) -> None:
    for ray in snapshot.ray_clusters:
        console.print(
            f"RayCluster {ray.namespace}/{ray.name} says {ray.state or 'nothing yet'}, "
            f"{ray.ready_workers} of {ray.desired_workers} workers"
        )
    table = output.table("=Pod", "Group", "State", "=Node")
    ready = {node.name for node in snapshot.nodes if node.ready} if snapshot.saw_nodes else None
    alike: dict[tuple[str, str], list[Pod]] = {}
    for pod in sorted(snapshot.pods, key=lambda pod: (pod.namespace, pod.role != "head", pod.name)):
        state = "Terminating" if pod.deleting_since else pod.reason or ("Ready" if pod.ready else pod.phase)
        if pod.node and ready is not None and pod.node not in ready:
            state = f"{state}, node not ready"
        alike.setdefault((pod.group or pod.role, state), []).append(pod)
    listed = [(group, state, pod) for (group, state), pods in alike.items() for pod in pods]
    if len(listed) > PODS_SHOWN:
        listed = []
        for (group, state), pods in alike.items():
            shown = pods[: 0 if state == "Ready" and len(pods) > 1 else NAMED]
            listed += [(group, state, pod) for pod in shown]
            if len(pods) > len(shown):
                more = f"{len(pods) - len(shown)}{' more' if shown else ''} pods"
                listed.append((group, state, replace(pods[-1], name=more, node="")))
    else:
        listed.sort(key=lambda row: (row[2].namespace, row[2].role != "head", row[2].name))
    for group, state, pod in listed:
        table.add_row(pod.name, group, state, names.instance_id(pod.node))
    if snapshot.pods:
        console.print(table)


PODS_SHOWN, NAMED = 64, 20
"""More pods are shown by group and state; of those that are not ready, so many by name."""


def _slurm(console: Console, slurm: Slurm) -> None:
    """Nodes by state as `sinfo` has them, and the queue."""
    counted: dict[str, int] = {}
    for node in slurm.nodes:
        counted[node.state] = counted.get(node.state, 0) + 1
    console.print("Slurm nodes: " + ", ".join(f"{number} {state}" for state, number in counted.items()))
    table = output.table(">=Job", "Name", "User", "State", ">Time", ">Nodes", "Where")
    for job in slurm.jobs:
        table.add_row(job.id, job.name, job.user, job.state, job.elapsed, str(job.nodes), job.where)
    if slurm.jobs:
        console.print(table)


RUNS_SHOWN = 5
"""Newest jobs on the screen, beside all that run; `runs list` shows the others."""


def _runs(console: Console, snapshot: Snapshot) -> None:
    """Newest jobs, and what each publishes of its training."""
    published = {(run.cluster, run.job): run for run in snapshot.runs}
    table = output.table("=Job", "State", "Run", ">Step", ">Steps/s", ">Last step", ">Checkpoint", ">Loss")
    going = [job for job in snapshot.jobs if job.state in ("RUNNING", "PENDING")]
    for job in [*going, *(job for job in snapshot.jobs if job not in going)][: max(RUNS_SHOWN, len(going))]:
        run = published.get((job.cluster, job.id))
        ages = job in going
        table.add_row(job.id, job.state, *(_of_run(run, ages=ages) if run else [""] * 6))
    console.print(table)
    for job in going:
        run = published.get((job.cluster, job.id))
        if run and run.copies_in_words:
            console.print(f"{run.name}: {run.copies_in_words}")


def _of_run(run: Run, *, ages: bool) -> list[str]:
    total = f" of {run.steps_total:,}" if run.steps_total else ""
    age, saved = run.step_age_seconds, run.checkpoint_age_seconds
    return [
        f"{run.name}, {run.state}",
        "" if run.step is None else f"{run.step:,}{total}",
        "" if run.steps_per_second is None else f"{run.steps_per_second:.3g}",
        f"{duration(age)} ago" if ages and age is not None else "",
        f"{duration(saved)} ago" if ages and saved is not None else "",
        "" if run.loss is None else f"{run.loss:.4g}",
    ]


def _controllers(console: Console, snapshot: Snapshot) -> None:
    """One line: what does not run has a finding of its own."""
    well = [
        controller
        for controller in snapshot.controllers
        if controller.present and controller.ready >= controller.wanted
    ]
    console.print(f"controllers: {len(well)} of {len(snapshot.controllers)} run with all their pods")


def _storage(console: Console, snapshot: Snapshot) -> None:
    table = output.table("=Storage", "State", ">GiB", ">Free", "Owner")
    for file_system in snapshot.file_systems:
        mode = snapshot.homes_mode if file_system.homes else snapshot.storage_mode
        default_owner = "elsewhere" if mode == "existing" else "the stack"
        owner = "claim" if file_system.made_by_claim else file_system.stack or default_owner
        free = "" if file_system.free_gib is None else f"{file_system.free_gib:,.0f}"
        name = f"{file_system.id} ({names.HOMES_PATH})" if file_system.homes else file_system.id
        size = "elastic" if file_system.elastic else str(file_system.capacity_gib)
        table.add_row(name, file_system.lifecycle, size, free, owner)
    for claim in snapshot.claims:
        table.add_row(
            f"claim {claim.namespace}/{claim.name}", "Terminating" if claim.deleting_since else claim.phase, "", "", ""
        )
    console.print(table)


def _events(console: Console, events: tuple[ClusterEvent, ...]) -> None:
    table = output.table("=When (UTC)", "=Where", "What")
    for event in events:
        text = event.description + (f": {event.failure}" if event.failure else "")
        table.add_row(
            event.time.astimezone(output.now().tzinfo).strftime("%m-%d %H:%M"),
            event.instance or event.group or "cluster",
            text,
        )
    console.print(table)

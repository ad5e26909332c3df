"""`wait`: until a cluster, a group, storage or Ray is as it should be."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperpod_ray.core.amounts import duration
from hyperpod_ray.core.names import MOUNT_PATH
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.observe.snapshot import SLURM, SOURCES, Snapshot
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.status import counts
from hyperpod_ray.ops.verdict import durations, judge
from hyperpod_ray.ops.verdict.durations import Usual

if TYPE_CHECKING:
    from rich.console import Console

POLL_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far something is."""

    phase: str
    done: bool = False
    failed: str = ""
    """Why it will not come by waiting; empty while there is hope."""
    next: str = ""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Something to wait for."""

    name: str
    usual: Usual
    then: str
    """What comes afterwards."""
    sources: tuple[str, ...]
    look: Callable[[Snapshot], Progress]


def goal(target: AnyTarget, goal_name: str) -> Goal:
    """The goal called `goal_name`: cluster, storage, ray, healthy or the name of an instance group."""
    waits = orchestrators.of(target).waits
    if goal_name == "cluster":
        return Goal(
            name="cluster",
            usual=durations.CLUSTER,
            then=waits.after_cluster,
            sources=("CloudFormation", "HyperPod"),
            look=_cluster,
        )
    if goal_name == "storage":
        return Goal(
            name="storage",
            usual=durations.FILE_SYSTEM,
            then=f"{waits.mounts} can mount {MOUNT_PATH}",
            sources=("CloudFormation", "HyperPod", "FSx", "Kubernetes"),
            look=_storage,
        )
    if goal_name == "ray" and goal_name in waits.goals:
        return Goal(
            name="ray",
            usual=durations.RAY,
            then="jobs can be submitted",
            sources=("HyperPod", "HyperPod events", "Kubernetes"),
            look=_ray,
        )
    if goal_name == "healthy":
        return Goal(
            name="healthy",
            usual=durations.REPLACEMENT,
            then="nothing: all is as it should be",
            sources=SOURCES,
            look=_healthy,
        )
    groups = [group.name for group in target.plan.groups]
    if goal_name in groups:
        checks = target.plan.deep_health_checks(target.plan.group(goal_name))
        usual = durations.DEEP_CHECK if checks else durations.NODE
        return Goal(
            name=f"group {goal_name}",
            usual=usual,
            then=waits.after_group,
            sources=("HyperPod", "HyperPod events", "Kubernetes", SLURM),
            look=lambda snapshot: _group(snapshot, goal_name),
        )
    raise OpsError(
        f"target: '{goal_name}'",
        expected=f"one of {', '.join(waits.goals)}, or a group: {', '.join(groups)}",
        fix=f"hyperpod-ray wait {target.name} --for {waits.goals[0]}",
        code=BAD_USE,
    )


def _cluster(snapshot: Snapshot) -> Progress:
    dead = next(
        (stack for stack in snapshot.stacks if stack.status.endswith("_FAILED") or stack.status == "ROLLBACK_COMPLETE"),
        None,
    )
    if snapshot.cluster is None:
        if dead:
            return Progress(
                phase=f"{dead.name} {dead.status}",
                failed=f"stack {dead.name} is {dead.status}: {dead.reason}".rstrip(": "),
            )
        busy = next((stack for stack in snapshot.stacks if stack.status.endswith("_IN_PROGRESS")), None)
        if busy:
            return Progress(phase=f"{busy.name} {busy.status}")
        return Progress(
            phase="not there",
            failed="the cluster does not exist and no deployment is under way",
            next=f"hyperpod-ray deploy {snapshot.environment}",
        )
    status = snapshot.cluster.status
    if status == "Failed" and not any(i.status == "Pending" for i in snapshot.instances):
        return Progress(phase=status, failed=f"the cluster is Failed: {snapshot.cluster.failure}".rstrip(": "))
    if status == "Deleting":
        return Progress(phase=status, failed="the cluster is being deleted")
    return Progress(phase=_numbers(snapshot, status), done=status == "InService")


def _numbers(snapshot: Snapshot, status: str) -> str:
    groups = snapshot.cluster.groups if snapshot.cluster else ()
    return ", ".join([status, *(f"{group.name} {group.current}/{group.target}" for group in groups)])


def _group(snapshot: Snapshot, name: str) -> Progress:
    group = snapshot.group(name)
    if group is None:
        return (
            _cluster(snapshot)
            if snapshot.cluster is None
            else Progress(phase="not there", failed=f"the cluster has no group '{name}'")
        )
    row = counts(snapshot, group)
    parts = [f"{row['ready']}/{row['asked']} ready"]
    parts += [
        f"{row[key]} {words}"
        for key, words in (
            ("deep_health_check", "in deep health checks"),
            ("recovering", "coming up or recovering"),
            ("missing", "missing"),
        )
        if row[key]
    ]
    return Progress(phase=", ".join(parts), done=row["ready"] >= row["asked"])


def _storage(snapshot: Snapshot) -> Progress:
    if not snapshot.file_systems and not snapshot.claims:
        return _cluster(snapshot) if snapshot.cluster is None else Progress(phase="no file system yet")
    parts = [f"{resource.id} {resource.lifecycle}" for resource in snapshot.file_systems] + [
        f"claim {resource.namespace}/{resource.name} {resource.phase}" for resource in snapshot.claims
    ]
    failing = next(
        (
            resource
            for resource in snapshot.file_systems
            if resource.lifecycle in ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")
        ),
        None,
    )
    failed = f"file system {failing.id} is {failing.lifecycle}: {failing.failure}".rstrip(": ") if failing else ""
    if any(resource.lifecycle == "DELETING" for resource in snapshot.file_systems):
        failed = "the file system is being deleted"
    ready = all(resource.lifecycle in ("AVAILABLE", "UPDATING") for resource in snapshot.file_systems) and all(
        resource.phase == "Bound" for resource in snapshot.claims
    )
    return Progress(phase=", ".join(parts), done=ready, failed=failed)


def _ray(snapshot: Snapshot) -> Progress:
    for detail in snapshot.unseen:
        if detail.source == "Kubernetes" and snapshot.cluster is not None:
            return Progress(phase=f"not known: {detail.why}")
    if not snapshot.ray_clusters:
        return _cluster(snapshot) if snapshot.cluster is None else Progress(phase="no RayCluster yet")
    problems = [
        detail for detail in judge(snapshot).findings if detail.kind != "note" and not detail.subject.startswith("i-")
    ]
    parts = [
        f"{ray.name} {ray.state or 'starting'}, {ray.ready_workers}/{ray.desired_workers} workers"
        for ray in snapshot.ray_clusters
    ]
    done = not problems and all(ray.state == "ready" for ray in snapshot.ray_clusters)
    return Progress(phase="; ".join([*parts, *(detail.what for detail in problems[:1])]), done=done)


def _healthy(snapshot: Snapshot) -> Progress:
    verdict = judge(snapshot)
    worst = verdict.findings[0] if verdict.findings else None
    return Progress(
        phase=f"{verdict.state}: {worst.what}" if worst and verdict.state != "Healthy" else verdict.state,
        done=verdict.well,
    )


# --- waiting ---------------------------------------------------------------------------------------------------------


def run(target: AnyTarget, *, goal_name: str, timeout: float, form: Format, poll: float = POLL_SECONDS) -> int:
    """Wait. Exit code 0: it is there, 1: it will not come, 4: `timeout` seconds (0: none) are over, 130: Ctrl-C."""
    awaited = goal(target, goal_name)
    console = output.console(stderr=True)
    display = _Display(console, awaited)
    started = time.monotonic()
    latest = Progress(phase="asking")
    code = OK
    try:
        with display:
            while True:
                latest = _ask(target, awaited)
                elapsed = time.monotonic() - started
                display.update(latest, elapsed)
                if latest.done or latest.failed:
                    break
                if timeout and elapsed >= timeout:
                    code = STILL_GOING
                    break
                remaining = timeout - elapsed if timeout else poll
                display.sleep(min(poll, max(0.05, remaining)), latest, started)
    except KeyboardInterrupt:
        code = INTERRUPTED
    elapsed = time.monotonic() - started
    if latest.failed:
        code = ERROR
    _close(target, awaited, latest, code=code, elapsed=elapsed, form=form)
    return code


def _ask(target: AnyTarget, awaited: Goal) -> Progress:
    snapshot = gather.snapshot(target, only=awaited.sources)
    if not snapshot.saw("HyperPod"):
        # a throttle or a short outage is no reason to stop waiting; wrong credentials have raised before
        why = next(source.why for source in snapshot.unseen if source.source == "HyperPod")
        return Progress(phase=f"not known: {why}")
    return awaited.look(snapshot)


def _close(target: AnyTarget, awaited: Goal, latest: Progress, *, code: int, elapsed: float, form: Format) -> None:
    if form is Format.json:
        data: dict[str, Any] = {
            "environment": target.name,
            "goal": awaited.name,
            "phase": latest.phase,
            "done": latest.done,
            "failed": latest.failed,
            "elapsed_seconds": round(elapsed, 1),
        }
        output.write_json("wait", data)
    spent = duration(elapsed)
    command = f"hyperpod-ray wait {target.name} --for {awaited.name.removeprefix('group ')}"
    if code == OK:
        output.log(f"{awaited.name}: ready after {spent} ({latest.phase}); next: {awaited.then}")
    elif code == STILL_GOING:
        output.log(f"{awaited.name}: not ready after {spent} ({latest.phase}); it continues. Wait again: {command}")
    elif code == INTERRUPTED:
        output.log(f"stopped waiting after {spent}; the work continues in AWS. Wait again: {command}")
    else:
        raise OpsError.outcome(latest.failed, fix=latest.next or f"hyperpod-ray status {target.name}")


class _Display:
    """One updating line block on a terminal; otherwise a line whenever the phase changes."""

    def __init__(self, console: Console, awaited: Goal) -> None:
        self._console = console
        self._goal = awaited
        self._live: Any = None
        self._last = ""

    def __enter__(self) -> _Display:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.__exit__(None, None, None)

    def update(self, progress: Progress, elapsed: float) -> None:
        """Show where things are."""
        if self._live:
            self._live.update(self._block(progress, elapsed))
        elif progress.phase != self._last:
            spent = f"after {duration(elapsed)}, usually {self._goal.usual}"
            output.log(f"{output.stamp(output.now())} {self._goal.name}: {progress.phase} ({spent})")
        self._last = progress.phase

    def sleep(self, seconds: float, progress: Progress, started: float) -> None:
        """Wait between two looks; on a terminal the clock keeps running."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(remaining, 1.0 if self._live else remaining))
            if self._live:
                self.update(progress, time.monotonic() - started)

    def _block(self, progress: Progress, elapsed: float) -> Any:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(self._goal.name, style="bold"), Text(progress.phase))
        grid.add_row("elapsed", f"{duration(elapsed)}, usually {self._goal.usual}")
        grid.add_row("then", self._goal.then)
        grid.add_row("", Text("Ctrl-C stops waiting, not the work", style="note"))
        return grid

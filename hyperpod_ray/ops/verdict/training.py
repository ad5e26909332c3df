"""Findings about training itself: jobs, the runs that they publish, RayJobs, and hung jobs that HyperPod found.

A step's age is judged by the run's own history, never by one limit for all: the median of its newest steps, and the
pauses between steps that it repeats. What stands on purpose (a save, a validation) says so itself.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterator
from datetime import datetime, timedelta

from hyperpod_ray.core import names
from hyperpod_ray.core.amounts import duration, span
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.snapshot import (
    Hang,
    Job,
    RayJob,
    Snapshot,
)
from hyperpod_ray.ops.verdict import durations
from hyperpod_ray.ops.verdict.finding import Finding, command, deploy

HANG_SECONDS = 45.0
"""No step for less is no hang; with the seconds that a look takes, a hang shows within a minute."""
HANG_STEPS = 2.0
"""The same as a multiple of the run's median step. Steps of up to 22.5 s thereby leave it at 45 s. The pauses that a
run repeats count apart, so that no step which is often late needs more room here."""
HANG_PAUSES = 1.5
"""The same as a multiple of the longest pause that it repeats."""
FIRST_STEP = timedelta(minutes=15)
"""From the start of the workers to the first step: compilation, and loading of data."""
SLOW = 2.0
"""Steps that take so many times as long as the run's best are worth a note."""
LATE_CHECKPOINT, LATE_CHECKPOINT_LEAST = 3.0, timedelta(minutes=10)
"""A checkpoint is late after so many of its usual intervals, and no earlier than that."""
OUTLIVED = timedelta(minutes=15)
"""From the end of a run to the end of its job. What a script does after its loop is longer seldom."""
REMEMBERED = timedelta(hours=72)
"""A job that failed longer ago is history: a weekend has passed."""
LIMITS = {
    "starting": timedelta(minutes=15),
    "restoring": timedelta(minutes=30),
    "recovering": timedelta(minutes=15),
    "saving": timedelta(minutes=30),
    "paused": timedelta(minutes=30),
}
"""How long a state without steps may last: placement, and the limits of the library's process groups."""
DOES = {
    "starting": "waits for its workers",
    "restoring": "loads its checkpoint",
    "recovering": "starts its workers again after a failure",
    "saving": "saves",
    "paused": "pauses on purpose",
}


def jobs(snapshot: Snapshot) -> Iterator[Finding]:
    """Jobs that failed or wait, and runs that stand still."""
    published = {(run.cluster, run.job): run for run in snapshot.runs}
    of_rayjobs = {job.job_id for job in snapshot.ray_jobs}
    for job in snapshot.jobs:
        run = published.get((job.cluster, job.id))
        if job.state == "RUNNING" and run is not None:
            yield from _run(snapshot, job, run)
        elif job.state == "RUNNING":
            yield _unknown(snapshot, job)
        elif job.state == "PENDING":
            yield _pending(snapshot, job)
        elif job.state == "FAILED" and job.id not in of_rayjobs and not _superseded(snapshot, job):
            yield from _failed(snapshot, job, run)


def unjudged(snapshot: Snapshot) -> list[Job]:
    """Jobs that run and of whose training nothing is known."""
    published = {(run.cluster, run.job) for run in snapshot.runs}
    return [job for job in snapshot.jobs if job.state == "RUNNING" and (job.cluster, job.id) not in published]


def _unknown(snapshot: Snapshot, job: Job) -> Finding:
    """A job that does not use the training library: what Ray measures of it, which shows no hang."""
    waiting = sum(count for state, count in job.actors.items() if state not in ("ALIVE", "DEAD"))
    measured = [
        f"{job.actors.get('ALIVE', 0)} of its actors are alive" if job.actors else "Ray lists no actor of it",
        f"{waiting} wait for resources" if waiting else "",
        "" if job.gpu_percent is None else f"GPUs of their nodes are {job.gpu_percent:.0f} % busy",
    ]
    return Finding(
        kind="note",
        what=f"job {job.id} runs and publishes no steps: whether it trains is not known",
        why=", ".join(filter(None, measured)),
        since=job.started,
        next=f"{_logs(snapshot, job)} --follow",
        subject=job.id,
    )


def _logs(snapshot: Snapshot, job: Job) -> str:
    return f"hyperpod-ray runs logs {snapshot.environment} {job.id}"


def _show(snapshot: Snapshot, job: Job) -> str:
    return f"hyperpod-ray runs show {snapshot.environment} {job.id}"


def _stop(snapshot: Snapshot, job: Job) -> str:
    return f"hyperpod-ray runs stop {snapshot.environment} {job.id}"


def _superseded(snapshot: Snapshot, job: Job) -> bool:
    """Whether the same was submitted again later: that job speaks for it."""
    return any(
        candidate.started is not None
        and job.started is not None
        and candidate.started > job.started
        and candidate.cluster == job.cluster
        and (candidate.command == job.command or (bool(job.run) and candidate.run == job.run))
        for candidate in snapshot.jobs
    )


def _failed(snapshot: Snapshot, job: Job, run: Run | None) -> Iterator[Finding]:
    ended = job.ended or job.started
    if ended is not None and snapshot.at - ended > REMEMBERED:
        return
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    where = f" (run '{run.name}' at step {run.step})" if run and run.step is not None else ""
    yield Finding(
        kind="action-required",
        what=f"job {job.id} failed{code}{where}",
        why=(run.last_error if run else "") or job.message,
        since=ended,
        next=f"{_logs(snapshot, job)}; then submit the same command again, which resumes a run",
        subject=run.name if run else job.id,
    )


def _pending(snapshot: Snapshot, job: Job) -> Finding:
    usual = durations.RAY
    if usual.overdue(job.started, snapshot.at):
        return Finding(
            kind="action-required",
            what=f"job {job.id} has not started, far longer than the usual {usual}",
            why=job.message,
            since=job.started,
            next=_show(snapshot, job),
            subject=job.id,
        )
    return Finding(
        kind="recovering",
        what=f"job {job.id} waits for its driver to start",
        why=job.message,
        since=job.started,
        expected_by=usual.by(job.started),
        subject=job.id,
        recovery="pods",
    )


# --- a run -----------------------------------------------------------------------------------------------------------


def _run(snapshot: Snapshot, job: Job, run: Run) -> Iterator[Finding]:
    if run.state in ("done", "failed"):
        yield from _outlived(snapshot, job, run)
        return
    if run.state in LIMITS:
        yield _standing(snapshot, job, run, max(filter(None, (run.state_since, run.started)), default=job.started))
        return
    began = run.started or job.started
    if run.last_step_at is None or (began is not None and run.last_step_at < began):
        yield _without_steps(snapshot, job, run, began)
        return
    # a save or a pause that has just ended is no step, and the next one is due from then on
    marks = (run.last_step_at, run.state_since, run.last_part_at)
    age = (run.at - max(mark for mark in marks if mark)).total_seconds()
    if age > patience(run):
        yield _hangs(snapshot, job, run, age if parted(run) else run.step_age_seconds or age)
        return
    yield from _past_efa(snapshot, run)
    yield from _straggler(snapshot, job, run)
    yield from _slow(snapshot, job, run)
    yield from _late_checkpoint(snapshot, job, run)


def _outlived(snapshot: Snapshot, job: Job, run: Run) -> Iterator[Finding]:
    """A job that runs on although its run has ended. As a rule its driver ends in a moment, and its state says how."""
    if run.state_since is None or run.at - run.state_since <= OUTLIVED:
        return
    yield Finding(
        kind="note",
        what=(
            f"run '{run.name}' {'is done' if run.state == 'done' else 'failed'}, and its job still runs, for "
            f"{duration((run.at - run.state_since).total_seconds())}: its nodes are taken"
        ),
        why=run.last_error,
        since=run.state_since,
        next=f"{_logs(snapshot, job)}; then {_stop(snapshot, job)}, unless it still does something after its loop",
        subject=run.name,
    )


def patience(run: Run) -> float:
    """Seconds without a step, or without a part of one where the run notes them, after which it hangs.

    By the run's own history. Parts count once it has published their pace, which takes a few steps.
    """
    if parted(run):
        return max(
            HANG_SECONDS,
            HANG_STEPS * (run.part_seconds or 0.0),
            HANG_PAUSES * (run.longest_part_pause_seconds or 0.0),
        )
    return max(
        HANG_SECONDS,
        HANG_STEPS * (run.step_seconds or 0.0),
        HANG_PAUSES * (run.longest_pause_seconds or 0.0),
    )


def parted(run: Run) -> bool:
    """Whether the run notes parts of its steps, and their pace is known."""
    return bool(run.last_part_at and run.part_seconds and run.longest_part_pause_seconds)


def _hangs(snapshot: Snapshot, job: Job, run: Run, age: float) -> Finding:
    mark, usually = ("part of a step", run.part_seconds) if parted(run) else ("step", run.step_seconds)
    usual = f"usually one in {span(usually)}" if usually else "its first steps"
    saved = ""
    if run.last_checkpoint_step is not None and run.step is not None:
        checkpoint_age = duration(run.checkpoint_age_seconds or 0.0)
        saved = f"; its checkpoint of step {run.last_checkpoint_step} is {checkpoint_age} old"
    return Finding(
        kind="action-required",
        what=f"run '{run.name}' hangs: no {mark} for {span(age)} after step {run.step}, {usual}{saved}",
        why=_said_by_hyperpod(snapshot, job, run) or run.last_error,
        since=run.at - timedelta(seconds=age),
        next=f"{_logs(snapshot, job)}; then {_stop(snapshot, job)}, and submit the same command again",
        subject=run.name,
    )


def _standing(snapshot: Snapshot, job: Job, run: Run, began: datetime | None) -> Finding:
    summary = f"run '{run.name}' {DOES[run.state]}" + (f" at step {run.step}" if run.step is not None else "")
    limit = LIMITS[run.state]
    if began is not None and run.at - began > limit:
        return Finding(
            kind="action-required",
            what=f"{summary}, for {duration((run.at - began).total_seconds())}",
            why=run.last_error,
            since=began,
            next=_logs(snapshot, job),
            subject=run.name,
        )
    return Finding(
        kind="note" if run.state in ("saving", "paused") else "recovering",
        what=summary,
        why=run.last_error,
        since=began,
        expected_by=began + limit if began and run.state not in ("saving", "paused") else None,
        subject=run.name,
        recovery="pods",
    )


def _without_steps(snapshot: Snapshot, job: Job, run: Run, began: datetime | None) -> Finding:
    summary = f"run '{run.name}' has finished no step since it started"
    if began is not None and run.at - began > FIRST_STEP:
        return Finding(
            kind="action-required",
            what=f"{summary} {duration((run.at - began).total_seconds())} ago",
            why=_said_by_hyperpod(snapshot, job, run) or run.last_error,
            since=began,
            next=_logs(snapshot, job),
            subject=run.name,
        )
    return Finding(
        kind="recovering",
        what=summary,
        since=began,
        expected_by=began + FIRST_STEP if began else None,
        subject=run.name,
    )


def _past_efa(snapshot: Snapshot, run: Run) -> Iterator[Finding]:
    """Nodes with EFA whose ranks talk over TCP: the same price, a fraction of the bandwidth, and no error anywhere."""
    if run.misses_efa:
        yield Finding(
            kind="action-required",
            what=f"run '{run.name}' trains over {run.transport}, though its nodes have EFA",
            why="NCCL found no plugin for EFA in the image: libfabric and aws-ofi-nccl, which image.uri must have too",
            since=run.started,
            next=deploy(snapshot),
            subject=run.name,
        )


def _slow(snapshot: Snapshot, job: Job, run: Run) -> Iterator[Finding]:
    if run.step_seconds and run.best_step_seconds and run.step_seconds > SLOW * run.best_step_seconds:
        yield Finding(
            kind="note",
            what=f"run '{run.name}' is slow: a step takes {span(run.step_seconds)}, and took "
            f"{span(run.best_step_seconds)} with as many ranks",
            next=_show(snapshot, job),
            subject=run.name,
        )


def _straggler(snapshot: Snapshot, job: Job, run: Run) -> Iterator[Finding]:
    """A rank that the others wait for, as the coordinator of the run's workers has counted.

    It holds until the rank stands out no more, or the ranks have changed.
    """
    marks = [event for event in run.events if event.kind in ("slow", "generation", "restore", "start")]
    if marks and marks[-1].kind == "slow" and marks[-1].text.startswith("rank "):
        yield Finding(
            kind="note",
            what=f"run '{run.name}': {_with_instance(snapshot, marks[-1].text)}",
            why="its device, its node, or its share of the data is slow: the run is as fast as this rank",
            since=marks[-1].at,
            next=_show(snapshot, job),
            subject=run.name,
        )


def _with_instance(snapshot: Snapshot, text: str) -> str:
    """A line about a rank on a node, with the instance beside the address by which Ray or Slurm knows the node."""
    beginning = re.match(r"rank \d+ on (\S+)(?= )", text)
    if beginning is None:
        return text
    address = beginning[1]
    on_node = {pod.node for pod in snapshot.pods if pod.node and address == pod.address}
    named = [
        instance.id
        for instance in snapshot.instances
        if names.node_name(instance.id) in on_node or address == instance.host
    ]
    return f"{beginning[0]} ({named[0]}){text[beginning.end() :]}" if len(set(named)) == 1 else text


def _late_checkpoint(snapshot: Snapshot, job: Job, run: Run) -> Iterator[Finding]:
    """Checkpoints that have stopped: the next fault then costs all steps since the last one."""
    saves = [event.at for event in run.events if event.kind == "save"]
    gaps = [(after - before).total_seconds() for before, after in itertools.pairwise(saves)]
    age = run.checkpoint_age_seconds
    if not gaps or age is None:
        return
    usual = statistics.median(gaps)
    if age > max(LATE_CHECKPOINT * usual, LATE_CHECKPOINT_LEAST.total_seconds()):
        yield Finding(
            kind="action-required",
            what=f"run '{run.name}' has saved no checkpoint for {duration(age)}, usually one in {duration(usual)}",
            why=run.last_error,
            since=run.last_checkpoint_at,
            next=_logs(snapshot, job),
            subject=run.name,
        )


# --- RayJobs ---------------------------------------------------------------------------------------------------------


def ray_jobs(snapshot: Snapshot) -> Iterator[Finding]:
    """RayJobs that failed, wait too long, or that the operator refuses."""
    for job in snapshot.ray_jobs:
        describe = f"kubectl -n {job.namespace} describe rayjob {job.name}"
        why = job.message or job.reason
        if job.deployment_status in ("Failed", "ValidationFailed") or job.status == "FAILED":
            ended = job.ended or job.created
            if ended is not None and snapshot.at - ended > REMEMBERED and job.deployment_status != "ValidationFailed":
                continue
            refused = job.deployment_status == "ValidationFailed"
            yield Finding(
                kind="action-required",
                what=f"RayJob '{job.name}' " + ("is refused by the KubeRay operator" if refused else "failed"),
                why=why,
                since=ended,
                next=describe,
                subject=job.name,
            )
        elif job.deployment_status in ("", "Initializing", "Waiting", "Retrying") and not job.suspended:
            yield _waiting(snapshot, job, describe)
        elif job.suspended or job.deployment_status in ("Suspended", "Suspending"):
            yield Finding(
                kind="note", what=f"RayJob '{job.name}' is suspended: its queue has not admitted it", subject=job.name
            )


def _waiting(snapshot: Snapshot, job: RayJob, describe: str) -> Finding:
    usual = durations.RAY
    summary = f"RayJob '{job.name}' is {job.deployment_status or 'not looked at by the operator'}"
    if usual.overdue(job.created, snapshot.at):
        return Finding(
            kind="action-required",
            what=f"{summary}, far longer than the usual {usual}",
            why=job.message or job.reason,
            since=job.created,
            next=describe,
            subject=job.name,
        )
    return Finding(
        kind="recovering",
        what=summary,
        why=job.message or job.reason,
        since=job.created,
        expected_by=usual.by(job.created),
        subject=job.name,
        recovery="pods",
    )


# --- hung jobs, found by HyperPod ------------------------------------------------------------------------------------


def hangs(snapshot: Snapshot) -> Iterator[Finding]:
    """Hangs that HyperPod's agent reports and that no later step has ended; each node once, the newest."""
    reported: set[str] = set()
    for hang in snapshot.hangs:
        if hang.instance in reported or _over(snapshot, hang):
            continue
        reported.add(hang.instance)
        job = next((job for job in snapshot.jobs if hang.job and job.named(hang.job)), None) or next(
            (job for job in snapshot.jobs if job.state == "RUNNING"), None
        )
        yield Finding(
            kind="action-required",
            what=f"HyperPod reports a hung job on node {hang.instance} of group '{hang.group}'",
            why=hang.text,
            since=hang.at,
            next=_logs(snapshot, job) if job else command(snapshot, f"logs --node {hang.instance}"),
            subject=hang.instance,
        )


def _over(snapshot: Snapshot, hang: Hang) -> bool:
    """Whether training continued after a hang, or has ended."""
    if not snapshot.saw("Ray jobs"):
        return False
    going = [job for job in snapshot.jobs if job.state == "RUNNING" and job.named(hang.job)]
    if not any(job.started is None or job.started <= hang.at for job in going):
        return True  # what hung has ended
    ids = {job.id for job in going}
    runs = [run for run in snapshot.runs if run.job in ids]
    return bool(runs) and all(run.last_step_at is not None and run.last_step_at > hang.at for run in runs)


def _said_by_hyperpod(snapshot: Snapshot, job: Job, run: Run) -> str:
    """What HyperPod's agent says of the same hang."""
    since = run.last_step_at
    reported = next(
        (hang for hang in snapshot.hangs if job.named(hang.job) and (since is None or hang.at > since)), None
    )
    return f"HyperPod on node {reported.instance}: {reported.text}" if reported else ""

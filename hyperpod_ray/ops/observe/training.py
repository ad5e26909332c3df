"""What training says of itself: jobs of Ray's Jobs API, and the journal that a run of the training library publishes.

The journal lies on the shared file system, which is not mounted here. The library's driver links it into Ray's log
folder (`hyperpod_ray_training/publish.py`), and Ray's dashboard serves that folder: the same port, forward and token
as the Jobs API, and no further right. Ages are counted by the head's clock, the `Date` of its answers.
https://docs.ray.io/en/latest/ray-observability/reference/api.html
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray.history import History, first_line, mapping, number
from hyperpod_ray.ops.journal import record
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.journal.run import run_of as run_of_journal
from hyperpod_ray.ops.observe import kube
from hyperpod_ray.ops.observe.activity import with_activity
from hyperpod_ray.ops.observe.snapshot import (
    Job,
)
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach import connect, ray_pods
from hyperpod_ray.ops.reach.clients import Json, Target
from hyperpod_ray.ops.reach.forward import LOOPBACK
from hyperpod_ray.ops.reach.jobs_api import ENDED, Jobs, is_ours

CALL_SECONDS = 15.0
"""A dashboard that takes longer is not asked further."""
LISTED = 20
"""Newest jobs that are shown, beside all that run."""
LOOKED_AT = 6
"""Newest ended jobs whose journal is read too: the history of a run that was submitted again."""
EVENTS = (400, 10_000, 100_000)
"""Newest lines of a journal that are asked for, until they reach back to what `progress.json` adds up already."""
ENDED_JOB = frozenset(ENDED)


def gathered(target: Target, *, noted: Callable[[], AbstractContextManager[None]]) -> dict[str, Any]:
    """Jobs and runs of the environment's RayCluster, and of each RayJob's own.

    A head that is not ready is not asked: the verdict says what is wrong with it.

    Args:
        target: The environment.
        noted: Notes a failure inside as something that was not seen.
    """
    ray = target.plan.settings.ray
    clusters = [(ray.namespace, ray.cluster_name)]
    with contextlib.suppress(Exception):  # source Kubernetes says what may not be seen
        clusters += [
            (job.namespace, job.cluster)
            for job in kube.ray_jobs(target, ray.namespace)
            if job.cluster and job.deployment_status in ("Running", "Initializing")
        ]
    jobs: list[Job] = []
    runs: list[Run] = []
    for namespace, cluster in dict.fromkeys(clusters):
        if not _head_is_ready(target, namespace, cluster):
            continue
        with noted():
            cluster_jobs, published = training(target, namespace=namespace, cluster=cluster)
            jobs, runs = jobs + cluster_jobs, runs + published
    jobs.sort(key=lambda job: job.started or datetime.max.replace(tzinfo=UTC), reverse=True)
    return {"jobs": tuple(jobs), "runs": tuple(runs)}


def _head_is_ready(target: Target, namespace: str, cluster: str) -> bool:
    heads = [pod for pod in ray_pods.pods(target, namespace) if pod.role == "head" and pod.cluster == cluster]
    return any(pod.ready and not pod.deleting_since for pod in heads)


def training(target: Target, *, namespace: str, cluster: str) -> tuple[list[Job], list[Run]]:
    """Jobs of one RayCluster, newest first, and the runs that they publish."""
    token = connect.token(target, namespace=namespace, cluster=cluster)
    with connect.dashboard(target, port=0, namespace=namespace, cluster=cluster) as forward:
        jobs = Jobs(f"http://{LOOPBACK}:{forward.port}", token=token, timeout_s=CALL_SECONDS)
        try:
            return read(jobs, namespace=namespace, cluster=cluster)
        except OSError as error:
            dashboard = f"the dashboard of RayCluster '{cluster}'"
            raise connect.unanswered(forward, error, endpoint=dashboard, environment=target.name) from None


def read(jobs: Jobs, *, namespace: str, cluster: str) -> tuple[list[Job], list[Run]]:
    """The same, of a Jobs API that is reachable."""
    answered = [
        submission
        for submission in jobs.json("GET", "/api/jobs/")
        if submission.get("submission_id") and not is_ours(submission)
    ]
    answered.sort(key=lambda submission: submission.get("start_time") or math.inf, reverse=True)
    going = [submission for submission in answered if submission.get("status") not in ENDED_JOB]
    listed = answered[:LISTED] + [submission for submission in going if submission not in answered[:LISTED]]
    looked_at = going + [submission for submission in listed if submission not in going][:LOOKED_AT]
    listed_jobs: list[Job] = []
    runs: list[Run] = []
    for submission in listed:
        job = _job(submission, namespace=namespace, cluster=cluster)
        run = _run_of(jobs, submission, job) if submission in looked_at else None
        if run is not None:
            runs.append(run)
            job = replace(job, run=run.name)
        elif job.state == "RUNNING":
            job = with_activity(jobs, job)
        listed_jobs.append(job)
    return listed_jobs, runs


def _job(submission: Json, *, namespace: str, cluster: str) -> Job:
    return Job(
        id=str(submission["submission_id"]),
        ray_id=str(submission.get("job_id") or ""),
        state=str(submission.get("status") or ""),
        cluster=cluster,
        namespace=namespace,
        command=str(submission.get("entrypoint") or ""),
        started=_milliseconds(submission.get("start_time")),
        ended=_milliseconds(submission.get("end_time")),
        message=first_line(submission.get("message")),
        exit_code=submission.get("driver_exit_code"),
    )


def _run_of(jobs: Jobs, submission: Json, job: Job) -> Run | None:
    """What a job publishes; None where it publishes nothing, or the node of its driver is gone."""
    node = str(submission.get("driver_node_id") or "")
    if not node:
        return None
    progress = _file(jobs, node, f"{names.PUBLISHED_RUNS}{job.id}/progress.json")
    if progress is None:
        return None
    at = jobs.clock or now()
    events = f"{names.PUBLISHED_RUNS}{job.id}/events.jsonl"
    return run_of(progress, lambda lines: _file(jobs, node, events, lines=lines), job=job, at=at)


def _file(jobs: Jobs, node: str, name: str, *, lines: int = -1) -> bytes | None:
    """A file of a node's log folder, or its last lines; None where there is none."""
    query = urlencode({"node_id": node, "filename": name, "lines": lines, "timeout": int(CALL_SECONDS)})
    status, body = jobs.call("GET", f"/api/v0/logs/file?{query}")
    if status in (401, 403):
        raise OpsError(
            "the token: Ray does not accept it",
            expected="the token in the Secret with the RayCluster's name",
            fix="run the command again; a recreated cluster has a new token",
        )
    return body if status == 200 else None  # 500 where there is no such file


def run_of(progress: bytes, newest: Callable[[int], bytes | None], *, job: Job, at: datetime) -> Run | None:
    """A run from `progress.json` and as much of `events.jsonl` as that does not add up yet.

    Args:
        progress: All of `progress.json`.
        newest: The newest so many lines of `events.jsonl`; None where there is no such file.
        job: Whose it is.
        at: The cluster's time.

    Returns:
        None where `progress` is no journal.
    """
    content = mapping(progress)
    if not isinstance(content.get("name"), str):
        return None
    history, partial = _history(content.pop("history", None), newest)
    return run_of_journal(
        content, history, name="", at=at, job=job.id, cluster=job.cluster, namespace=job.namespace, partial=partial
    )


def _history(kept: object, newest: Callable[[int], bytes | None]) -> tuple[History, bool]:
    """What a run's events add up to, and whether its first ones are missing."""
    lines: list[bytes] = []
    for limit in EVENTS:
        lines = (newest(limit) or b"").removesuffix(b"\n").split(b"\n")
        history = History.kept(kept)
        if len(lines) < limit:  # all that there is
            if not history.take_newest(lines) and lines != [b""]:
                history = History()  # another file than the one that was added up
                history.take_newest(lines)
            return history, False
        if history.offset and history.take_newest(lines):
            return history, False
    history = History()
    history.take_newest(lines)
    return history, True


def _milliseconds(value: Any) -> datetime | None:
    milliseconds = number(value)
    return record.at_of(milliseconds / 1000) if milliseconds else None

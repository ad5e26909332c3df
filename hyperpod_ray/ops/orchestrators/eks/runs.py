"""Runs of a RayCluster: jobs of Ray's Jobs API, and RayJobs with a cluster of their own."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from hyperpod_ray.core import job
from hyperpod_ray.core.names import COMMAND_ANNOTATION
from hyperpod_ray.ops import in_ray, output
from hyperpod_ray.ops.errors import BAD_USE, INTERRUPTED, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.in_ray import files as reader
from hyperpod_ray.ops.jobs import own_cluster
from hyperpod_ray.ops.journal import run_state
from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.observe import queues
from hyperpod_ray.ops.orchestrators.run_files import CHUNK_BYTES, Opened, files_of, undamaged
from hyperpod_ray.ops.orchestrators.run_list import Run, Source, newest, no_run, pick
from hyperpod_ray.ops.reach import pod_log
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.reach.jobs_api import ENDED, POLL_SECONDS, Jobs, follow, is_ours, jobs_of
from hyperpod_ray.ops.reach.ray_pods import moment

MOST_FOLDERS = 30
"""Run folders that one list reads: those of the newest runs."""
STOP_SECONDS = 120
LIST_SECONDS = 3600
STREAM_SECONDS = 86_400


class EksRuns:
    """Runs of an environment on EKS."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def refuse(self, source: Source) -> None:
        """Refuse a folder of runs: Ray knows each run's."""
        if source.storage:
            raise OpsError(
                f"--storage: {source.storage}",
                expected="an environment on Slurm: Ray knows each run's folder",
                fix="remove it",
                code=BAD_USE,
            )

    def listed(
        self, source: Source, *, state: str, progress: bool, names: Sequence[str]
    ) -> tuple[list[Run], dict[str, State]]:
        """Jobs of the standing RayCluster and RayJobs, newest first or as `names` has them."""
        target = self.target
        own = [] if source.address else own_runs(target)
        with standing(target, source) as jobs:
            runs = sorted([*(all_of(jobs) if jobs else []), *own], key=newest, reverse=True)
            if names:
                runs = [pick(runs, name, environment=target.name) for name in names]
            runs = [run for run in runs if state in ("", run.state.lower())]
            return runs, _states(target, jobs, runs) if progress else {}

    def tail(self, run: Run, source: Source, *, lines: int) -> list[str] | None:
        """The newest lines of the log of a run's driver."""
        if run.own_cluster:
            return pod_log.text_of(self.target, run.id, namespace=run.namespace, lines=lines).splitlines()
        with jobs_of(self.target, address=source.address) as jobs:
            return jobs.tail(run.id, lines=lines)

    def log(self, name: str, *, following: bool, source: Source) -> int:
        """Print the log; with `following`, until the run has ended, and exit with its own exit code."""
        return logs(self.target, name, following=following, source=source)

    def stop(self, name: str, *, yes: bool, source: Source, limit_s: float = STOP_SECONDS) -> int:
        """Stop a run, and wait until it has ended."""
        return stop(self.target, name, yes=yes, source=source, limit_s=limit_s)

    @contextlib.contextmanager
    def files(self, folder: str, patterns: Sequence[str], source: Source) -> Iterator[Opened]:
        """Files of the file system that the head's pod mounts."""
        with standing(self.target, source) as jobs:
            if jobs is None:
                raise OpsError(
                    f"{folder} is on the shared file system, which the standing RayCluster serves",
                    expected="the right to reach it: a role of eks.ray_users",
                    fix="ask somebody who has it, or keep runs in S3: storage: s3://BUCKET/PREFIX in the job",
                    code=BAD_USE,
                )
            yield _through_ray(jobs, folder, patterns=patterns)


@contextlib.contextmanager
def standing(target: Target, source: Source) -> Iterator[Jobs | None]:
    """The Jobs API of the standing RayCluster; None for who is in a team and may not reach it."""
    with contextlib.ExitStack() as stack:
        try:
            jobs = stack.enter_context(jobs_of(target, address=source.address))
        except Exception as error:
            if getattr(error, "status", None) != 403 or not target.plan.settings.teams:
                raise
            output.log("the standing RayCluster is not yours to reach: these are the jobs of teams' queues")
            jobs = None
        yield jobs


def all_of(jobs: Jobs) -> list[Run]:
    """Every submitted job, newest first.

    Omitted: what a driver of its own started, which has no ID to ask for, and what this program submits for itself.
    """
    answered = jobs.json("GET", "/api/jobs/")
    theirs = [submitted for submitted in answered if not is_ours(submitted)]
    return sorted((_run(submitted) for submitted in theirs if submitted.get("submission_id")), key=newest, reverse=True)


def own_runs(target: Target) -> list[Run]:
    """Runs on clusters of their own: the environment's RayJobs. Why one waits is its `waits`."""
    return [_of_ray_job(target, submitted) for submitted in own_cluster.listed(target)]


def _own(target: Target, name: str) -> Run | None:
    """The run on a cluster of its own that has this ID or name."""
    found = sorted(own_runs(target), key=newest, reverse=True)
    return next((run for run in found if name in (run.id, run.name)), None)


def _of_ray_job(target: Target, submitted: dict[str, Any]) -> Run:
    status, metadata = submitted.get("status") or {}, submitted["spec"].get("metadata") or {}
    deployment = str(status.get("jobDeploymentStatus") or "")
    state = str(status.get("jobStatus") or "")
    if deployment in ("Failed", "ValidationFailed") and state not in ENDED:
        state = "FAILED"
    waiting = None if state in ENDED else queues.why_it_waits(target, submitted)
    container = submitted["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    return Run(
        id=str(submitted["metadata"]["name"]),
        state=state or "PENDING",
        command=str(
            (submitted["metadata"].get("annotations") or {}).get(COMMAND_ANNOTATION) or submitted["spec"]["entrypoint"]
        ),
        started=moment(status.get("startTime") or submitted["metadata"].get("creationTimestamp")),
        ended=moment(status.get("endTime")),
        message=str(status.get("message") or "").strip(),
        exit_code=own_cluster.exit_code(status),
        variables=tuple(sorted(one["name"] for one in container.get("env") or [])),
        working_dir="",
        name=str(metadata.get("run") or ""),
        folder=str(metadata.get("run_folder") or ""),
        own_cluster=True,
        cluster=str(status.get("rayClusterName") or ""),
        namespace=str(submitted["metadata"]["namespace"]),
        waits=str(waiting) if waiting else "",
    )


def _states(target: Target, jobs: Jobs | None, found: Sequence[Run]) -> dict[str, State]:
    """What run folders say: the folders of the newest runs, and else the reports in the jobs' logs."""
    states: dict[str, State] = {}
    folders = list(dict.fromkeys(run.folder for run in found if run.folder))[:MOST_FOLDERS]
    if jobs and folders:
        try:
            states = {one.folder: one for one in run_state.read(jobs, folders)}
        except OpsError as error:
            output.log(f"progress is not known: {error.message}")
    for run in found[:MOST_FOLDERS]:
        if run.own_cluster and run.folder in folders and run.folder not in states:
            report = pod_log.report_of(target, run.id, namespace=run.namespace)
            states |= {one.folder: one for one in run_state.states([report] if report else [])}
    return states


def one(jobs: Jobs, name: str, *, environment: str) -> Run:
    """The run called `name`; see `pick`."""
    return pick(all_of(jobs), name, environment=environment)


def log_of(jobs: Jobs, name: str) -> str:
    """The log of a job's driver."""
    return str(jobs.json("GET", f"/api/jobs/{name}/logs").get("logs") or "")


def logs(target: Target, name: str, *, following: bool, source: Source) -> int:
    """Print a run's log; with `following`, until the run has ended, and exit with its own exit code."""
    if not source.address and (mine := _own(target, name)):
        if not following:
            output.write_text(pod_log.text_of(target, mine.id, namespace=mine.namespace))
            return OK
        try:
            return own_cluster.follow(target, mine.id)
        except KeyboardInterrupt:
            output.log(f"stopped following; {mine.id} continues")
            return INTERRUPTED
    with standing(target, source) as jobs:
        if jobs is None:
            no_run(own_runs(target), name, environment=target.name)
        run = one(jobs, name, environment=target.name)
        if not following:
            output.write_text(log_of(jobs, run.id))
            return OK
        try:
            return follow(jobs, run.id, environment=target.name)
        except KeyboardInterrupt:
            output.log(f"stopped following; {run.id} continues")
            return INTERRUPTED


def stop(target: Target, name: str, *, yes: bool, source: Source, limit_s: float = STOP_SECONDS) -> int:
    """Stop a run, and wait until it has ended. Its checkpoints stay."""
    if not source.address and (mine := _own(target, name)):
        if mine.state in ENDED:
            output.log(f"{mine.id} has ended: {mine.state}")
            return OK
        what = f"stop {mine.id} and delete its RayCluster: {mine.command}. Its checkpoints stay"
        output.confirm(f"{what}; steps after the last one are lost.", yes=yes)
        own_cluster.stop(target, mine.id, limit_s=limit_s)
        output.log(f"{mine.id} is deleted, with its RayCluster")
        return OK
    with standing(target, source) as jobs:
        if jobs is None:
            no_run(own_runs(target), name, environment=target.name)
        run = one(jobs, name, environment=target.name)
        if run.state in ENDED:
            output.log(f"{run.id} has ended: {run.state}")
            return OK
        output.confirm(
            f"stop {run.id}: {run.command}. Its checkpoints stay; steps after the last one are lost.", yes=yes
        )
        jobs.json("POST", f"/api/jobs/{run.id}/stop")
        end = time.monotonic() + limit_s
        while (now := one(jobs, run.id, environment=target.name)).state not in ENDED:
            if time.monotonic() > end:
                raise OpsError(
                    f"{run.id} is {now.state} after {limit_s:g} s",
                    expected="it to end",
                    fix=f"hyperpod-ray runs show {target.name} {run.id}",
                    code=STILL_GOING,
                )
            time.sleep(min(POLL_SECONDS, 0.5))
    output.log(f"{run.id} {now.state}")
    return OK


def _run(answer: dict[str, Any]) -> Run:
    runtime, metadata = answer.get("runtime_env") or {}, answer.get("metadata") or {}
    command = str(metadata.get("command") or answer.get("entrypoint") or "")
    name, folder = str(metadata.get("run") or ""), str(metadata.get("run_folder") or "")
    if not folder:
        words = job.words_of(command)
        name, storage = job.option(words, "--name"), job.option(words, "--storage")
        folder = f"{storage.rstrip('/')}/{name}" if storage and name else ""
    return Run(
        id=str(answer["submission_id"]),
        state=str(answer["status"]),
        command=command,
        started=_moment(answer.get("start_time")),
        ended=_moment(answer.get("end_time")),
        message=str(answer.get("message") or "").strip(),
        exit_code=answer.get("driver_exit_code"),
        variables=tuple(sorted(runtime.get("env_vars") or {})),
        working_dir=str(runtime.get("working_dir") or ""),
        name=name,
        folder=folder,
    )


def _moment(milliseconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None


def _through_ray(jobs: Jobs, folder: str, *, patterns: Sequence[str]) -> Opened:
    """Files of the file system that the head's pod mounts."""
    words = [secrets.token_hex(8), folder, *patterns]
    answer, node = run_state.asked(jobs, f"{in_ray.PACKAGE}.files", words, limit_s=LIST_SECONDS)
    with undamaged(folder):
        if answer.get("damaged"):
            raise reader.DamagedError(answer["damaged"])

    def read(name: str) -> AbstractContextManager[Iterator[bytes]]:
        query = {"node_id": node, "filename": f"{answer['link']}/{name}", "lines": -1, "timeout": STREAM_SECONDS}
        return jobs.stream(f"/api/v0/logs/file?{urlencode(query, quote_via=quote)}", size=CHUNK_BYTES)

    return files_of(answer["files"]), read

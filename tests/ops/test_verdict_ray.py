"""Since when a RayCluster holds nodes without a job, by the states of Ray's jobs and of KubeRay's RayJobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray.ops.observe.snapshot import TRAINING, RayJob, Snapshot, Unseen
from hyperpod_ray.ops.verdict import ray
from tests.ops.snapshots import JOB, ago, healthy


def job(state: str, **more: Any) -> dict[str, Any]:
    return {"jobs": (replace(JOB, state=state, **more),)}


def ray_job(status: str, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"name": "j", "namespace": "ray", "cluster": "ray"}
    return {"ray_jobs": (RayJob(deployment_status=status, **usual | more),)}


def head(**more: Any) -> dict[str, Any]:
    first, *others = healthy().pods
    return {"pods": (replace(first, **more), *others)}


# https://docs.ray.io/en/latest/cluster/running-applications/job-submission/doc/ray.job_submission.JobStatus.html
ENDED = ("STOPPED", "SUCCEEDED", "FAILED")
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "none": ({}, True),
    **{f"a job that is {state}": (job(state), state in ENDED) for state in ("PENDING", "RUNNING", *ENDED)},
    "a job of another RayCluster": (job("RUNNING", cluster="other"), True),
    "a job of another namespace": (job("RUNNING", namespace="other"), True),
    # https://github.com/ray-project/kuberay (rayjob_types.go, IsJobDeploymentTerminal)
    **{
        f"a RayJob that is {status}": (ray_job(status), status in ("Complete", "Failed"))
        for status in ("", "Initializing", "Waiting", "Running", "Retrying", "Suspended", "Complete", "Failed")
    },
    "a RayJob of another RayCluster": (ray_job("Running", cluster="other"), True),
    "a RayJob of another namespace": (ray_job("Running", namespace="other"), True),
    "Ray does not answer": ({"unseen": (Unseen(source=TRAINING, why="it is away"),)}, False),
    "another source does not": ({"unseen": (Unseen(source="FSx", why="it is away"),)}, True),
    "its head is not ready": (head(ready=False), False),
    "its head goes": (head(deleting_since=ago(1)), False),
    "the head is another RayCluster's": (head(cluster="other"), False),
    "the head is another namespace's": (head(namespace="other"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_standing_cluster_is_without_a_job_where_that_is_known(case: str) -> None:
    changes, known = CASES[case]
    assert ray.jobless(replace(healthy(), **changes), "ray", "ray") is known


def test_a_cluster_of_a_rayjob_is_asked_of_its_rayjob_alone() -> None:
    """Nobody asks its Ray for jobs: without a RayJob, nothing is known of it."""
    assert not ray.jobless(healthy(), "ray", "own")
    ended = replace(healthy(), **ray_job("Complete", cluster="own"))
    assert ray.jobless(ended, "ray", "own")


def since(seen: Snapshot) -> Any:
    return ray.without_job(seen, "ray", "ray")


def test_it_counts_from_the_last_of_workers_and_jobs() -> None:
    first, *workers = healthy().pods
    ready = replace(healthy(), pods=(first, *(replace(pod, ready_since=ago(90)) for pod in workers)))
    assert since(ready) == ago(90)
    assert since(replace(ready, **job("SUCCEEDED", ended=ago(30)))) == ago(30)
    assert since(replace(ready, **job("SUCCEEDED", ended=ago(95)))) == ago(90)
    assert since(replace(ready, **job("SUCCEEDED", ended=ago(30), cluster="other"))) == ago(90)
    assert since(replace(ready, **ray_job("Failed", ended=ago(20)))) == ago(20)
    assert since(replace(ready, **ray_job("Failed", ended=ago(20), namespace="other"))) == ago(90)
    assert since(replace(ready, **job("RUNNING"))) is None
    created = replace(healthy(), pods=(first, *(replace(pod, created=ago(70)) for pod in workers)))
    assert since(created) == ago(70), "where nobody knows when it was ready"
    gone = replace(ready, pods=(first, *(replace(pod, deleting_since=ago(1)) for pod in workers)))
    assert since(gone) is None
    assert since(replace(ready, pods=(first, *(replace(pod, ready=False) for pod in workers)))) is None

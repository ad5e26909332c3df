"""Entrypoints of RayJobs: run by a program beside the server, followed to their end, retried, and stopped.

The program is a stand-in; with a real Ray the same happens in tests/rehearsal/test_ray_jobs.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray_sandbox.kubernetes.controllers.entrypoints import WAITS, Entrypoints
from hyperpod_ray_sandbox.kubernetes.controllers.rayjob import NO_RAY
from tests.sandbox.kubernetes.conftest import Cluster, _cluster
from tests.sandbox.kubernetes.test_controllers import OPERATOR, given
from tests.sandbox.kubernetes.test_rayjobs import DEFINITIONS, deployment_status, ray_job, spec
from tests.support.emulator import until

Json = dict[str, Any]
# `done` succeeds, `fails` fails, `dies` ends without a word, `lasts` runs until it is stopped
PROGRAM = """
import json, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())["job"]
def say(**status):
    part = folder / "part"
    part.write_text(json.dumps(status))
    part.replace(folder / "status.json")
signal.signal(signal.SIGTERM, lambda *_: (say(jobStatus="STOPPED", message="asked to end"), sys.exit(1)))
say(jobStatus="RUNNING", message="it runs", startTime="2026-11-24T00:00:00Z")
match job["spec"]["entrypoint"]:
    case "done":
        say(jobStatus="SUCCEEDED", message="it ended", startTime="2026-11-24T00:00:00Z", endTime="2026-11-24T00:00:09Z")
    case "fails":
        say(jobStatus="FAILED", message="exit code 7")
    case "dies":
        sys.exit("killed for memory")
    case _:
        time.sleep(10000)
"""


def job_of(uid: str, entrypoint: str) -> Json:
    return {
        "metadata": {"uid": uid},
        "spec": {"entrypoint": entrypoint},
        "status": {"rayClusterName": "c", "jobId": "j"},
    }


@pytest.fixture
def program(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return (sys.executable, "-I", "-S", str(path))


def test_one_runs_at_a_time_and_its_end_is_known_after_a_restart(program: tuple[str, ...], tmp_path: Path) -> None:
    runs = Entrypoints(program, tmp_path / "runs")
    first, second = job_of("1", "lasts"), job_of("2", "done")
    assert until(lambda: runs.follow(first, {})["jobStatus"] == "RUNNING")
    assert runs.follow(second, {}) == {"jobStatus": "PENDING", "message": WAITS}
    again = Entrypoints(program, tmp_path / "runs")  # the server was started again
    assert again.follow(first, {})["message"] == "it runs"
    assert again.follow(second, {})["message"] == WAITS
    again.stop(first)
    assert until(lambda: runs.follow(first, {})["jobStatus"] == "STOPPED")
    assert until(lambda: runs.follow(second, {})["jobStatus"] == "SUCCEEDED")
    assert runs.follow(second, {})["endTime"] == "2026-11-24T00:00:09Z"


def test_a_run_whose_job_is_deleted_ends(program: tuple[str, ...], tmp_path: Path) -> None:
    runs = Entrypoints(program, tmp_path / "runs")
    job = job_of("1", "lasts")
    assert until(lambda: runs.follow(job, {})["jobStatus"] == "RUNNING")
    runs.keep({"1"})
    assert runs.follow(job, {})["jobStatus"] == "RUNNING"
    runs.keep(set())
    assert until(lambda: runs.follow(job, {})["jobStatus"] == "STOPPED")


def test_one_that_ends_without_a_word_has_failed(program: tuple[str, ...], tmp_path: Path) -> None:
    runs = Entrypoints(program, tmp_path / "runs")
    job = job_of("1", "dies")
    assert until(lambda: runs.follow(job, {})["jobStatus"] == "FAILED")
    assert runs.follow(job, {})["message"] == "what ran the entrypoint ended: killed for memory"


@pytest.fixture
def with_ray(tools: None, program: tuple[str, ...], tmp_path: Path) -> Iterator[Cluster]:
    yield from _cluster(
        tmp_path / "kubernetes", "--time-scale", "0.02", "--entrypoint-program", json.dumps(list(program))
    )


def furnish(cluster: Cluster) -> None:
    for name in ("rayclusters", "rayjobs", "raycronjobs"):
        cluster.kubectl("apply", "--server-side", "-f", str(DEFINITIONS / f"ray.io_{name}.yaml"))
    cluster.apply(OPERATOR)
    for name, group, gpus in (("cpu-1", "cpu", 0), ("gpu-1", "gpu", 1), ("gpu-2", "gpu", 1)):
        cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(given(name, group=group, gpus=gpus)))


@pytest.mark.emulator
@pytest.mark.slow
def test_ray_jobs_end_as_their_entrypoints_do(with_ray: Cluster) -> None:
    furnish(with_ray)
    with_ray.apply(ray_job("good", entrypoint="done", shutdownAfterJobFinishes=True, rayClusterSpec=spec()))
    with_ray.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Complete", "rayjob/good", "--timeout=600s")
    status = with_ray.get("rayjob", "good")["status"]
    assert (status["jobStatus"], status["succeeded"], status["failed"]) == ("SUCCEEDED", 1, 0)
    assert status["rayJobInfo"] == {"startTime": "2026-11-24T00:00:00Z", "endTime": "2026-11-24T00:00:09Z"}
    gone = status["rayClusterName"]
    with_ray.until(lambda: with_ray.kubectl("get", "raycluster", gone, ok=False).returncode != 0, "its cluster goes")

    # a failing one is tried again on a new cluster, and then has failed
    rules = {"deletionRules": [{"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 0}}]}
    with_ray.apply(ray_job("bad", entrypoint="fails", backoffLimit=1, deletionStrategy=rules, rayClusterSpec=spec()))
    with_ray.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Failed", "rayjob/bad", "--timeout=600s")
    status = with_ray.get("rayjob", "bad")["status"]
    assert (status["reason"], status["message"], status["failed"]) == ("AppFailed", "exit code 7", 2)
    runs = [run for run in (with_ray.state / "rayjobs").iterdir() if "_bad-" in run.name]
    assert len(runs) == 2
    kept = status["rayClusterName"]
    with_ray.until(
        lambda: with_ray.get("raycluster", kept)["spec"]["workerGroupSpecs"][0].get("suspend") is True, "workers go"
    )

    # a suspended one ends its run, and starts another when it continues
    with_ray.kubectl("delete", "rayjob", "good", "bad")
    with_ray.apply(ray_job("long", entrypoint="lasts", shutdownAfterJobFinishes=True, rayClusterSpec=spec()))
    with_ray.kubectl("wait", "--for=jsonpath={.status.jobStatus}=RUNNING", "rayjob/long", "--timeout=600s")
    (run,) = [run for run in (with_ray.state / "rayjobs").iterdir() if "_long-" in run.name]
    with_ray.kubectl("patch", "rayjob", "long", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    with_ray.kubectl("wait", "--for=jsonpath={.status.jobDeploymentStatus}=Suspended", "rayjob/long", "--timeout=600s")
    assert with_ray.until(lambda: json.loads((run / "status.json").read_text())["jobStatus"] == "STOPPED", "its end")
    with_ray.kubectl("patch", "rayjob", "long", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    with_ray.kubectl("wait", "--for=jsonpath={.status.jobStatus}=RUNNING", "rayjob/long", "--timeout=600s")
    with_ray.kubectl("delete", "rayjob", "long")
    pids = [int((run / "pid").read_text()) for run in (with_ray.state / "rayjobs").iterdir()]
    with_ray.until(lambda: not any(_lives(pid) for pid in pids), "no run outlives its RayJob")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.emulator
@pytest.mark.slow
def test_a_cron_job_starts_jobs_and_a_machine_without_ray_says_so(empty: Cluster) -> None:
    furnish(empty)
    cron_job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "often", "namespace": "default"},
        "spec": {"schedule": "@every 1s", "jobTemplate": {"entrypoint": "x", "rayClusterSpec": spec()}},
    }
    empty.apply(cron_job)
    empty.until(lambda: len(empty.get("rayjobs")["items"]) >= 2, "two runs")
    empty.kubectl("patch", "raycronjob", "often", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    job = empty.get("rayjobs")["items"][0]
    assert job["metadata"]["labels"] == {"ray.io/cronjob-name": "often"}
    assert datetime.fromisoformat(job["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"]) < datetime.now(
        UTC
    )
    assert job["metadata"]["ownerReferences"][0]["kind"] == "RayCronJob"
    empty.until(lambda: "no new RayJobs" in empty.kubectl("describe", "raycronjob", "often").stdout, "the event")
    name = job["metadata"]["name"]
    empty.until(lambda: (empty.get("rayjob", name).get("status") or {}).get("message") == NO_RAY, "the reason")
    assert empty.get("rayjob", name)["status"]["jobStatus"] == "PENDING"
    assert deployment_status(empty, name) == "Running"
    assert "NoRay" in empty.kubectl("describe", "rayjob", name).stdout
    assert not (empty.state / "rayjobs").exists()
    empty.kubectl("delete", "raycronjob", "often")
    empty.until(lambda: empty.get("rayjobs")["items"] == [], "its runs go with it")

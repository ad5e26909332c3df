"""`runs list`, `logs` and `stop` on EKS, and how a job with a cluster of its own is created."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core import job_file
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, INTERRUPTED, OK, STILL_GOING, ApiError, OpsError
from hyperpod_ray.ops.jobs import own_cluster, submit
from hyperpod_ray.ops.observe import queues, training
from hyperpod_ray.ops.orchestrators.eks import runs
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.reach import pod_log
from tests.ops.ops_runs_commands_helpers import Api, Json, Ray
from tests.ops.world import environment_text

NOWHERE = Source()


def ray_job(name: str, namespace: str = "ray", **status: Any) -> Json:
    head = {"template": {"spec": {"containers": [{"env": [{"name": "B"}, {"name": "A"}]}]}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-21T10:00:00Z"},
        "spec": {
            "entrypoint": "sh -c x",
            "rayClusterSpec": {"headGroupSpec": head},
            "metadata": {"run": f"{name}-run"},
        },
        "status": status,
    }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A target, its Kubernetes and its Ray; time passes only while somebody sleeps."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(runs, "time", clock)
    monkeypatch.setattr(own_cluster, "time", clock)
    parts = SimpleNamespace(api=Api(), ray=Ray("RUNNING"), clock=now)
    plan = parse(environment_text(), name="demo", path=Path("demo.yaml")).plan

    @contextlib.contextmanager
    def jobs_of(_: Any, *, address: str) -> Iterator[Ray]:
        yield parts.ray

    monkeypatch.setattr(runs, "jobs_of", jobs_of)
    monkeypatch.setattr(queues, "why_it_waits", lambda *_: None)
    parts.target = SimpleNamespace(
        name="demo", plan=plan, kubernetes=parts.api, aws=SimpleNamespace(require_account=lambda: "arn"), folder=None,
        command=lambda *words: " ".join(["hyperpod-ray", words[0], "demo", *words[1:]]),
    )  # fmt: skip
    return parts


# --- the standing cluster --------------------------------------------------------------------------------------------


def test_the_log_of_a_job_is_printed_or_followed(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs.logs(world.target, "job-1", following=False, source=NOWHERE) == OK
    assert capsys.readouterr().out == "one\ntwo\n"
    assert world.ray.asked == ["GET /api/jobs/", "GET /api/jobs/job-1/logs"]
    followed: list[tuple[str, str]] = []

    def follow(_: Any, job: str, *, environment: str) -> int:
        followed.append((job, environment))
        if len(followed) > 1:
            raise KeyboardInterrupt
        return 7

    monkeypatch.setattr(runs, "follow", follow)
    assert runs.logs(world.target, "job-1", following=True, source=NOWHERE) == 7
    assert runs.logs(world.target, "job-1", following=True, source=NOWHERE) == INTERRUPTED
    assert followed[0] == ("job-1", "demo")
    assert capsys.readouterr().err == "stopped following; job-1 continues\n"
    with pytest.raises(OpsError, match="no run 'other'"):
        runs.logs(world.target, "other", following=False, source=NOWHERE)


def test_a_job_is_stopped_and_its_end_waited_for(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html: stop only asks for it"""
    world.ray = Ray("RUNNING", "RUNNING", "RUNNING", "STOPPED")
    assert runs.stop(world.target, "job-1", yes=True, source=NOWHERE) == OK
    assert world.ray.asked.count("POST /api/jobs/job-1/stop") == 1
    assert capsys.readouterr().err.splitlines()[-1] == "job-1 STOPPED"
    world.ray = Ray("SUCCEEDED")
    assert runs.stop(world.target, "job-1", yes=False, source=NOWHERE) == OK
    assert world.ray.asked == ["GET /api/jobs/"]
    assert capsys.readouterr().err == "job-1 has ended: SUCCEEDED\n"
    world.ray = Ray("RUNNING")
    with pytest.raises(OpsError, match="job-1 is RUNNING after 5 s") as still:
        runs.stop(world.target, "job-1", yes=True, source=NOWHERE, limit_s=5)
    assert (still.value.code, still.value.fix) == (STILL_GOING, "hyperpod-ray runs show demo job-1")
    assert world.clock[0] > 5


def test_nothing_is_stopped_without_a_yes(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "interactive", lambda: False)
    world.api.jobs = [ray_job("own", jobDeploymentStatus="Running", jobStatus="RUNNING")]
    for name in ("job-1", "own"):
        with pytest.raises(OpsError, match="no terminal to ask"):
            runs.stop(world.target, name, yes=False, source=NOWHERE)
    assert all(call.startswith("GET") for call in world.ray.asked)
    assert not [method for method, *_ in world.api.sent if method == "DELETE"]


# --- a cluster of its own --------------------------------------------------------------------------------------------


def test_a_run_with_its_own_cluster_goes_before_one_of_ray(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.api.jobs = [ray_job("job-1", jobDeploymentStatus="Running", jobStatus="RUNNING")]
    texts: list[tuple[str, str]] = []

    def text_of(_: Any, name: str, *, namespace: str) -> str:
        texts.append((name, namespace))
        return "own log\n"

    monkeypatch.setattr(pod_log, "text_of", text_of)
    for name in ("job-1", "job-1-run"):
        assert runs.logs(world.target, name, following=False, source=NOWHERE) == OK
    assert texts == [("job-1", "ray")] * 2
    assert capsys.readouterr().out == "own log\n" * 2
    assert world.ray.asked == []
    codes: Iterator[int | KeyboardInterrupt] = iter([7, KeyboardInterrupt()])

    def follow(_: Any, name: str) -> int:
        code = next(codes)
        if isinstance(code, BaseException):
            raise code
        return code

    monkeypatch.setattr(own_cluster, "follow", follow)
    assert runs.logs(world.target, "job-1", following=True, source=NOWHERE) == 7
    assert runs.logs(world.target, "job-1", following=True, source=NOWHERE) == INTERRUPTED
    # with an address of Ray, Ray is asked
    assert runs.logs(world.target, "job-1", following=False, source=Source(address="http://h:1")) == OK
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_run_with_its_own_cluster_is_stopped_by_its_deletion(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world.api.jobs = [ray_job("own", jobDeploymentStatus="Running", jobStatus="RUNNING")]
    assert runs.stop(world.target, "own", yes=True, source=NOWHERE) == OK
    assert ("DELETE", "/apis/ray.io/v1/namespaces/ray/rayjobs/own", None) in world.api.sent
    assert capsys.readouterr().err == "own is deleted, with its RayCluster\n"
    world.api.jobs = [ray_job("own", jobDeploymentStatus="Failed", jobStatus="FAILED")]
    assert runs.stop(world.target, "own", yes=False, source=NOWHERE) == OK
    assert capsys.readouterr().err == "own has ended: FAILED\n"
    assert len([method for method, *_ in world.api.sent if method == "DELETE"]) == 1


def test_a_ray_job_as_a_run(world: Any) -> None:
    world.api.jobs = [
        ray_job("new"),
        ray_job("going", jobDeploymentStatus="Running", jobStatus="RUNNING", startTime="2026-11-21T11:00:00Z"),
        ray_job("broken", jobDeploymentStatus="Failed", jobStatus="RUNNING"),
    ]
    states = {run.id: run.state for run in runs.own_runs(world.target)}
    assert states == {"new": "PENDING", "going": "RUNNING", "broken": "FAILED"}
    going = next(run for run in runs.own_runs(world.target) if run.id == "going")
    assert going.started is not None
    assert (going.started.hour, going.name, going.variables) == (11, "going-run", ("A", "B"))
    assert (going.own_cluster, going.namespace, going.command) == (True, "ray", "sh -c x")


# --- creation --------------------------------------------------------------------------------------------------------


@pytest.fixture
def submitted(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(own_cluster, "ray_job", lambda plan, live, job, *, name, code: {"name": name, "code": code})
    file = job_file.load(None, {"command": "python train.py", "cluster": "own"})

    def submit(*, wait: bool = False) -> int:
        return own_cluster.submit(world.target, file, name="mine", wait=wait)

    return submit


MAPS = "/api/v1/namespaces/ray/configmaps"
JOBS = "/apis/ray.io/v1/namespaces/ray/rayjobs"


def test_the_code_of_a_job_goes_with_it(world: Any, submitted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"""
    assert submitted() == OK
    (_, maps, code), (_, jobs, job), (_, changed, owner) = world.api.sent[-3:]
    assert (maps, jobs, changed) == (MAPS, JOBS, f"{MAPS}/mine-code")
    assert (code["metadata"]["name"], code["immutable"]) == ("mine-code", True)
    assert job == {"name": "mine", "code": "mine-code"}
    reference = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "mine", "uid": "7"}
    assert owner == {"metadata": {"ownerReferences": [reference]}}
    assert capsys.readouterr().out == "mine\n"


@pytest.mark.parametrize(
    ("resource", "status", "deleted"),
    [
        # who may not create the code, or has no room for it, must not lose that of a job that runs
        ("configmaps", 403, False),
        ("configmaps", 500, False),
        ("configmaps", 409, False),
        ("rayjobs", 403, True),
        ("rayjobs", 500, True),
        ("rayjobs", 409, True),
    ],
)
def test_only_the_code_that_was_just_created_is_deleted(
    world: Any, submitted: Any, resource: str, status: int, deleted: bool
) -> None:
    world.api.refusals["POST", resource] = status
    with pytest.raises(OpsError if status == 409 else ApiError) as refused:
        submitted()
    gone = [path for method, path, _ in world.api.sent if method == "DELETE"]
    assert gone == ([f"{MAPS}/mine-code"] if deleted else [])
    if isinstance(refused.value, OpsError):
        assert refused.value.message == "a job called 'mine' exists. Expected a new name"
        assert refused.value.code == BAD_USE


def test_without_the_standing_cluster_there_is_nothing_to_make_one_of(world: Any, submitted: Any) -> None:
    world.api.refusals["GET", "ray"] = 404
    with pytest.raises(OpsError, match="RayCluster 'ray' does not exist") as absent:
        submitted()
    assert absent.value.fix == "hyperpod-ray wait demo --for ray"
    world.api.refusals["GET", "ray"] = 403
    with pytest.raises(ApiError):
        submitted()
    assert not [method for method, *_ in world.api.sent if method != "GET"]


def test_a_job_is_followed_to_its_end(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states: list[Json] = [
        {},
        {"jobDeploymentStatus": "Initializing"},
        {"jobDeploymentStatus": "Initializing"},
        {"jobDeploymentStatus": "Running"},
        {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "Job failed with exit code 3\nmore"},
    ]
    waits = iter(["its queue is full", None, None, None, None])
    lines = iter(["", "", "", "one\n", "two\n"])
    monkeypatch.setattr(own_cluster, "find", lambda *_: ray_job("mine", **states.pop(0)))
    monkeypatch.setattr(queues, "why_it_waits", lambda *_: next(waits))
    monkeypatch.setattr(pod_log, "Follower", lambda: SimpleNamespace(more=lambda *_, **__: next(lines)))
    assert own_cluster.follow(world.target, "mine") == 3
    written = capsys.readouterr()
    assert written.out == "one\ntwo\n"
    assert written.err.splitlines() == [
        "mine waits: its queue is full", "mine Initializing", "mine Running", "mine Failed",
        "mine FAILED: Job failed with exit code 3", "next: hyperpod-ray status demo",
    ]  # fmt: skip
    assert world.clock[0] == 4 * own_cluster.POLL_SECONDS


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, OK),
        ({"jobStatus": "FAILED", "message": "exit code 0"}, ERROR),
        ({"jobStatus": "FAILED", "message": "exit code 256"}, ERROR),
        ({"jobStatus": "FAILED", "message": "exit code 255"}, 255),
        ({"jobDeploymentStatus": "ValidationFailed"}, ERROR),
    ],
)
def test_the_exit_code_of_a_ray_job(world: Any, status: Json, code: int) -> None:
    assert own_cluster._ended(world.target, "mine", status) == code


# --- a list ----------------------------------------------------------------------------------------------------------


def test_files_of_a_run_are_those_of_the_patterns(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def through(_: Any, folder: str, *, patterns: Any) -> str:
        asked.append((folder, patterns))
        return "opened"

    monkeypatch.setattr(runs, "_through_ray", through)
    reachable: Any = runs.EksRuns(world.target).files("/fsx/runs/a", ["*.json"], NOWHERE)
    with reachable as opened:
        assert opened == "opened"
    assert asked == [("/fsx/runs/a", ["*.json"])]
    monkeypatch.setattr(runs, "standing", lambda *_: contextlib.nullcontext(None))
    unreachable = runs.EksRuns(world.target).files("/fsx/runs/a", [], NOWHERE)
    with pytest.raises(OpsError, match="/fsx/runs/a is on the shared file system") as refused, unreachable:
        pass
    assert (refused.value.code, "s3://" in refused.value.fix) == (BAD_USE, True)


def test_a_job_that_names_what_its_pods_may_not_reach_is_refused(world: Any) -> None:
    """The pods would find out after the queue, the nodes and the image."""
    for words, variables in (
        (["python", "t.py", "--storage", "s3://zug-elsewhere/runs"], {}),
        ([], {"RUN_STORAGE": "s3://zug-elsewhere/runs"}),
        ([], {"MLFLOW_TRACKING_URI": "arn:aws:sagemaker:us-west-2:000000000001:mlflow-app/app-1"}),
    ):
        with pytest.raises(OpsError) as refused:
            submit.require_access(world.target, words, variables=variables)
        assert refused.value.code == BAD_USE
        assert refused.value.fix
        assert refused.value.expected
    submit.require_access(world.target, ["python", "t.py"], variables={"A": "b"})
    submit.require_access(world.target, [], variables=None)


@pytest.mark.parametrize(("status", "content", "read"), [(200, b"x", b"x"), (500, b"no file", None), (404, b"", None)])
def test_a_file_that_ray_does_not_have_is_none(status: int, content: bytes, read: bytes | None) -> None:
    asked: list[str] = []

    def call(method: str, path: str) -> tuple[int, bytes]:
        asked.append(f"{method} {path}")
        return status, content

    jobs: Any = SimpleNamespace(call=call)
    assert training._file(jobs, "n", "runs/a b.json", lines=5) == read
    assert asked[0].startswith("GET /api/v0/logs/file?node_id=n&filename=runs%2Fa+b.json&lines=5&timeout=")
    for refusal in (401, 403):
        jobs = SimpleNamespace(call=lambda *_: (refusal, b""))  # noqa: B023 (called in this turn)
        with pytest.raises(OpsError, match="the token: Ray does not accept it"):
            training._file(jobs, "n", "x")

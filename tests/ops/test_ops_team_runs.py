"""What a team's member sees of the team's runs, with the rendered rights of that member and nothing more.

The Kubernetes API is one that decides by the rendered Roles. The RayJob is what `submit` creates, with a status as
KubeRay writes it; the log is that of a process which really ran with `hyperpod_ray_job.with_secrets`.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER, parse
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.jobs import job_object, submit
from hyperpod_ray.ops.orchestrators.eks import runs as eks_runs
from hyperpod_ray.ops.reach.clients import Target
from tests.k8s.conftest import BINDINGS
from tests.ops.ops_team_runs_helpers import SPACE, Json, package, wrapped
from tests.ops.world import environment_text


@pytest.mark.parametrize("deployment", ["Failed", "ValidationFailed"])
def test_a_job_that_the_operator_failed_has_failed(target: Target, deployment: str) -> None:
    """Ray has no state of a job whose cluster never ran it; it waits for nothing either."""
    job: Json = dict(target.kubernetes.items(f"/apis/ray.io/v1/namespaces/{SPACE}/rayjobs")[1])
    job["status"] = {"jobDeploymentStatus": deployment, "jobStatus": "", "message": "the operator's words"}
    run = eks_runs._of_ray_job(target, job)
    assert (run.state, run.waits, run.message) == ("FAILED", "", "the operator's words")


def test_a_job_that_has_not_begun_comes_first() -> None:
    items = [
        {"submission_id": name, "status": "PENDING", "start_time": at}
        for name, at in (("old", 1), ("new", 9), ("not begun", None))
    ]
    jobs: Any = SimpleNamespace(json=lambda *_: items)
    assert [run.id for run in eks_runs.all_of(jobs)] == ["not begun", "new", "old"]


@pytest.mark.parametrize("storage", ["/fsx/runs", "/fsx/runs/"])
def test_the_folder_of_a_run_that_its_command_names(storage: str) -> None:
    item = {"submission_id": "a", "status": "RUNNING", "entrypoint": f"python a.py --storage {storage} --name x"}
    assert eks_runs._run(item).folder == "/fsx/runs/x"


# --- the process that runs the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("kill -9 $$", -9), ("kill -15 $$", -15), ("exit 0", 0)],
)
def test_the_commands_own_end_comes_through(tmp_path: Path, command: str, code: int) -> None:
    folder = package(tmp_path)
    (tmp_path / "progress.json").write_text('{"last_step": 3}')
    process = wrapped(folder, command, **{in_ray.RUN_FOLDER_VARIABLE: str(tmp_path)})
    out, _ = process.communicate(timeout=600)
    assert process.returncode == code
    assert out.count(reader.MARK) == 1, "the last report comes after the command's end"


def test_a_notice_reaches_the_command_and_its_end_is_waited_for(tmp_path: Path) -> None:
    """Ray signals each process of a job: the command saves and ends, and what runs it reports that."""
    folder, mark = package(tmp_path), tmp_path / "progress.json"
    save = f"trap 'echo {{}} > {mark}; exit 5' TERM; echo ready; while true; do sleep 0.05; done"
    process = wrapped(folder, save, **{in_ray.RUN_FOLDER_VARIABLE: str(tmp_path)})
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, children)):
        os.kill(pid, 15)
    process.communicate(timeout=600)
    assert process.returncode == 5
    assert mark.exists()


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"command": "python a.py"}, "4600"),
        ({"command": "python a.py --save-every-steps 5"}, None),
        ({"command": "python a.py", "env": {names.SAVE_EVERY_VARIABLE: "60"}}, "60"),
    ],
)
def test_the_plans_interval_gives_way_to_the_jobs_own(fields: Json, seconds: str | None) -> None:
    training = "training: {model: llama-3.2-1b, tokens: 1B, sequence: 2048, save_every_seconds: 4600}\n"
    made = Target(parse(environment_text() + training, name="demo", path=Path("demo.yaml")))
    request = submit.request_of(made, Job(**fields), runtime={})
    assert (request["runtime_env"].get("env_vars") or {}).get(names.SAVE_EVERY_VARIABLE) == seconds
    assert "entrypoint_resources" not in request


def test_with_gcs_fault_tolerance_the_driver_outlives_the_head() -> None:
    made = Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))
    made.plan.settings.ray.__dict__["gcs_fault_tolerance"] = object()
    request = submit.request_of(made, Job(command="python a.py"), runtime={})
    assert request["entrypoint_resources"] == {names.DRIVER_GROUP: 1}


@pytest.mark.parametrize(("hours", "seconds"), [(None, None), (1.5, 5400), (0.1, 360), (0.1001, 361)])
def test_a_job_with_an_end_says_it_in_seconds(hours: float | None, seconds: int | None) -> None:
    target = Target(load("teams", folder=FOLDER / "examples"))
    (live,) = [
        item
        for manifest in k8s.ray_manifests(target.plan, BINDINGS)
        for item in manifest.objects
        if item["kind"] == "RayCluster"
    ]
    job = Job(command="python train.py", team="vision", workers="1", gpus_per_worker=1, most_hours=hours)
    assert job_object.ray_job(target.plan, live, job, name="a-1")["spec"].get("activeDeadlineSeconds") == seconds

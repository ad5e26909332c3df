"""What tests of `hostile_runs`, `listing`, `notice`, `ops_team_runs` share."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.jobs import job_object
from hyperpod_ray.ops.reach.clients import Target
from tests.k8s.conftest import BINDINGS
from tests.ops.test_ops_as_ray_user import forbidden
from tests.ops.test_ops_run_state import write_run
from tests.support.rbac import allows, asked

Json = dict[str, Any]
SPACE = names.team_namespace("vision")
GROUP = names.users_group(SPACE)


def package(folder: Path) -> Path:
    """What is sent beside a job, unpacked as in its working folder."""
    zipfile.ZipFile(io.BytesIO(in_ray.package()[1])).extractall(folder)
    return folder


def wrapped(folder: Path, command: str, **variables: str) -> subprocess.Popen[str]:
    """The operator's entrypoint, with the variables of the head's pod."""
    environ = {**os.environ, "PYTHONPATH": str(folder), in_ray.COMMAND_VARIABLE: command, **variables}
    words = [sys.executable, "-m", f"{in_ray.PACKAGE}.with_secrets"]
    return subprocess.Popen(words, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True)


class Api:
    """The namespaces of a cluster, for a member of team `vision`."""

    def __init__(self, rules: list[Json], jobs: list[Json], log: str) -> None:
        self.rules, self.jobs, self.log = rules, jobs, log

    def _allowed(self, method: str, path: str) -> None:
        if not allows(self.rules, GROUP, asked(method, path)):
            raise forbidden()

    def items(self, path: str, *, labels: str = "") -> list[Json]:
        self._allowed("GET", path)
        assert f"/{SPACE}/" in path, "another namespace is not readable"
        if path.endswith("/rayjobs"):
            return self.jobs
        if path.endswith("/pods") and labels:
            name = labels.removeprefix("job-name=")
            pods = [{"metadata": {"name": f"{name}-x", "namespace": SPACE}, "status": {"phase": "Succeeded"}}]
            return pods if name == "first-1" else []
        return []

    def request(self, method: str, path: str, **_: Any) -> Json:
        self._allowed(method, path)
        name = path.rpartition("/")[2]
        return next(job for job in self.jobs if job["metadata"]["name"] == name)

    def text(self, path: str, *, query: Json) -> str:
        self._allowed("GET", path)
        assert path == f"/api/v1/namespaces/{SPACE}/pods/first-1-x/log"
        most = query.get("tailLines", len(self.log))
        return "".join(self.log.splitlines(keepends=True)[-most:])


@pytest.fixture(scope="module")
def rules() -> list[Json]:
    plan = load("teams", folder=FOLDER / "examples").plan
    made = {one.name: one for one in (*k8s.namespace_manifests(plan), *k8s.ray_manifests(plan, BINDINGS))}
    return [*made["Access"].objects, *made["Team-vision"].objects]


@pytest.fixture
def target(rules: list[Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Two jobs of the team: one has ended and its cluster is deleted, one waits in the queue."""
    write_run(tmp_path, "first", monkeypatch, steps=32, slope=0.1)
    found = Target(load("teams", folder=FOLDER / "examples"))
    (live,) = [
        item
        for manifest in k8s.ray_manifests(found.plan, BINDINGS)
        for item in manifest.objects
        if item["kind"] == "RayCluster"
    ]
    made = []
    for name, status in (
        ("first", {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "rayClusterName": "first-1-abcde"}),
        ("second", {"jobDeploymentStatus": "Suspended", "jobStatus": ""}),
    ):
        job = Job(
            command="python train.py", name=name, team="vision", workers="1", gpus_per_worker=1, storage=str(tmp_path)
        )
        item = job_object.ray_job(found.plan, live, job, name=f"{name}-1")
        item["metadata"] |= {"creationTimestamp": "2026-11-22T12:00:00Z", "uid": name}
        made.append({**item, "status": {"startTime": "2026-11-22T12:00:00Z", **status}})
    (folder,) = [
        one["value"]
        for one in made[0]["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
        if one["name"] == in_ray.RUN_FOLDER_VARIABLE
    ]
    done = wrapped(package(tmp_path / "code"), "echo one; echo two", **{in_ray.RUN_FOLDER_VARIABLE: folder})
    log, _ = done.communicate(timeout=600)
    assert done.returncode == 0
    monkeypatch.setattr(found.aws, "require_account", lambda: "")
    found.__dict__["kubernetes"] = Api(rules, made, f"a line of the submitter\n{log}")
    return found

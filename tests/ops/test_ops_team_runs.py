"""What a team's member sees of the team's runs, with the rendered rights of that member and nothing more.

The Kubernetes API is one that decides by the rendered Roles. The RayJob is what `submit` creates, with a status as
KubeRay writes it; the log is that of a process which really ran with `hyperpod_ray_job.with_secrets`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import load, names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER, parse
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray import reports
from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.jobs import job_object, submit
from hyperpod_ray.ops.orchestrators import run_list
from hyperpod_ray.ops.orchestrators.eks import runs as eks_runs
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach import pod_log
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.runs import listing as runs
from hyperpod_ray.ops.runs import pull
from tests.k8s.conftest import BINDINGS
from tests.ops.pod_logs import with_log
from tests.ops.test_ops_as_ray_user import forbidden
from tests.ops.test_ops_run_state import write_run
from tests.ops.world import environment_text
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
        item for one in k8s.ray_manifests(found.plan, BINDINGS) for item in one.objects if item["kind"] == "RayCluster"
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


def test_a_member_sees_state_progress_and_the_best_checkpoint_of_the_teams_runs(
    target: Target, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    source = Source()
    assert runs.listing(target, form=Format.json, source=source) == 0
    out, err = capsys.readouterr()
    assert "the standing RayCluster is not yours to reach" in err
    listed = {run["name"]: run for run in json.loads(out)["runs"]}
    assert (listed["first"]["state"], listed["first"]["waits"]) == ("SUCCEEDED", ""), "what has ended waits for nothing"
    assert (listed["first"]["progress"]["step"], listed["first"]["progress"]["steps_total"]) == (32, 100)
    assert listed["first"]["progress"]["steps_per_second"]
    assert listed["first"]["progress"]["loss"] == pytest.approx(1.8)
    assert (listed["second"]["state"], listed["second"]["progress"]) == ("PENDING", None)
    assert "hyperpod-ns-vision-localqueue" in listed["second"]["waits"]

    assert runs.show(target, "first", form=Format.table, source=source) == 0
    shown = capsys.readouterr().out
    for words in (f"{tmp_path}/first/step-00000020-abc123, loss 3", "recoveries", "32 of 100", f"namespace {SPACE}"):
        assert words in shown
    assert "two" in shown
    assert reader.MARK.strip() not in shown, "a report is no line of the job's own"

    assert runs.best(target, ["first"], metric="accuracy", mode="max", form=Format.table, source=source) == 0
    assert capsys.readouterr().out.strip() == f"{tmp_path}/first/step-00000020-abc123"
    assert runs.logs(target, "first", following=False, source=source) == 0
    assert capsys.readouterr().out.splitlines() == ["a line of the submitter", "one", "two"]


def test_a_name_that_is_no_run_and_files_that_may_not_be_read_are_said(target: Target, tmp_path: Path) -> None:
    source, none = Source(), "no run 'firsd'; did you mean 'first'"
    with pytest.raises(OpsError, match=none):
        runs.show(target, "firsd", form=Format.table, source=source)
    with pytest.raises(OpsError, match=none):
        runs.logs(target, "firsd", following=False, source=source)
    with pytest.raises(OpsError, match=none):
        runs.stop(target, "firsd", yes=True, source=source)
    wanted = pull.Wanted(best="loss")
    with pytest.raises(OpsError, match="on the shared file system, which the standing RayCluster serves"):
        pull.run(target, "first", selection=wanted, to=tmp_path / "best", source=Source(), form=Format.table)
    assert not list(tmp_path.glob("best*")), "nothing is half done"


def test_another_refusal_is_not_hidden(target: Target) -> None:
    target.plan.settings.__dict__["teams"] = []
    with pytest.raises(Exception, match="403"):
        runs.listing(target, form=Format.json, source=Source())


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


def test_an_id_goes_before_a_name_and_the_newest_of_a_name_is_meant() -> None:
    made = [
        eks_runs._run(
            {"submission_id": one, "status": "RUNNING", "metadata": {"run": name, "run_folder": "/fsx/runs/x"}}
        )
        for one, name in (("b", "a"), ("a", "c"), ("d", "c"))
    ]
    assert [run_list.pick(made, name, environment="e").id for name in ("a", "c", "d")] == ["a", "a", "d"]


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


def test_reports_come_while_the_command_runs_and_only_where_something_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    clock = iter(range(0, 10**9, 30_000))

    class EndError(Exception):
        pass

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (tmp_path / "progress.json").write_text('{"last_step": 3}')
        if len(waits) > 5:
            raise EndError

    fake = SimpleNamespace(sleep=sleep, monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("hyperpod_ray.ops.in_ray.reports.time", fake)
    with pytest.raises(EndError):
        reports._report(str(tmp_path))
    assert waits[:3] == [300.0, 600.0, 600.0]
    assert capsys.readouterr().out.count(reader.MARK) == 1


def test_a_report_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, "long", monkeypatch, steps=500, slope=0.001)
    found = reader.read(str(tmp_path / "long"))
    short = reports.shortened(found)
    assert len(json.dumps(short)) < 12_000
    assert short["history"]["last"] == found["history"]["last"], "the newest step"
    assert short["history"]["seconds"] == found["history"]["seconds"]
    assert short["checkpoints"][0] == found["checkpoints"][0]


@pytest.mark.parametrize("rest", ['HYPERPOD-RAY-RUNS [{"a', "HYPERPOD-RAY-RUNS", ""])
def test_a_report_that_is_being_written_is_not_read(rest: str) -> None:
    target = with_log(f'one\n{reader.MARK}[{{"folder": "a"}}]\ntwo\n{rest}')
    assert pod_log.report_of(target, "x", namespace="n") == {"folder": "a"}
    assert "two" in pod_log.text_of(target, "x", namespace="n")
    assert "folder" not in pod_log.text_of(target, "x", namespace="n")


def test_a_report_far_from_the_end_is_found() -> None:
    report = f'{reader.MARK}[{{"folder": "a"}}]\n'
    for lines in (10, pod_log.REPORT_LINES + 10):
        assert pod_log.report_of(with_log(report + "a line\n" * lines), "x", namespace="n") == {"folder": "a"}


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
        item for one in k8s.ray_manifests(target.plan, BINDINGS) for item in one.objects if item["kind"] == "RayCluster"
    ]
    job = Job(command="python train.py", team="vision", workers="1", gpus_per_worker=1, most_hours=hours)
    assert job_object.ray_job(target.plan, live, job, name="a-1")["spec"].get("activeDeadlineSeconds") == seconds

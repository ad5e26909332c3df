"""What training says of itself: journals read as text, and published by jobs of a real Ray."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.activity import with_activity
from hyperpod_ray.ops.observe.snapshot import (
    Job,
)
from hyperpod_ray.ops.observe.training import read, run_of
from hyperpod_ray.ops.orchestrators.eks.runs import all_of
from hyperpod_ray.ops.reach.jobs_api import OURS, Jobs
from hyperpod_ray.ops.verdict import judge
from tests.ops.ray_head import Head
from tests.ops.snapshots import healthy, said, trains
from tests.ops.world import ROOT
from tests.support.answers import JOB_KEYS, Answers
from tests.support.emulator import until

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
T = AT.timestamp()
JOB = Job(id="raysubmit_1", state="RUNNING", cluster="ray", namespace="ray")
PROGRESS: dict[str, Any] = {
    "version": 1, "name": "first", "state": "running", "state_t": T - 900, "t": T - 1, "started_t": T - 1000,
    "begun_t": T - 950, "last_step": 640, "last_step_t": T - 2, "total_steps": 1000, "step_s": 0.5, "best_step_s": 0.4,
    "pauses_s": [90.0, 12.0, 11.0], "last_checkpoint_step": 600, "last_checkpoint_t": T - 22,
    "last_checkpoint_path": "/fsx/runs/first/step-00000600-abc123", "world_size": 8, "attempt": "abc123",
    "metrics": {"loss": 2.5, "lr": 0.001}, "last_error": "ActorDiedError: the node died\nmore",
}  # fmt: skip
EVENTS = [
    '"kind": "step"}',  # cut
    json.dumps({"t": T - 30, "kind": "error", "message": "ActorDiedError: the node died\nmore"}),
    json.dumps({"t": T - 28, "kind": "lost", "rank": 3, "why": "silent for 1.5 s"}),
    json.dumps({"t": T - 25, "kind": "restore", "step": 600, "seconds": 0.4, "path": "memory", "node": "10.0.0.7"}),
    json.dumps({"t": T - 22, "kind": "save", "step": 600, "seconds": 1.5}),
    json.dumps({"t": T - 2, "kind": "step", "step": 640, "loss": 2.5}),
]


def journal(events: list[str] | None = None, **changed: Any) -> Run:
    text = "\n".join(EVENTS if events is None else events).encode()
    made = run_of(json.dumps({**PROGRESS, **changed}).encode(), lambda lines: text, job=JOB, at=AT)
    assert made is not None
    return made


# --- a journal -------------------------------------------------------------------------------------------------------


def test_a_journal_is_a_run() -> None:
    run = journal()
    assert (run.name, run.job, run.state, run.step, run.steps_total, run.world_size) == (
        "first", "raysubmit_1", "running", 640, 1000, 8,
    )  # fmt: skip
    assert (run.steps_per_second, run.best_step_seconds, run.longest_pause_seconds) == (2.0, 0.4, 12.0)
    assert (run.step_age_seconds, run.checkpoint_age_seconds, run.last_checkpoint_step) == (2.0, 22.0, 600)
    assert (run.loss, run.metrics) == (2.5, {"loss": 2.5, "lr": 0.001})
    assert (run.folder, run.attempt, run.last_error) == ("/fsx/runs/first", "abc123", "ActorDiedError: the node died")
    assert run.started == AT - timedelta(seconds=950), "the workers' start, after the driver's"
    assert (run.faults, run.recoveries) == (2, 1)
    assert [event.kind for event in run.events] == ["error", "lost", "restore", "save"]
    assert [event.text for event in run.events][:3] == ["ActorDiedError: the node died", "silent for 1.5 s", "memory"]


@pytest.mark.parametrize(
    ("written", "every"),
    [(1, 1), (8, 8), (None, None), (0, None), (-4, None), ("8", None), (True, None), (2e308, None)],
)
def test_the_pace_of_copies_is_a_number_of_steps_or_nothing(written: object, every: int | None) -> None:
    assert journal(copy_every_steps=written).copy_every_steps == every


def test_a_run_that_has_just_begun_has_no_steps() -> None:
    begun = {"version": 1, "name": "first", "state": "starting", "state_t": T, "started_t": T}
    run = run_of(json.dumps(begun).encode(), lambda lines: None, job=JOB, at=AT)
    assert run is not None
    assert (run.step, run.step_age_seconds, run.steps_per_second, run.loss) == (None, None, None, None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": 7}', "null", '"first"'])
def test_what_is_no_journal_is_no_run(text: str) -> None:
    assert run_of(text.encode(), lambda lines: "\n".join(EVENTS).encode(), job=JOB, at=AT) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "2.5", None, True, [1]])
def test_a_loss_that_is_no_number_is_none(value: Any) -> None:
    run = journal(metrics={"loss": value})
    assert (run.loss, run.metrics) == (None, {})


@pytest.mark.parametrize(
    "changed",
    [
        {"metrics": None},
        {"pauses_s": ["x", None, {}]},
        {"last_step_t": 1e300},
        {"last_step": "many"},
        {"pauses_s": None},
    ],
)
def test_a_strange_value_hides_no_other(changed: dict[str, Any]) -> None:
    assert journal(**changed).last_checkpoint_step == 600


def test_one_long_pause_is_no_habit() -> None:
    assert journal(pauses_s=[90.0]).longest_pause_seconds is None


# --- a dashboard -----------------------------------------------------------------------------------------------------


class Dashboard(http.server.BaseHTTPRequestHandler):
    """Answers as Ray's dashboard does: 500 with a text for a file that is not there."""

    jobs: ClassVar[list[dict[str, Any]]] = []
    files: ClassVar[dict[str, str]] = {}
    refuses = False
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        body, code = b"no such file", 500
        if self.path.startswith("/api/jobs/"):
            body, code = json.dumps(type(self).jobs).encode(), 200
        elif self.refuses:
            body, code = b"no", 403
        else:
            for name, text in type(self).files.items():
                if name.replace("/", "%2F") in self.path:
                    body, code = text.encode(), 200
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Sun, 22 Nov 2026 12:00:00 GMT"

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def dashboard() -> Iterator[tuple[type[Dashboard], Jobs]]:
    kind = type("Own", (Dashboard,), {"jobs": [], "files": {}, "asked": [], "refuses": False})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kind, Jobs(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def listed(number: int, state: str = "SUCCEEDED", **more: Any) -> dict[str, Any]:
    return {
        "submission_id": f"job-{number}", "status": state, "entrypoint": "python train.py", "driver_node_id": "abc",
        "start_time": int(T * 1000) + number, "end_time": None, "message": "", **more,
    }  # fmt: skip


def test_ages_are_counted_by_the_heads_clock(dashboard: tuple[type[Dashboard], Jobs]) -> None:
    kind, jobs = dashboard
    kind.jobs = [listed(1, "RUNNING", job_id="01000000")]
    kind.files = {"resilience/job-1/progress.json": json.dumps(PROGRESS), "events.jsonl": "\n".join(EVENTS)}
    (job,), (run,) = read(jobs, namespace="ray", cluster="ray")
    assert job.ray_id == "01000000"
    assert (job.run, run.job) == ("first", "job-1")
    assert (run.at, run.step_age_seconds) == (AT, 2.0)
    assert len(run.events) == 4


def test_every_job_that_runs_is_looked_at_and_few_of_the_others(dashboard: tuple[type[Dashboard], Jobs]) -> None:
    kind, jobs = dashboard
    kind.jobs = [listed(number, "RUNNING" if number == 1 else "FAILED") for number in range(1, 60)]
    found, runs = read(jobs, namespace="ray", cluster="ray")
    assert not runs
    assert [job.id for job in found][:2] == ["job-59", "job-58"]
    assert found[-1].id == "job-1", "the oldest, and it runs"
    assert len(found) == 21
    assert sum("progress.json" in path for path in kind.asked) == 7


def test_a_driver_without_a_submission_is_omitted(dashboard: tuple[type[Dashboard], Jobs]) -> None:
    kind, jobs = dashboard
    kind.jobs = [{"type": "DRIVER", "job_id": "01000000", "status": "RUNNING", "submission_id": None}]
    assert read(jobs, namespace="ray", cluster="ray") == ([], [])


def test_a_job_of_this_program_is_no_training(dashboard: tuple[type[Dashboard], Jobs]) -> None:
    kind, jobs = dashboard
    # Ray wrote the end of the second after its deletion
    left = listed(9, "FAILED") | {
        "submission_id": "read-83431d884e47",
        "message": "Entrypoint not found.",
        "metadata": None,
    }
    own = listed(8, "FAILED") | {"submission_id": "read-the-docs"}
    kind.jobs = [listed(1, "RUNNING", metadata={OURS: "runs"}), left, listed(2), own]
    assert {job.id for job in read(jobs, namespace="ray", cluster="ray")[0]} == {"job-2", "read-the-docs"}
    assert {run.id for run in all_of(jobs)} == {"job-2", "read-the-docs"}


def test_a_refused_token_is_no_missing_file(dashboard: tuple[type[Dashboard], Jobs]) -> None:
    kind, jobs = dashboard
    kind.jobs, kind.refuses = [listed(1, "RUNNING")], True
    with pytest.raises(OpsError, match="the token"):
        read(jobs, namespace="ray", cluster="ray")


# --- a real Ray ------------------------------------------------------------------------------------------------------

TRAINS = """
import sys, time
import ray

@ray.remote(num_cpus=0)
class Idle:
    def ready(self):
        return True

# two actors, as a job has that does not use the library: one runs, one waits for a GPU that is nowhere
ray.init()
runs, waits = Idle.remote(), Idle.options(num_gpus=1).remote()
assert ray.get(runs.ready.remote())
from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.journal import Journal
from hyperpod_ray_training.pace import Pace
from hyperpod_ray_training.publish import publish

folder = RunFolder(sys.argv[1])
folder.fs.makedirs(folder.path, exist_ok=True)
assert publish(folder)
journal, pace = Journal(folder, name="hanging"), Pace()
journal.update(at_once=True, state="running", started_t=time.time())
for step in range(1, 61):
    pace.stepped(time.monotonic())
    journal.event("step", step=step, loss=1 / step)
    journal.update(at_once=True, last_step=step, last_step_t=time.time(), metrics={"loss": 1 / step}, **pace.fields())
time.sleep(3600)
"""


@pytest.mark.emulator
@pytest.mark.rehearsal
@pytest.mark.slow
def test_a_hanging_run_of_a_real_job_is_found(ray: Head, tmp_path: Path) -> None:
    """Its steps, by Ray's own dashboard and log agent; 46 seconds after the last of them it hangs."""
    script, folder = tmp_path / "train.py", tmp_path / "runs" / "hanging"
    script.write_text(TRAINS)
    jobs = Jobs(ray.url, token=ray.token)
    environ = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    body = {"entrypoint": f"python {script} {folder}", "submission_id": "hangs", "runtime_env": environ}
    jobs.json("POST", "/api/jobs/", body=body)

    def seen() -> Run | None:
        _, runs = read(jobs, namespace="ray", cluster="ray")
        return next((run for run in runs if run.job == "hangs"), None)

    try:
        until(lambda: (run := seen()) is not None and run.step == 60)
        run = seen()
        assert run is not None
        assert (run.name, run.state, run.step) == ("hanging", "running", 60)
        assert run.loss == pytest.approx(1 / 60)
        assert run.step_seconds is not None
        assert run.record is not None
        assert [step.step for step in run.record.steps] == list(range(1, 61))
        assert run.last_step_at is not None
        # what the tests' stand-in for a dashboard answers has these keys
        (listed,) = [item for item in jobs.json("GET", "/api/jobs/") if item["submission_id"] == "hangs"]
        assert listed.keys() == JOB_KEYS
        query = f"node_id={listed['driver_node_id']}&filename={names.PUBLISHED_RUNS}hangs/progress.json&lines=-1"
        _, journal_ = jobs.call("GET", f"/api/v0/logs/file?{query}")
        made = Answers()
        made.trains()
        assert json.loads(journal_).keys() <= json.loads(made.files["resilience/raysubmit_1/progress.json"]).keys()
        # and a job without a journal has its actors, and no GPU on this machine
        plain = Job(id="hangs", state="RUNNING", cluster="ray", namespace="ray", ray_id=listed["job_id"])
        until(lambda: with_activity(jobs, plain).actors == {"ALIVE": 1, "PENDING_CREATION": 1})
        assert with_activity(jobs, plain).gpu_percent is None
        nodes = jobs.json("GET", "/nodes?view=summary")["data"]["summary"]
        assert [node["raylet"]["nodeId"] for node in nodes] == [listed["driver_node_id"]]
        assert nodes[0]["gpus"] == []
        job = Job(id="hangs", state="RUNNING", cluster="ray", namespace="ray", started=run.started)
        later = replace(run, at=run.last_step_at + timedelta(seconds=46), longest_pause_seconds=None)
        verdict = judge(replace(healthy(), jobs=(job,), runs=(later,)))
        assert verdict.state == "Action required"
        assert "run 'hanging' hangs: no step for 46 s after step 60" in said(verdict)
    finally:
        jobs.json("POST", "/api/jobs/hangs/stop")
    until(lambda: jobs.json("GET", "/api/jobs/hangs")["status"] == "STOPPED")
    run = seen()
    assert run is not None, "the journal outlives the job"


@pytest.mark.emulator
@pytest.mark.rehearsal
@pytest.mark.slow
def test_only_what_a_job_links_can_be_read(ray: Head, tmp_path: Path) -> None:
    """The dashboard reads no file that is not linked in its log folder, and nothing without the token."""
    (tmp_path / "secret").write_text("hidden")
    jobs = Jobs(ray.url, token=ray.token)
    node = jobs.json("GET", "/api/v0/nodes")["data"]["result"]["result"][0]["node_id"]
    for name in (
        str(tmp_path / "secret"),
        f"../../../../..{tmp_path}/secret",
        f"{names.PUBLISHED_RUNS}none/progress.json",
    ):
        _, raw = jobs.call("GET", f"/api/v0/logs/file?node_id={node}&filename={name}&lines=-1")
        assert b"hidden" not in raw
    assert Jobs(ray.url, token="wrong").call("GET", f"/api/v0/logs/file?node_id={node}&filename=x")[0] in (401, 403)


def test_the_library_and_status_name_the_same_folder() -> None:
    text = (ROOT / "hyperpod_ray_training" / "publish.py").read_text(encoding="utf-8")
    assert f'FOLDER = "{names.PUBLISHED_RUNS.rstrip("/")}"' in text


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        ({"transport": "sockets", "efa": True, "across_nodes": True}, True),
        ({"transport": "tcp;ofi_rxm", "efa": True, "across_nodes": True}, True),
        ({"transport": "efa", "efa": True, "across_nodes": True}, False),
        ({"transport": "sockets", "efa": True, "across_nodes": False}, False),
        ({"transport": "sockets", "efa": False, "across_nodes": True}, False),
        ({"transport": "", "efa": True, "across_nodes": True}, False),
        ({"transport": ["sockets"], "efa": "yes", "across_nodes": 1}, False),
        ({}, False),
    ],
)
def test_efa_nodes_that_train_over_sockets_are_a_finding(noted: dict[str, Any], found: bool) -> None:
    run = journal(**noted)
    verdict = judge(trains(transport=run.transport, misses_efa=run.misses_efa))
    findings = [finding for finding in verdict.findings if "though its nodes have EFA" in finding.what]
    assert bool(findings) is found
    assert verdict.state == ("Action required" if found else "Healthy")
    for finding in findings:
        assert "aws-ofi-nccl, which image.uri must have too" in finding.why
        assert finding.next.startswith("hyperpod-ray deploy")

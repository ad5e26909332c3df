"""Metrics go to MLflow and Weights & Biases, and no tracker, however it behaves, holds training up."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from test_ranks import TINY

from hyperpod_ray_training import tracking
from hyperpod_ray_training.settings import EXPERIMENT_VARIABLE, TRACKERS_VARIABLE, TRACKING_VARIABLE
from hyperpod_ray_training.tracking import Tracker, tracker_of

URL = "/fsx/runs/it's a run"


class Mlflow(BaseHTTPRequestHandler):
    """Answers as a server of MLflow 3.17 did: fields, status codes and the error of an unknown experiment."""

    experiments: dict[str, str]
    runs: dict[str, dict[str, Any]]
    asked: list[tuple[str, str]]
    refuse: list[int]

    def answer(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.asked.append((path, str(self.headers.get("Authorization"))))
        name = unquote(query.removeprefix("experiment_name="))
        if name in self.experiments:
            self.answer({"experiment": {"experiment_id": self.experiments[name], "name": name}})
        else:
            said = f"Could not find experiment with name '{name}'"
            self.answer({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": said}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.removeprefix("/api/2.0/mlflow/")
        self.asked.append((self.path, str(self.headers.get("Authorization"))))
        if self.refuse:
            self.answer({"error_code": "TEMPORARILY_UNAVAILABLE"}, self.refuse.pop())
        elif verb == "experiments/create":
            self.experiments[body["name"]] = "7"
            self.answer({"experiment_id": "7"})
        elif verb == "runs/search":
            wanted = body["filter"].partition(" = ")[2].strip("'")
            found = [run for run in self.runs.values() if {"key": tracking.TAG, "value": wanted} in run["tags"]]
            self.answer({"runs": [{"info": {"run_id": run["id"]}} for run in found]} if found else {})
        elif verb == "runs/create":
            run = {"id": f"r{len(self.runs)}", "metrics": [], "status": "RUNNING", **body}
            self.runs[run["id"]] = run
            self.answer({"run": {"info": {"run_id": run["id"], "status": "RUNNING"}}})
        elif verb == "runs/log-batch":
            self.runs[body["run_id"]]["metrics"] += body["metrics"]
            self.answer({})
        else:
            assert verb == "runs/update", verb
            self.runs[body["run_id"]]["status"] = body["status"]
            self.answer({"run_info": {}})

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is short of processor time is no tracker that does not answer."""
    monkeypatch.setattr(tracking, "EVERY_S", 0.01)
    for limit in ("CALL_S", "CLOSE_S", "FAILED_CLOSE_S"):
        monkeypatch.setattr(tracking, limit, 900.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Mlflow]]:
    """A server on loopback, which the environment names."""
    state: dict[str, Any] = {"experiments": {}, "runs": {}, "asked": [], "refuse": []}
    kind: type[Mlflow] = type("Here", (Mlflow,), state)
    running = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    monkeypatch.setenv(TRACKERS_VARIABLE, "mlflow")
    monkeypatch.setenv(TRACKING_VARIABLE, f"http://127.0.0.1:{running.server_port}/")
    monkeypatch.setenv(EXPERIMENT_VARIABLE, "a & b")
    yield kind
    running.shutdown()
    running.server_close()


def made() -> Tracker:
    found = tracker_of("first", URL)
    assert found is not None
    return found


def test_metrics_arrive_and_the_run_is_continued_after_a_restart(
    server: type[Mlflow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tracking.TOKEN_VARIABLE, "s3ntinel")
    tracker = made()
    for step in range(1, 2501):
        tracker.log(step, {"loss": 1 / step, "nan": float("nan"), "text": "x"})
    tracker.close(failed=True)
    assert [run["status"] for run in server.runs.values()] == ["FAILED"]
    again = made()
    again.log(2501, {"loss": 0.5})
    again.close(failed=False)
    (run,) = server.runs.values()
    assert (run["experiment_id"], run["run_name"], run["status"]) == ("7", "first", "FINISHED")
    assert [metric["step"] for metric in run["metrics"]] == list(range(1, 2502))
    assert {metric["key"] for metric in run["metrics"]} == {"loss"}
    assert run["metrics"][1]["value"] == 0.5
    assert abs(run["metrics"][0]["timestamp"] / 1000 - time.time()) < 3600
    assert {how for _, how in server.asked} == {"Bearer s3ntinel"}


def test_a_job_sends_its_metrics_and_ends_although_a_second_tracker_is_not_installed(
    server: type[Mlflow], run_job: Any
) -> None:
    import os

    names = (TRACKING_VARIABLE, EXPERIMENT_VARIABLE)
    given = {name: os.environ[name] for name in names} | {TRACKERS_VARIABLE: "mlflow,wandb"}
    done = run_job("finetune", "--name", "first", "--steps", "4", *TINY, **given)
    (run,) = server.runs.values()
    assert [metric["step"] for metric in run["metrics"] if metric["key"] == "loss"] == [1, 2, 3, 4]
    assert run["status"] == "FINISHED"
    assert "tracking: wandb does not take metrics (ModuleNotFoundError" in done.stderr


def test_what_is_refused_once_is_sent_again_and_one_line_says_so(
    server: type[Mlflow], capfd: pytest.CaptureFixture[str]
) -> None:
    server.refuse += [500, 503, 429]
    tracker = made()
    tracker.log(1, {"loss": 1.0})
    end = time.monotonic() + 900
    while not any(run["metrics"] for run in server.runs.values()):
        assert time.monotonic() < end
        time.sleep(0.01)
    tracker.close(failed=False)
    assert [metric["step"] for run in server.runs.values() for metric in run["metrics"]] == [1]
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "tracking: " in line]
    assert "mlflow does not take metrics (HTTPError: HTTP Error" in line
    assert "training continues" in line


def test_a_tracker_that_never_answers_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(TRACKERS_VARIABLE, "mlflow")
        monkeypatch.setenv(TRACKING_VARIABLE, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(tracking, "CLOSE_S", 0.2)
        monkeypatch.setattr(tracking, "MOST_WAITING", 50)
        tracker = made()
        tracker.log(0, {"loss": 1.0})
        asking, _ = silent.accept()
        for step in range(1, 1000):
            tracker.log(step, {"loss": 1.0})
        kept = [point.step for point in tracker.feeds[0].waiting.queue]
        assert kept == list(range(950, 1000)), "the newest are kept"
        tracker.close(failed=False)
        asking.close()
        assert tracker.feeds[0].thread.daemon
    assert capfd.readouterr().err.count("tracking: ") == 1


@pytest.mark.parametrize("error", [RuntimeError("no key"), SystemExit(1), KeyboardInterrupt()])
def test_whatever_a_tracker_raises_stays_in_its_thread(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def init(**_: Any) -> Any:
        raise error

    package: Any = ModuleType("wandb")
    package.init, package.Settings = init, SimpleNamespace
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setenv(TRACKERS_VARIABLE, "wandb")
    tracker = made()
    tracker.log(1, {"loss": 1.0})
    tracker.close(failed=False)
    assert f"wandb does not take metrics ({type(error).__name__}" in capfd.readouterr().err


def test_weights_and_biases_gets_each_step_once_under_the_run_s_own_id(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {"log": [], "finish": None}
    given: list[dict[str, Any]] = []
    run = SimpleNamespace(
        log=lambda metrics, step: seen["log"].append((step, metrics)),
        finish=lambda exit_code: seen.update(finish=exit_code),
    )
    package: Any = ModuleType("wandb")
    package.Settings = SimpleNamespace

    def init(**options: Any) -> Any:
        given.append(options)
        return run

    package.init = init
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setenv(TRACKERS_VARIABLE, "wandb")
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    tracker = made()
    assert made() is tracker, "a loop that begins again in its process keeps it"
    tracker.log(1, {"loss": 2.0, "accuracy": 0.5})
    tracker.log(2, {"loss": 1.0})
    tracker.close(failed=True)
    assert seen == {"log": [(1, {"loss": 2.0, "accuracy": 0.5}), (2, {"loss": 1.0})], "finish": 1}
    (options,) = given
    assert (options["project"], options["id"], options["resume"]) == ("mine", "fsx-runs-it-s-a-run", "allow")


@pytest.mark.parametrize(
    ("wanted", "kinds"), [("", None), ("mlflow", None), ("comet", None), ("wandb, mlflow", {"wandb", "mlflow"})]
)
def test_it_is_off_unless_asked_for(wanted: str, kinds: set[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACKERS_VARIABLE, wanted)
    monkeypatch.delenv(TRACKING_VARIABLE, raising=False)
    if kinds:
        monkeypatch.setenv(TRACKING_VARIABLE, "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/x")
    found = tracker_of("first", URL)
    assert (found and {feed.name for feed in found.feeds}) == kinds
    if found:
        assert {type(feed.sink) for feed in found.feeds} == {tracking.Wandb, tracking.MlflowPackage}
        monkeypatch.setattr(tracking, "CLOSE_S", 0.0)
        found.close(failed=False)


def test_the_package_of_mlflow_is_called_as_it_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            calls.append(("client", tracking_uri))

        def __getattr__(self, name: str) -> Callable[..., Any]:
            def call(*values: Any, **named: Any) -> Any:
                calls.append((name, *values, named))
                answers: dict[str, Any] = {
                    "get_experiment_by_name": None, "create_experiment": "3", "search_runs": [],
                    "create_run": SimpleNamespace(info=SimpleNamespace(run_id="r")),
                }  # fmt: skip
                return answers.get(name)

            return call

    package: Any = ModuleType("mlflow")
    package.MlflowClient = Client
    entities: Any = ModuleType("mlflow.entities")
    entities.Metric = lambda *values: values
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    sink = tracking.MlflowPackage("arn:x", experiment="team", name="first", url=URL)
    sink.send([tracking.Point(key="loss", value=1.0, step=4, t=2.0)])
    sink.end(failed=False)
    assert [call[0] for call in calls] == [
        "client", "get_experiment_by_name", "create_experiment", "search_runs", "create_run", "log_batch",
        "set_terminated",
    ]  # fmt: skip
    assert calls[-2] == ("log_batch", "r", {"metrics": [("loss", 1.0, 2000, 4)]})
    assert calls[-1] == ("set_terminated", "r", {"status": "FINISHED"})

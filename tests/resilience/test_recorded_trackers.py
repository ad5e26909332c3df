"""Calls to W&B's and MLflow's packages, judged by what the real packages were seen to take and to store.

`benchmarks/trackers.py` writes the record with the packages; these tests need neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_training import tracking
from hyperpod_ray_training.settings import (
    EXPERIMENT_VARIABLE,
    TRACKERS_VARIABLE,
    TRACKING_VARIABLE,
    WANDB_PROJECT_VARIABLE,
)
from hyperpod_ray_training.tracking import tracker_of

RECORD: dict[str, Any] = json.loads((Path(__file__).parent / "recorded_trackers.json").read_text(encoding="utf-8"))
URL = "/fsx/runs/it's a run"
TURNS = ((1, 2, 3), (4, 5))


def taken(parameters: list[str], *values: Any, **named: Any) -> dict[str, Any]:
    """Arguments by name, as the real function takes them; TypeError where it would."""
    if len(values) > len(parameters) or set(named) - set(parameters):
        raise TypeError(f"{len(values)} values, {sorted(set(named) - set(parameters))}")
    return {**dict(zip(parameters, values, strict=False)), **named}


def send(monkeypatch: pytest.MonkeyPatch, kind: str, **variables: str) -> None:
    """What `benchmarks/trackers.py` sends to the real packages: an attempt that fails, and one that ends the run."""
    for name, value in {TRACKERS_VARIABLE: kind, **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracking, "EVERY_S", 0.01)
    monkeypatch.setattr(tracking, "CLOSE_S", 900.0)
    monkeypatch.setattr(tracking, "FAILED_CLOSE_S", 900.0)
    for number, steps in enumerate(TURNS):
        tracker = tracker_of("first", URL)
        assert tracker is not None
        for step in steps:
            tracker.log(step, {"loss": 1 / step, "accuracy": step / 10})
        tracker.close(failed=number == 0)
        assert not tracker.feeds[0].warned


def test_weights_and_biases_gets_what_the_real_package_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    known = RECORD["wandb"]["parameters"]
    runs: list[list[str]] = []
    points: list[list[float]] = []
    exits: list[int] = []
    given: dict[str, Any] = {}

    def settings(**options: Any) -> Any:
        assert set(options) <= set(known["Settings"])
        given.update(options)
        return SimpleNamespace(**options)

    def log(*values: Any, **named: Any) -> None:
        asked = taken(known["log"], *values, **named)
        points.append([asked["step"], asked["data"]["loss"]])

    def init(*values: Any, **named: Any) -> Any:
        asked = taken(known["init"], *values, **named)
        runs.append([asked["project"], asked["id"], asked["name"]])
        return SimpleNamespace(log=log, finish=lambda **n: exits.append(taken(known["finish"], **n)["exit_code"]))

    package: Any = ModuleType("wandb")
    package.Settings, package.init = settings, init
    monkeypatch.setitem(sys.modules, "wandb", package)
    send(monkeypatch, "wandb", **{WANDB_PROJECT_VARIABLE: "mine"})
    assert [points, exits] == [RECORD["wandb"]["loss"], RECORD["wandb"]["exits"]]
    assert runs == [*RECORD["wandb"]["runs"]] * 2, "both attempts are one run"
    assert RECORD["wandb"]["output"] is False
    assert (given["console"], given["disable_git"], given["disable_code"]) == ("off", True, True), "metrics only"


def test_mlflow_s_package_gets_what_the_real_client_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    known = RECORD["mlflow"]["parameters"]
    store: dict[str, Any] = {"experiments": {}, "runs": {}}

    class Client:
        def __init__(self, *values: Any, **named: Any) -> None:
            taken(known["MlflowClient"], *values, **named)

        def __getattr__(self, name: str) -> Any:
            return lambda *values, **named: getattr(self, f"_{name}")(taken(known[name], *values, **named))

        def _get_experiment_by_name(self, asked: dict[str, Any]) -> Any:
            found = store["experiments"].get(asked["name"])
            return found and SimpleNamespace(experiment_id=found)

        def _create_experiment(self, asked: dict[str, Any]) -> str:
            return str(store["experiments"].setdefault(asked["name"], "7"))

        def _search_runs(self, asked: dict[str, Any]) -> list[Any]:
            assert asked["experiment_ids"] == ["7"]
            wanted = asked["filter_string"].partition(" = ")[2].strip("'")
            return [
                SimpleNamespace(info=SimpleNamespace(run_id=key))
                for key, run in store["runs"].items()
                if run["tags"] == {tracking.TAG: wanted}
            ]

        def _create_run(self, asked: dict[str, Any]) -> Any:
            store["runs"]["r"] = {**asked, "loss": []}
            return SimpleNamespace(info=SimpleNamespace(run_id="r"))

        def _update_run(self, asked: dict[str, Any]) -> None:
            run = store["runs"][asked["run_id"]]
            run["status"] = asked["status"]
            run.setdefault("statuses", []).append(asked["status"])

        _set_terminated = _update_run

        def _log_batch(self, asked: dict[str, Any]) -> None:
            store["runs"][asked["run_id"]]["loss"] += [
                [point["step"], point["value"]] for point in asked["metrics"] if point["key"] == "loss"
            ]

    package: Any = ModuleType("mlflow")
    package.MlflowClient = Client
    entities: Any = ModuleType("mlflow.entities")
    entities.Metric = lambda *values, **named: taken(known["Metric"], *values, **named)
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    send(monkeypatch, "mlflow", **{TRACKING_VARIABLE: "arn:aws:sagemaker:x", EXPERIMENT_VARIABLE: "a & b"})
    (run,) = store["runs"].values()
    assert [run["loss"], run["status"], run["run_name"], run["tags"][tracking.TAG]] == [
        RECORD["mlflow"][name] for name in ("loss", "status", "name", "tag")
    ]
    assert run["statuses"] == ["FAILED", "RUNNING", "FINISHED"]

"""Judges `hyperpod_ray_training.tracking` by the real clients: W&B offline, MLflow with a SQLite store.

    python -m venv trackers && trackers/bin/pip install wandb mlflow-skinny sqlalchemy alembic
    PYTHONPATH=. trackers/bin/python benchmarks/trackers.py --write

Sends a run that fails after three steps and continues to five, reads back what each client stored, and prints it with
the parameters that their functions take. `--write` keeps it as `tests/resilience/recorded_trackers.json`, by which the
tests judge calls without the packages.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hyperpod_ray_training import tracking
from hyperpod_ray_training.settings import (
    EXPERIMENT_VARIABLE,
    TRACKERS_VARIABLE,
    TRACKING_VARIABLE,
    WANDB_PROJECT_VARIABLE,
)

RECORD = Path(__file__).resolve().parents[1] / "tests" / "resilience" / "recorded_trackers.json"
URL = "/fsx/runs/it's a run"
TURNS = ((1, 2, 3), (4, 5))
BLOCK = 32768


def main() -> int:
    """Judge both; 0 when what arrived is what was sent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the record for the tests")
    options = parser.parse_args()
    tracking.EVERY_S, tracking.CLOSE_S, tracking.FAILED_CLOSE_S = 0.05, 300.0, 300.0
    with tempfile.TemporaryDirectory(prefix="trackers-") as name:
        os.chdir(name)
        made = {"wandb": wandb_stored(Path(name)), "mlflow": mlflow_stored(Path(name))}
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    print(text)
    if options.write:
        RECORD.write_text(text, encoding="utf-8")
    wanted = [[step, 1 / step] for turn in TURNS for step in turn]
    return 0 if made["wandb"]["loss"] == wanted == made["mlflow"]["loss"] else 1


def send(kind: str, **variables: str) -> None:
    """Two attempts of one run: the first fails."""
    os.environ.update({TRACKERS_VARIABLE: kind, **variables})
    output = sys.stdout
    for number, steps in enumerate(TURNS):
        tracker = tracking.tracker_of("first", URL)
        if tracker is None:
            raise SystemExit(f"{kind}: no tracker")
        for step in steps:
            tracker.log(step, {"loss": 1 / step, "accuracy": step / 10})
        tracker.close(failed=number == 0)
        # W&B's offline folders have the second in their names, and a second attempt would take the first one's
        time.sleep(1.5)
    if sys.stdout is not output:
        raise SystemExit(f"{kind}: the process's output is wrapped")


def wandb_stored(folder: Path) -> dict[str, Any]:
    """What the files of W&B's offline mode have, in the order of the attempts."""
    import wandb

    send("wandb", **{WANDB_PROJECT_VARIABLE: "mine", "WANDB_MODE": "offline", "WANDB_DIR": str(folder)})
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    every = [record for file in files for record in records(file)]
    kinds = {record.WhichOneof("record_type") for record in every}
    runs = {(one.run.project, one.run.run_id, one.run.display_name) for one in every if one.HasField("run")}
    return {
        "version": wandb.__version__,
        "parameters": {
            "init": parameters(wandb.init),
            "log": parameters(wandb.Run.log),
            "finish": parameters(wandb.Run.finish),
            "Settings": sorted(wandb.Settings.model_fields),
        },
        "runs": sorted(map(list, runs)),
        "loss": [point for one in every if one.HasField("history") for point in loss(one)],
        "exits": [one.exit.exit_code for one in every if one.HasField("exit")],
        "output": bool(kinds & {"output", "output_raw"}),
    }


def loss(record: Any) -> Iterator[list[float]]:
    """Step and value of `loss` of a history record."""
    values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
    yield [values["_step"], values["loss"]]


def records(file: Path) -> Iterator[Any]:
    """Records of a `.wandb` file: W&B's header, then LevelDB's log format.

    https://github.com/google/leveldb/blob/main/doc/log_format.md
    """
    from wandb.proto import wandb_internal_pb2 as proto

    data, at, parts = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = proto.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def mlflow_stored(folder: Path) -> dict[str, Any]:
    """What MLflow's own client reads back from its store."""
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    uri = f"sqlite:///{folder}/mlflow.db"
    send("mlflow", **{TRACKING_VARIABLE: uri, EXPERIMENT_VARIABLE: "a & b"})
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("a & b")
    (run,) = client.search_runs([experiment.experiment_id])
    names = ("get_experiment_by_name", "create_experiment", "search_runs", "create_run", "update_run", "log_batch",
        "set_terminated")  # fmt: skip
    return {
        "version": mlflow.__version__,
        "parameters": {
            "MlflowClient": parameters(MlflowClient),
            "Metric": parameters(Metric),
            **{name: parameters(getattr(MlflowClient, name)) for name in names},
        },
        "name": run.info.run_name,
        "status": run.info.status,
        "tag": run.data.tags[tracking.TAG],
        "loss": [[point.step, point.value] for point in client.get_metric_history(run.info.run_id, "loss")],
    }


def parameters(function: Any) -> list[str]:
    """Names of what a function takes, without `self`."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


if __name__ == "__main__":
    raise SystemExit(main())

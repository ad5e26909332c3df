"""A run's metrics to an experiment tracker: MLflow, Weights & Biases. Off unless `RESILIENCE_TRACKING` names them.

The loop puts metrics into a queue and never waits. A thread of rank 0 sends them, some seconds later and many at once.
A tracker that refuses, hangs or is away costs one line of warning; what it misses is in the run's own journal.

`MLFLOW_TRACKING_URI` names the server. An `https` address is spoken to by MLflow's REST API, without a package. The ARN
of SageMaker's MLflow needs the packages `mlflow` and `sagemaker-mlflow`, which sign with the pod's role. Weights &
Biases needs the package `wandb`, and `WANDB_API_KEY` as a secret of the job.
https://mlflow.org/docs/latest/rest-api.html
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import math
import os
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.settings import (
    EXPERIMENT_VARIABLE,
    TRACKERS_VARIABLE,
    TRACKING_VARIABLE,
    WANDB_PROJECT_VARIABLE,
)

TOKEN_VARIABLE = "MLFLOW_TRACKING_TOKEN"  # noqa: S105 - its name
TAG = "resilience.run"
MOST_WAITING, MOST_AT_ONCE = 20_000, 1000
CALL_S, EVERY_S, LONGEST_WAIT_S = 10.0, 3.0, 60.0
CLOSE_S, FAILED_CLOSE_S = 10.0, 1.0
"""How long the end of a run waits for a tracker, and a fault, which must not delay the restart."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A metric of a step."""

    key: str
    value: float
    step: int
    t: float
    """Unix seconds."""


class Sink(Protocol):
    """A tracker."""

    def send(self, points: Sequence[Point]) -> None:
        """Send points; any exception is a failure, and they are sent again."""

    def end(self, *, failed: bool) -> None:
        """The run has ended."""


class MlflowServer:
    """A tracking server, by its REST API. The same run again continues its run there."""

    def __init__(self, uri: str, *, experiment: str, name: str, url: str) -> None:
        self.uri, self.experiment, self.name, self.url = uri.rstrip("/"), experiment, name, url
        self.id = ""

    def send(self, points: Sequence[Point]) -> None:
        """`runs/log-batch`."""
        metrics = [
            {"key": point.key, "value": point.value, "step": point.step, "timestamp": int(point.t * 1000)}
            for point in points
        ]
        self._call("POST", "runs/log-batch", {"run_id": self._run(), "metrics": metrics})

    def end(self, *, failed: bool) -> None:
        """`runs/update`."""
        status = "FAILED" if failed else "FINISHED"
        self._call(
            "POST", "runs/update", {"run_id": self._run(), "status": status, "end_time": int(time.time() * 1000)}
        )

    def _run(self) -> str:
        if not self.id:
            experiment = self._experiment()
            condition = f"tags.`{TAG}` = '{self.url.replace(chr(39), '')}'"
            runs = self._call(
                "POST", "runs/search", {"experiment_ids": [experiment], "filter": condition, "max_results": 1}
            ).get("runs")
            if runs:
                self.id = str(runs[0]["info"]["run_id"])
                self._call("POST", "runs/update", {"run_id": self.id, "status": "RUNNING"})
            else:
                tags = [{"key": TAG, "value": self.url.replace("'", "")}, {"key": "mlflow.runName", "value": self.name}]
                begun = int(time.time() * 1000)
                body = {"experiment_id": experiment, "run_name": self.name, "start_time": begun, "tags": tags}
                self.id = str(self._call("POST", "runs/create", body)["run"]["info"]["run_id"])
        return self.id

    def _experiment(self) -> str:
        try:
            answer = self._call("GET", f"experiments/get-by-name?experiment_name={quote(self.experiment, safe='')}")
            return str(answer["experiment"]["experiment_id"])
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        return str(self._call("POST", "experiments/create", {"name": self.experiment})["experiment_id"])

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN_VARIABLE):
            headers["Authorization"] = f"Bearer {token}"
        elif user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
            pair = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked in `sinks`
            f"{self.uri}/api/2.0/mlflow/{path}", data=data, headers=headers, method=method
        )
        with urllib.request.urlopen(request, timeout=CALL_S) as answer:  # noqa: S310
            content = json.loads(answer.read() or b"{}")
        return content if isinstance(content, dict) else {}


class MlflowPackage:
    """The same by the package `mlflow`, whose plugin `sagemaker-mlflow` knows ARNs."""

    def __init__(self, uri: str, *, experiment: str, name: str, url: str) -> None:
        self.uri, self.experiment, self.name, self.url = uri, experiment, name, url
        self.client: Any = None
        self.id = ""

    def _begin(self) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=self.uri)
        registered = client.get_experiment_by_name(self.experiment)
        experiment = registered.experiment_id if registered else client.create_experiment(self.experiment)
        plain = self.url.replace("'", "")
        runs = client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{plain}'", max_results=1)
        run = runs[0] if runs else client.create_run(experiment, tags={TAG: plain}, run_name=self.name)
        if runs:
            client.update_run(run.info.run_id, status="RUNNING")
        self.client, self.id = client, run.info.run_id

    def send(self, points: Sequence[Point]) -> None:
        """`log_batch`."""
        from mlflow.entities import Metric

        if self.client is None:
            self._begin()
        metrics = [Metric(point.key, point.value, int(point.t * 1000), point.step) for point in points]
        self.client.log_batch(self.id, metrics=metrics)

    def end(self, *, failed: bool) -> None:
        """`set_terminated`."""
        if self.client is not None:
            self.client.set_terminated(self.id, status="FAILED" if failed else "FINISHED")


class Wandb:
    """Weights & Biases, by its package. The same run again continues its run there."""

    def __init__(self, *, project: str, name: str, url: str) -> None:
        self.project, self.name, self.url = project, name, url
        self.run: Any = None

    def send(self, points: Sequence[Point]) -> None:
        """`log`, step by step."""
        if self.run is None:
            import wandb

            # its id may have letters, digits, dashes and underscores
            run_id = re.sub(r"[^A-Za-z0-9_-]+", "-", self.url).strip("-")[-64:]
            # metrics only: by default it would also wrap this process's output and send it, and read the Git repository
            quiet = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True)
            self.run = wandb.init(project=self.project, name=self.name, id=run_id, resume="allow", settings=quiet)
        steps: dict[int, dict[str, float]] = {}
        for point in points:
            steps.setdefault(point.step, {})[point.key] = point.value
        for step in sorted(steps):
            self.run.log(steps[step], step=step)

    def end(self, *, failed: bool) -> None:
        """`finish`."""
        if self.run is not None:
            self.run.finish(exit_code=int(failed))


class _Feed:
    """A queue, and a thread that empties it into one tracker."""

    def __init__(self, name: str, sink: Sink) -> None:
        self.name, self.sink = name, sink
        self.waiting: queue.Queue[Point] = queue.Queue(MOST_WAITING)
        self.closing = threading.Event()
        self.failed = self.warned = False
        self.thread = threading.Thread(target=self._work, name=f"tracking-{name}", daemon=True)
        self.thread.start()

    def put(self, point: Point) -> None:
        """Add a point; the oldest one goes where there is no room."""
        while True:
            try:
                self.waiting.put_nowait(point)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self.waiting.get_nowait()

    def _work(self) -> None:
        batch: list[Point] = []
        wait = EVERY_S
        while True:
            ends = self.closing.wait(wait)
            while len(batch) < MOST_AT_ONCE and not self.waiting.empty():
                batch.append(self.waiting.get())
            if not batch or self._try(functools.partial(self.sink.send, batch)):
                batch, wait = [], EVERY_S
                if ends and self.waiting.empty():
                    self._try(functools.partial(self.sink.end, failed=self.failed))
                    return
            elif ends:
                return
            else:
                wait = min(LONGEST_WAIT_S, 2 * wait)

    def _try(self, call: Callable[[], None]) -> bool:
        try:
            call()
            return True
        except BaseException as error:  # a tracker's package may raise anything, SystemExit too
            self._warn(f"{type(error).__name__}: {error}")
            return False

    def _warn(self, why: str) -> None:
        if not self.warned:
            self.warned = True
            log(f"tracking: {self.name} does not take metrics ({why[:200]}); training continues, its journal has them")

    def join(self, until: float, *, wait: float) -> None:
        """Wait for what is under way, and no longer than `until`."""
        self.thread.join(max(0.0, until - time.monotonic()))
        if self.thread.is_alive():
            self._warn(f"no answer in {wait:g} s at the end")


_live: dict[tuple[str, str], Tracker] = {}


class Tracker:
    """Metrics of a run to some trackers. No method raises, and only `close` waits, for seconds."""

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self.feeds = [_Feed(name, sink) for name, sink in sinks.items()]

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Metrics of a step; what is no finite number is omitted."""
        now = time.time()
        for key, value in metrics.items():
            if isinstance(value, int | float) and math.isfinite(value):
                for feed in self.feeds:
                    feed.put(Point(key=key, value=float(value), step=step, t=now))

    def close(self, *, failed: bool) -> None:
        """The run has ended: send what is left."""
        for own_key in [key for key, tracker in _live.items() if tracker is self]:
            del _live[own_key]
        wait = FAILED_CLOSE_S if failed else CLOSE_S
        for feed in self.feeds:
            feed.failed = failed
            feed.closing.set()
        until = time.monotonic() + wait
        for feed in self.feeds:
            feed.join(until, wait=wait)


def tracker_of(name: str, url: str) -> Tracker | None:
    """The tracker that the environment asks for; None where it asks for none. Never raises.

    One for a run in a process: a loop that begins again after a fault keeps it.
    """
    if (name, url) in _live:
        return _live[name, url]
    words = [word.strip() for word in os.environ.get(TRACKERS_VARIABLE, "").split(",") if word.strip()]
    sinks = {word: sink for word in words if (sink := _sink(word, name, url)) is not None}
    if not sinks:
        return None
    tracker = _live[name, url] = Tracker(sinks)
    return tracker


def _sink(backend: str, name: str, url: str) -> Sink | None:
    uri = os.environ.get(TRACKING_VARIABLE, "")
    if backend == "wandb":
        return Wandb(project=os.environ.get(WANDB_PROJECT_VARIABLE) or "ray", name=name, url=url)
    if backend == "mlflow" and uri:
        experiment = os.environ.get(EXPERIMENT_VARIABLE) or "ray"
        server = MlflowServer if uri.startswith(("http://", "https://")) else MlflowPackage
        return server(uri, experiment=experiment, name=name, url=url)
    log(f"tracking: {backend} is omitted; {TRACKERS_VARIABLE} takes mlflow (with {TRACKING_VARIABLE}) and wandb")
    return None

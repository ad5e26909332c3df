"""A run's steps as metrics of Ray, which every Ray node serves on its metrics port: for alerts and dashboards.

| metric | what it is |
|---|---|
| `ray_training_run_step` | steps that are done |
| `ray_training_run_step_time_seconds` | Unix time of the last one; before the first, when the run began |
| `ray_training_run_loss` | the loss of that step, where the loop notes a metric of that name |
| `ray_training_run_workers` | ranks that train |

Each has the label `run`. Rank 0 sets all of them. Ray drops a value that nobody has set for twenty seconds, so those of
a rank that hangs or is lost go. The driver sets the time alone, every few seconds, to when the run began: the metric is
there exactly as long as the run has a driver, and its largest value is the last step's.
https://docs.ray.io/en/latest/ray-observability/user-guides/add-app-metrics.html
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

from hyperpod_ray_training.journal import log

STEP, STEP_TIME = "training_run_step", "training_run_step_time_seconds"
LOSS, WORKERS = "training_run_loss", "training_run_workers"
"""Names in the process; Ray serves them with `ray_` in front."""
DESCRIPTIONS = {
    STEP: "Steps of the training run that are done",
    STEP_TIME: "Unix time of the last step of the training run",
    LOSS: "Loss of the last step of the training run",
    WORKERS: "Ranks that train",
}
EVERY_S = 1.0
BEAT_S = 5.0
"""Between two settings of the driver: below Ray's interval of reports, ten seconds."""
_wall_clock = time.time  # bound here: a fault of the rehearsal shifts `time.time`
_monotonic = time.monotonic


class Metrics:
    """The metrics of one run in this process; without Ray, nothing. Never ends a run.

    Args:
        run: Name of the run.
        enabled: Whether this process is one that sets them.
    """

    def __init__(self, run: str, *, enabled: bool = True) -> None:
        self.run = run
        self.gauges: dict[str, Any] = {}
        self.set_t = -math.inf
        if not enabled:
            return
        try:
            import ray
            from ray.util.metrics import Gauge

            if ray.is_initialized():
                self.gauges = {
                    name: Gauge(name, description=text, tag_keys=("run",)) for name, text in DESCRIPTIONS.items()
                }
        except Exception as error:  # another Ray, or a driver outside of the cluster
            self._give_up(error)

    def began(self) -> None:
        """The loop of this process begins, or continues after a pause: from now on a step is awaited."""
        self._set({STEP_TIME: _wall_clock()})

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """While inside, the time of this moment is set again and again: the run has a driver."""
        if not self.gauges:
            yield
            return
        over, began = threading.Event(), {STEP_TIME: _wall_clock()}

        def beat() -> None:
            self._set(began)
            while not over.wait(BEAT_S):
                self._set(began)

        threading.Thread(target=beat, name="run-metrics", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def stepped(self, step: int, *, world: int, metrics: dict[str, float]) -> None:
        """A step is done; set at most once a second."""
        if not self.gauges or _monotonic() - self.set_t < EVERY_S:
            return
        self.set_t = _monotonic()
        values = {STEP: float(step), STEP_TIME: _wall_clock(), WORKERS: float(world)}
        loss = metrics.get("loss")
        if loss is not None:
            values[LOSS] = float(loss)
        self._set(values)

    def _set(self, values: dict[str, float]) -> None:
        if not self.gauges:
            return
        try:
            for name, value in values.items():
                self.gauges[name].set(value, tags={"run": self.run})
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.gauges = {}
        log(f"metrics: none ({type(error).__name__}: {error}); training continues without them")

"""Lets Ray see at once which nodes are left, after workers failed in a run of elastic size.

Ray Train asks its AutoscalingCoordinator which nodes it may use, and that actor looks at the cluster every 20 s only
(`TICK_INTERVAL_S`; Ray 2.60 has no setting for it). Until then it offers a node that is gone, and each attempt to start
there waits out `worker_group_start_timeout_s`. Its `get_reserved_resources(recompute=True)` looks again at once.

The actor is internal to Ray: where another Ray has none, or another form of it, the run waits for the tick as before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_training.journal import log

NEAR_S, NEAR_EVERY_S = 20.0, 1.0
"""Right after a failure: until the head has noticed that the node is gone."""
FAR_S, FAR_EVERY_S = 900.0, 5.0
"""Then, until a new node is likely to be there: HyperPod takes minutes."""
ANSWER_S = 5.0
Clock = Callable[[], float]


def recompute() -> None:
    """Let the coordinator look at the cluster now. Whatever goes wrong in Ray is raised."""
    import ray
    from ray.data._internal.cluster_autoscaler import default_autoscaling_coordinator as ray_internal

    coordinator: Any = ray_internal.get_or_create_autoscaling_coordinator()
    try:
        # of a requester that does not exist: the answer is empty, the look is what counts
        ray.get(coordinator.get_reserved_resources.remote("resilience", recompute=True), timeout=ANSWER_S)
    except ray.exceptions.GetTimeoutError:
        return  # it is busy; the next look may find it free


class FreshView:
    """One thread beside Ray's controller; `after_failure` restarts its time."""

    def __init__(
        self, look: Callable[[], object] | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look or recompute
        self._clock = clock
        self._since = 0.0
        self._thread: threading.Thread | None = None

    def after_failure(self) -> None:
        """Workers failed: look again and again from now on. Returns at once."""
        self._since = self._clock()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="fresh-view", daemon=True)
            self._thread.start()

    def wait_s(self) -> float | None:
        """Seconds until the next look; None: no more."""
        age = self._clock() - self._since
        return NEAR_EVERY_S if age < NEAR_S else FAR_EVERY_S if age < FAR_S else None

    def _run(self) -> None:
        while (pause := self.wait_s()) is not None:
            try:
                self._look()
            except Exception as error:
                log(f"fresh view: {type(error).__name__}: {error}; Ray looks at the nodes every 20 s by itself")
                return
            time.sleep(pause)

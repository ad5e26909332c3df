"""A run that Ray has given up, started again by the driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_training.errors import MARK
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.run_parts import RunFacts


class Submissions:
    """Starts a run again whose Ray controller has failed.

    `max_failures=-1` covers the workers. A `ControllerError` other than a failed start of the workers, and the
    controller's own death, end a run in spite of it (ray 2.60, `failure_handling/default.py`).

    Args:
        run: The run; a new checkpoint in its folder is progress.
        sleep: Waits between two attempts.
    """

    def __init__(self, run: RunFacts, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.run, self.folder, self.sleep = run, run.folder(), sleep
        self.last: tuple[str, Any] | None = None
        self.times = 0

    def until_done(self, fit: Callable[[], Any]) -> Any:
        """Call `fit` until it returns; raises what no new attempt can help."""
        while True:
            try:
                return fit()
            except Exception as error:
                if not self._worth_another(error):
                    raise
                pause = min(0.5 * 2.0 ** (self.times - 1), 30.0)
                log(f"Ray's controller failed ({cause_of(error)}); the run starts again in {pause:g} s")
                Journal(self.folder, name=self.run.name).event(
                    "error", role="driver", message=f"controller failed, started again: {cause_of(error)}"[:2000]
                )
                self.sleep(pause)
                self.run.preflight()  # a controller killed while it wrote its snapshot leaves half of it

    def _worth_another(self, error: Exception) -> bool:
        import ray
        from ray.train import ControllerError

        if MARK in str(error) or not isinstance(error, (ControllerError, ray.exceptions.RayActorError)):
            return False
        newest = next(iter(self.folder.checkpoints()), None)
        # an address or an id in the text differs each time; the kind of the error does not
        key = (type(getattr(error, "controller_failure", error)).__name__, newest)
        self.times = self.times + 1 if key == self.last else 1
        self.last = key
        limit = self.run.settings.crash_loop_limit
        return not limit or self.times < limit


def cause_of(error: BaseException) -> str:
    """The message that matters of a training failure: the unrecoverable one where there is one, else the first line."""
    text = str(error)
    if MARK in text:
        return text.split(MARK, 1)[1].splitlines()[0].strip()
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"

"""One rank of a shape, without Ray: the shape, the storage, the run's name, and the step before which to end."""

from __future__ import annotations

import os
import signal
import sys

import shapes
import shapes_of_laboratories  # noqa: F401 - adds its own
import shapes_of_researchers  # noqa: F401 - adds its own
import shapes_of_strangers  # noqa: F401 - adds its own
import shapes_of_trainers  # noqa: F401 - adds its own

from hyperpod_ray_training import Run, faults, main_of
from hyperpod_ray_training.open_runs import LIVE


def main() -> None:
    """Run it; a script of others does not know that it is to end."""
    name, storage, run_name, kill_at = sys.argv[1:]
    at_step = faults.FaultHooks.at_step

    def ending(hooks: faults.FaultHooks) -> None:
        at_step(hooks)
        if LIVE and LIVE[-1].step == int(kill_at):  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)

    faults.FaultHooks.at_step = ending  # type: ignore[method-assign,assignment]
    run = Run(storage=storage, name=run_name, save_every_steps=shapes.EVERY)
    run.fit(lambda config: shapes.SHAPES[name](config["run"]), workers=0)


if __name__ == "__main__":
    main_of(main)

"""What Ray's controller does for a run, where torchrun started the ranks and there is no controller.

`--workers 0` under torchrun: Ray Train's local mode joins torchrun's ranks to one process group and calls the loop, no
Ray is started. Resume, checkpoints and journal work as under Ray. This module adds what the controller had to do: keep
the newest checkpoints only, limit a collective, and hear that the machine is about to be taken away. Slurm says that by
a signal.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.run_parts import RunFacts

SAVE, LEAVE = signal.SIGUSR1, signal.SIGTERM
LEFT = 128 + LEAVE
"""Exit code of a rank that saved and left."""
_STARTED = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
_heard: set[signal.Signals] = set()


def started() -> bool:
    """Whether torchrun, or a launcher that sets its variables, started this process."""
    return os.environ.keys() >= _STARTED


def node() -> str:
    """The node's name in Slurm; `local` without."""
    return os.environ.get("SLURMD_NODENAME") or "local"


# ---- signals ----


def listen() -> None:
    """Note SIGUSR1 (save, continue) and SIGTERM (save, leave) instead of ending on them."""
    _heard.clear()
    if threading.current_thread() is threading.main_thread():
        for number in (SAVE, LEAVE):
            signal.signal(number, lambda number, _: _heard.add(signal.Signals(number)))


def heard() -> signal.Signals | None:
    """What has been asked of this rank; leaving outweighs saving. A SIGUSR1 counts once, a SIGTERM stays."""
    if LEAVE in _heard:
        return LEAVE
    if SAVE in _heard:
        _heard.discard(SAVE)
        return SAVE
    return None


def prepared(loop: Callable[[dict[str, Any]], Any], *, limit_s: float) -> Callable[[dict[str, Any]], Any]:
    """The loop for a rank of torchrun's: it listens, and a collective that hangs ends after `limit_s`."""

    @functools.wraps(loop)
    def run(config: dict[str, Any]) -> Any:
        import torch.distributed as dist

        from hyperpod_ray_training.ranks import set_limit

        if dist.group.WORLD is not None:
            set_limit(dist.group.WORLD, timedelta(seconds=limit_s))
        listen()
        return loop(config)

    return run


# ---- checkpoints ----


def prune(folder: RunFolder, run: RunFacts, *, keep: int | None) -> list[str]:
    """Delete complete checkpoints beyond `keep`, by the run's `best` or the oldest first; returns their names.

    The newest always stays, and so does what Ray's snapshot names: the run may go back to Ray.
    """
    if keep is None:
        return []
    try:
        snapshot = folder.snapshot()
    except ValueError:
        return []
    named = snapshot.names if snapshot else frozenset()
    complete = [checkpoint for checkpoint in folder.checkpoints() if folder.why_unusable(checkpoint.name) is None]
    ranked = complete
    if run.best is not None:
        metric, order = run.best
        values = {checkpoint: _value(folder.about(checkpoint.name).get("metrics"), metric) for checkpoint in complete}
        worst = float("-inf") if order == "max" else float("inf")
        ranked = sorted(
            complete,
            key=lambda checkpoint: worst if (value := values[checkpoint]) is None else value,
            reverse=order == "max",
        )
    kept = {*ranked[:keep], *complete[:1]}
    removed = []
    for checkpoint in complete:
        if checkpoint in kept or checkpoint.name in named:
            continue
        try:
            folder.fs.rm(folder.at(checkpoint.name), recursive=True)
        except OSError as error:
            log(f"{folder.at(checkpoint.name)}: not removed ({error.strerror or error})")
            continue
        removed.append(checkpoint.name)
    return removed


def _value(metrics: Any, name: str) -> float | None:
    value = metrics.get(name) if isinstance(metrics, dict) else None
    return float(value) if isinstance(value, (int, float)) and value == value else None  # noqa: PLR0124 - NaN

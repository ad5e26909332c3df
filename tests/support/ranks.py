"""The ranks of a test as processes, forked from a server that has no thread but its own.

A test's own process runs threads (the store's, those of earlier tests), and a fork copies the locks that they hold:
its child can wait for one forever.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

IMPORTED = ["pytest", "torch.distributed", "hyperpod_ray_training.spares.loop", "hyperpod_ray_training.spares.memory"]


@contextlib.contextmanager
def ranks(target: Callable[..., None], *arguments: Any, world: int = 2) -> Iterator[list[Connection]]:
    """Run `target(rank, *arguments, pipe)` for each rank, and kill what still runs at the end.

    Args:
        target: A function of a test module.
        arguments: What every rank gets; what can be pickled.
        world: The number of ranks.

    Yields:
        The other end of each rank's pipe. It reads as ended when the rank has ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    here, processes = [], []
    try:
        for rank in range(world):
            pipe, theirs = context.Pipe()
            here.append(pipe)
            processes.append(context.Process(target=target, args=(rank, *arguments, theirs)))
            processes[-1].start()
            theirs.close()
        yield here
    finally:
        for process in processes:
            process.kill()
            process.join()

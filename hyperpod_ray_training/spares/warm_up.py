"""A spare runs the user's own loop for two steps, alone, so that nothing is done for the first time in a recovery.

The groups are torch's `fake` backend with the real world size: collectives return at once and move nothing. Imports,
lazy modules and kernels (on GPUs also the context and compile caches) are warm afterwards. What the loop computes is
thrown away. Nothing is written: in a rehearsal `Resumable` only counts steps.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training.spares.groups import forget_ranks

STEPS = 2


class RehearsalOverError(BaseException):
    """The rehearsal is over. No `Exception`: a loop that handles those must not continue."""


_under_way = False


def under_way() -> bool:
    """Whether this process rehearses right now."""
    return _under_way


@contextlib.contextmanager
def _fake_groups(world: int) -> Iterator[None]:
    # registers the backend as it is imported; torch ships it for its own tests and for dry runs
    from torch.testing._internal.distributed import fake_pg

    fake = {"RANK": "0", "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    before = {name: os.environ.get(name) for name in fake}
    os.environ.update(fake)
    dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=0, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
        forget_ranks()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _ddp_without_reduction() -> Iterator[None]:
    """The fake backend's all-reduce returns no tensor, and DDP's reducer fails on that: give it the gradients back.

    DDP takes one hook, so that the loop's own is noted beside that one and not called.
    """
    real, register = DistributedDataParallel.__init__, DistributedDataParallel.register_comm_hook

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        register(self, None, lambda _, bucket: _as_it_is(bucket))  # torch looks at names and annotations

    def note(self: Any, state: object, hook: Callable[..., Any]) -> None:
        self._comm_hooks.append((hook, state))

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
    DistributedDataParallel.register_comm_hook = note  # type: ignore[method-assign]
    try:
        yield
    finally:
        DistributedDataParallel.__init__ = real  # type: ignore[method-assign]
        DistributedDataParallel.register_comm_hook = register  # type: ignore[method-assign]


def _as_it_is(bucket: Any) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def warm_up(loop: Callable[[dict[str, Any]], Any], config: Mapping[str, Any], *, world: int) -> None:
    """Rehearse. What the loop raises, other than its end, is raised."""
    global _under_way  # noqa: PLW0603 - one loop runs in a process at a time, and `Resumable` is made deep inside it
    _under_way = True
    try:
        with _fake_groups(world), _ddp_without_reduction(), contextlib.suppress(RehearsalOverError):
            loop(dict(config))
    finally:
        _under_way = False

"""What the ranks of a run agree on, over process groups of the library's own.

Decisions that depend on a clock or on one rank's luck (did a notice come, is the save done, is the deadline near) must
be the same on every rank. Two ways: `agree` stops for the answer; `ask` sends a question at one step and `answer` reads
it at the next, while the ranks compute, so that a thousand ranks do not wait for each other once a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from hyperpod_ray_training.settings import Settings


class Ranks:
    """This rank among the others. Needs a process group; makes more, all gloo, whatever the training uses.

    `agreement` is for short exchanges, `patient` and `meeting` for those whose ranks may arrive far apart. `patient` is
    also the group of a save in the background, whose thread runs collectives while the loop runs its own: what the
    loop does in that time is on another, or two ranks begin the two in another order and wait without end.
    """

    def __init__(self, settings: Settings) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        # as patient as the training's own group, which in a run with spares leaves it to the coordinator who hangs
        limit = timedelta(seconds=settings.process_group_timeout_s)
        limit = max(limit, _limit_of(dist.distributed_c10d._get_default_group()) or limit)
        self.agreement = dist.new_group(backend="gloo", timeout=limit)
        self.patient = dist.new_group(backend="gloo", timeout=timedelta(seconds=settings.checkpoint_group_timeout_s))
        self.meeting = dist.new_group(backend="gloo", timeout=timedelta(seconds=settings.checkpoint_group_timeout_s))
        # questions overlap the training, so they need a group that no `agree` runs on
        self.questions = dist.new_group(backend="gloo", timeout=limit)
        self._asked: tuple[Any, torch.Tensor] | None = None

    def agree(self, *values: float) -> list[float]:
        """The largest of each value over all ranks."""
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.agreement)
        return [float(value) for value in tensor]

    def ask(self, *values: float) -> None:
        """Ask for the largest of each value; `answer` gives it at the next step. Every rank asks at the same steps."""
        tensor = torch.tensor(values, dtype=torch.float64)
        work = None
        if self.world > 1:
            work = dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self.questions, async_op=True)
        self._asked = (work, tensor)

    def answer(self) -> list[float] | None:
        """The answer to the last question; None where none is open."""
        request, self._asked = self._asked, None
        if request is None:
            return None
        work, tensor = request
        if work is not None:
            work.wait()
        return [float(value) for value in tensor]

    def from_rank_zero(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box, src=0, group=self.patient, device=torch.device("cpu"))
        return box[0]

    def from_rank(self, rank: int, value: Any) -> Any:
        """A rank's value, on every rank; for the loop's own thread."""
        box = [value]
        if self.world > 1:
            dist.broadcast_object_list(box, src=rank, group=self.agreement, device=torch.device("cpu"))
        return box[0]

    def first_of_all(self, text: str) -> str:
        """The first text of any rank that is not empty, on every rank; empty where all are."""
        if self.world == 1:
            return text
        texts: list[Any] = [None] * self.world
        dist.all_gather_object(texts, text, group=self.patient)
        return next((str(answer) for answer in texts if answer), "")

    def meet(self) -> None:
        """A barrier for ranks that come out of something long far apart."""
        dist.barrier(group=self.meeting)


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """While inside, a collective of any group of this process may take so long."""
    before: list[tuple[dist.ProcessGroup, timedelta]] = []
    for group in list(dist.distributed_c10d._world.pg_map):
        limit = _limit_of(group)
        if limit is not None and limit.total_seconds() < seconds:
            before.append((group, limit))
            set_limit(group, timedelta(seconds=seconds))
    try:
        yield
    finally:
        for group, limit in before:
            set_limit(group, limit)


def _backends(group: dist.ProcessGroup) -> list[Any]:
    backends = {}
    for device in group._device_types:
        backend = group._get_backend(device)
        backends[id(backend)] = backend
    return list(backends.values())


def _limit_of(group: dist.ProcessGroup) -> timedelta | None:
    """The limit of a group's collectives; None for a backend that has none (torch's `fake`)."""
    limits = [backend.options._timeout for backend in _backends(group) if hasattr(backend, "options")]
    return min(limits, default=None)


def set_limit(group: dist.ProcessGroup, limit: timedelta) -> None:
    """Set how long a collective of this group may take."""
    for backend in _backends(group):
        backend._set_default_timeout(limit)

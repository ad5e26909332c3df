"""What `ray.train` answers inside the loop of a run with spares.

Ray counts the spares as workers and waits for them: a report, a barrier or a split dataset would hang. Here these
concern the ranks that train.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from ray.train.v2._internal.execution import train_fn_utils
from ray.train.v2._internal.execution.context import get_train_context
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.open_runs import LIVE


class View(DistributedTrainFnUtils):
    """Ray's functions for the loop, of the ranks that train."""

    def report(self, metrics: dict[str, Any], checkpoint: Any = None, *_: Any, **__: Any) -> None:
        """Metrics go into the run's journal and progress file; checkpoints are the run's own."""
        if checkpoint is not None:
            raise InputError(
                "ray.train.report: a checkpoint in a run with spares",
                expected="metrics: Resumable saves",
                fix="remove the checkpoint; training.save() saves now",
            )
        for training in LIVE:
            training.told(metrics)

    def get_preemption_info(self) -> Any:
        """This worker's; Ray's own way is a barrier over the spares too."""
        return get_train_context().preemption_context.preemption_info

    def barrier(self) -> None:
        """Over the ranks that train."""
        dist.barrier()

    def broadcast_from_rank_zero(self, data: Any) -> Any:
        """Over the ranks that train."""
        box = [data]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def get_dataset_shard(self, dataset_info: Any) -> Shard:
        """The rows of this rank."""
        return Shard(super().get_dataset_shard(dataset_info), rank=dist.get_rank(), world=dist.get_world_size())


class Shard:
    """A rank's rows of a dataset that every rank reads: of each batch of all ranks its own part.

    Each rank runs the dataset's pipeline itself. Batches come in the same order every time where
    `ray.data.DataContext.get_current().execution_options.preserve_order` is set.
    """

    def __init__(self, dataset: Any, *, rank: int, world: int) -> None:
        self.whole, self.rank, self.world = dataset, rank, world

    def iter_torch_batches(self, *, batch_size: int | None = 256, **options: Any) -> Iterator[Any]:
        """As `ray.data.DataIterator.iter_torch_batches`; last rows that are too few for all ranks are omitted."""
        yield from self._parts(self.whole.iter_torch_batches, batch_size, options)

    def iter_batches(self, *, batch_size: int | None = 256, **options: Any) -> Iterator[Any]:
        """As `ray.data.DataIterator.iter_batches`, for NumPy batches."""
        yield from self._parts(self.whole.iter_batches, batch_size, options)

    def _parts(self, read: Any, batch_size: int | None, options: Mapping[str, Any]) -> Iterator[Any]:
        if batch_size is None:
            raise InputError("batch_size: None in a run with spares", expected="1 or more", fix="set it")
        for batch in read(batch_size=batch_size * self.world, **options):
            rows = len(batch) if torch.is_tensor(batch) else len(next(iter(batch.values())))
            rank_rows = rows // self.world
            part = slice(self.rank * rank_rows, (self.rank + 1) * rank_rows)
            if rank_rows:
                yield batch[part] if torch.is_tensor(batch) else {name: column[part] for name, column in batch.items()}


@contextlib.contextmanager
def shown(*, rank: int, world: int) -> Iterator[None]:
    """While inside, `ray.train` tells this rank and number of ranks, and waits for nobody else."""
    context = None
    with contextlib.suppress(RuntimeError):  # no Ray worker: a test
        context = get_train_context()
    if context is None:
        yield
        return
    before, utils = context.distributed_context, train_fn_utils.get_train_fn_utils()
    context.distributed_context = dataclasses.replace(before, world_rank=rank, world_size=world)
    train_fn_utils.set_train_fn_utils(View())
    try:
        yield
    finally:
        context.distributed_context = before
        train_fn_utils.set_train_fn_utils(utils)

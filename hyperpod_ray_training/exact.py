"""Each sample once per epoch, through kills and changes of the number of ranks: a batch sampler for a DataLoader.

    loader = DataLoader(dataset, batch_sampler=EpochBatches(dataset, global_batch=64))
    for epoch in training.epochs(3):
        for batch in training.batches(loader):

The batches of all ranks together are a pure function of seed, epoch and step. The place in an epoch is the number of
steps done, which is the same for every number of ranks: nothing is repeated and nothing is missed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sized
from typing import Protocol, runtime_checkable

import numpy as np
import torch.distributed as dist
from torch.utils.data import Sampler

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.order import epoch_order


@runtime_checkable
class Exact(Protocol):
    """Data whose place is a number of steps, whatever the number of ranks."""

    @property
    def fingerprint(self) -> int:
        """Of what is in an epoch; a place counts only in the same data. Never 0."""

    def start(self, *, epoch: int, batch: int) -> None:
        """The next iterator is of this epoch, behind its first `batch` global batches."""


def ranks_now() -> tuple[int, int]:
    """This rank and the number of ranks; 0 of 1 without a process group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def steps_of(samples: int, *, global_batch: int) -> int:
    """Steps of an epoch: a rest that fills no step is spread over all of them.

    So no step is small, no rank gets an empty share, which would leave the others waiting in a collective, and the
    steps are the same for every number of ranks.
    """
    return max(1, samples // global_batch)


def part_of(step: int, *, steps: int, samples: int) -> slice:
    """The samples of a step, in the order of the epoch."""
    return slice(step * samples // steps, (step + 1) * samples // steps)


def fingerprint_of(*words: object) -> int:
    """A number that differs where the words do; never 0."""
    return zlib.crc32(repr(words).encode()) or 1


class EpochBatches(Sampler[list[int]]):
    """Index batches of this rank: together with those of the other ranks each sample once per epoch.

    Args:
        data: The dataset, or its number of samples; at least one for each rank.
        global_batch: Samples of a step over all ranks, 1 or more. It stays the same when the number of ranks changes,
            so the learning rate stays right.
        seed: Of the order, which is another one in each epoch.
        shuffle: False keeps the dataset's own order.

    Shares differ by one sample where the number of ranks does not divide a step, and steps by one where the global
    batch does not divide the epoch. To weigh samples alike within a step, sum the loss over the share and multiply by
    `world / global_batch`: the averaged gradient is then the same at every number of ranks.
    """

    def __init__(self, data: Sized | int, *, global_batch: int, seed: int = 0, shuffle: bool = True) -> None:
        self.samples = data if isinstance(data, int) else len(data)
        self.global_batch, self.seed, self.shuffle = global_batch, seed, shuffle
        self.epoch = self.batch = 0
        world = ranks_now()[1]
        if global_batch < world or self.samples < world:
            raise InputError(
                f"data: {self.samples} samples and a global batch of {global_batch}",
                expected=f"at least one sample for each of the {world} workers",
                fix="a larger global batch, or fewer workers",
            )

    @property
    def fingerprint(self) -> int:
        """Of the samples and their order."""
        return fingerprint_of(self.samples, self.global_batch, self.seed, self.shuffle)

    def start(self, *, epoch: int, batch: int) -> None:
        """The next iterator is of this epoch, behind its first `batch` steps."""
        self.epoch, self.batch = epoch, batch

    def set_epoch(self, epoch: int) -> None:
        """For a loop that does not use `training.batches`."""
        self.start(epoch=epoch, batch=0)

    def __len__(self) -> int:
        return steps_of(self.samples, global_batch=self.global_batch)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = ranks_now()
        order = epoch_order(self.seed, self.epoch, self.samples) if self.shuffle else np.arange(self.samples)
        for step in range(self.batch, len(self)):
            yield order[part_of(step, steps=len(self), samples=self.samples)][rank::world].tolist()

"""Which samples belong to a step: a pure function of the step, so a resumed run sees the data it would have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hyperpod_ray_training.errors import InputError


@lru_cache(maxsize=2)
def epoch_order(seed: int, epoch: int, samples: int) -> npt.NDArray[np.int64]:
    """The samples in the order of an epoch."""
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(samples)


def batch_of(step: int, *, global_batch: int, samples: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Indices of the global batch of `step`: every sample once per epoch, a new order each epoch.

    The same for every world size; there is no data-loader state to save. A batch may span two epochs.
    """
    if samples < 1 or global_batch < 1:
        raise InputError(
            f"data: {samples} samples and a global batch of {global_batch}",
            expected="1 or more of each",
            fix="correct the arguments",
        )
    positions = np.arange(step * global_batch, (step + 1) * global_batch)
    epochs = positions // samples
    return np.concatenate(
        [epoch_order(seed, int(e), samples)[positions[epochs == e] % samples] for e in np.unique(epochs)]
    )


def share_of(batch: Sequence[int] | npt.NDArray[np.int64], *, rank: int, world: int) -> npt.NDArray[np.int64]:
    """This rank's samples of a global batch: every world-th one. Fewer samples than ranks raises InputError.

    Shares differ by one sample where the world size does not divide the batch, so weigh the loss by
    `sum / global_batch * world`: the averaged gradient is then the global batch's mean at every world size.
    """
    if len(batch) < world:
        raise InputError(
            f"global batch: {len(batch)}",
            expected=f"at least one sample for each of the {world} workers",
            fix="a larger global batch, or fewer workers",
        )
    return np.asarray(batch)[rank::world]

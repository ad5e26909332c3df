"""Data order: a pure function of the step, the same global batch for every world size."""

from __future__ import annotations

import numpy as np
import pytest

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.order import batch_of, share_of


def test_a_step_has_the_same_batch_whenever_it_is_asked_for() -> None:
    first = [batch_of(step, global_batch=7, samples=50, seed=3).tolist() for step in range(20)]
    again = [batch_of(step, global_batch=7, samples=50, seed=3).tolist() for step in reversed(range(20))]
    assert first == again[::-1]
    assert first != [batch_of(step, global_batch=7, samples=50, seed=4).tolist() for step in range(20)]


def test_every_sample_once_an_epoch_and_a_new_order_each() -> None:
    drawn = np.concatenate([batch_of(step, global_batch=8, samples=50) for step in range(25)])  # 200 = 4 epochs
    epochs = drawn.reshape(4, 50)
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4


@pytest.mark.parametrize("world", [1, 2, 3, 5, 7])
def test_shares_make_up_the_batch_at_every_world_size(world: int) -> None:
    batch = batch_of(11, global_batch=7, samples=50)
    shares = [share_of(batch, rank=rank, world=world).tolist() for rank in range(world)]
    assert sorted(index for share in shares for index in share) == sorted(batch.tolist())


def test_fewer_samples_than_workers_is_refused() -> None:
    with pytest.raises(InputError, match=r"3. Expected at least one sample for each of the 4 workers"):
        share_of([1, 2, 3], rank=0, world=4)


def test_no_samples_is_refused() -> None:
    with pytest.raises(InputError, match="data: 0 samples"):
        batch_of(0, global_batch=4, samples=0)

from __future__ import annotations

from typing import Any

import pytest
import torch

from hyperpod_ray_training import InputError
from hyperpod_ray_training.spares.ray_view import Shard, View


class Whole:
    def iter_torch_batches(self, *, batch_size: int) -> Any:
        rows = torch.arange(11)
        yield from ({"x": part} for part in rows.split(batch_size))


def test_ranks_take_their_part_of_each_batch() -> None:
    parts = [
        [batch["x"].tolist() for batch in Shard(Whole(), rank=rank, world=3).iter_torch_batches(batch_size=2)]
        for rank in range(3)
    ]
    # the last five rows are one each, and two are left
    assert parts == [[[0, 1], [6]], [[2, 3], [7]], [[4, 5], [8]]]
    with pytest.raises(InputError, match="batch_size: None"):
        next(Shard(Whole(), rank=0, world=1).iter_torch_batches(batch_size=None))


def test_a_report_is_no_barrier_over_spares_and_takes_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperpod_ray_training import open_runs as live

    class Training:
        told_metrics: Any = None

        def leave(self, *, failed: bool) -> None: ...

        def told(self, metrics: Any) -> None:
            self.told_metrics = metrics

    training = Training()
    monkeypatch.setattr(live, "LIVE", live.LIVE)
    live.LIVE[:] = [training]
    try:
        View().report({"loss": 1.0})
        assert training.told_metrics == {"loss": 1.0}
        with pytest.raises(InputError, match=r"a checkpoint .* Expected metrics"):
            View().report({}, object())
    finally:
        live.LIVE.clear()

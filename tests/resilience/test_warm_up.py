from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training.spares import warm_up


def test_a_rehearsal_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    seen: list[Any] = []

    def loop(config: dict[str, Any]) -> None:
        seen.append((warm_up.under_way(), dist.get_world_size(), os.environ["WORLD_SIZE"]))
        dist.all_reduce(torch.ones(1))
        raise warm_up.RehearsalOverError

    warm_up.warm_up(loop, {}, world=64)
    assert seen == [(True, 64, "64")]
    assert not warm_up.under_way()
    assert not dist.is_initialized()
    assert "RANK" not in os.environ

    def broken(config: dict[str, Any]) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        warm_up.warm_up(broken, {}, world=2)
    assert not warm_up.under_way()
    assert not dist.is_initialized()

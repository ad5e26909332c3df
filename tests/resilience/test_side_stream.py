"""Copies beside a running step: what a sum says of a copy, whose tensors may be copied so, who waits for what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hyperpod_ray_training.spares.side_stream import PROOFS, SideStream, Taken, sum_of
from hyperpod_ray_training.spares.snapshot import Snapshot
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.int64])
def test_a_sum_is_of_every_bit_and_of_each_tensor_s_place(dtype: torch.dtype) -> None:
    first, second = torch.ones(5, 7).to(dtype), torch.zeros(3).to(dtype)
    total = int(sum_of([first, second]))
    assert int(sum_of([first.clone(), second.clone()])) == total
    changed = first.clone()
    changed[4, 6] = 0
    assert int(sum_of([changed, second])) != total
    assert int(sum_of([second, first])) != total
    assert int(sum_of([])) == 0


def stream(proofs: int = 0) -> SideStream:
    side = SideStream.__new__(SideStream)  # the stream itself is a GPU's
    side.proofs, side.refused, side.newest = proofs, False, None
    return side


def taken(total: int, before_update: int | None) -> Taken:
    return Taken(
        tensors=[], total=torch.tensor(total), number=torch.tensor(total), write=lambda _: None,
        before_update=None if before_update is None else torch.tensor(before_update),
    )  # fmt: skip


def test_copies_wait_until_it_is_seen_that_optimizers_alone_write(capsys: pytest.CaptureFixture[str]) -> None:
    side = stream()
    side.newest = taken(5, None)  # no optimizer has begun since: nothing is shown
    side.judge()
    assert (side.proofs, side.proved) == (0, False)
    for count in range(PROOFS):
        assert not side.proved
        side.newest = taken(5, 5)
        side.judge()
        assert side.proofs == count + 1
    assert side.proved
    other = stream(PROOFS - 1)
    other.newest = taken(5, 6)  # SAM moves parameters before the optimizer's step
    other.judge()
    assert not other.proved
    assert "parameters change outside optimizer.step" in capsys.readouterr().err
    other.newest = taken(5, 5)
    other.judge()
    assert not other.proved, "once is enough"


def test_what_is_there_may_be_sent_and_the_head_is_written_first() -> None:
    order: list[Any] = []

    def event(name: str) -> Any:
        return SimpleNamespace(synchronize=lambda: order.append(name))

    copy = taken(7, None)
    copy.write = order.append
    copy.marks = [(0, event("sum")), (100, event("half")), (200, event("all"))]
    copy.wait(60)
    assert order == ["sum", 7, "half"]
    copy.wait(100)
    assert len(order) == 3
    copy.finish()
    copy.finish()
    assert order == ["sum", 7, "half", "all"]


class AtOnce:
    """Stands for the side stream: copies at once, with the sum that a GPU would have computed."""

    def judge(self) -> None: ...

    def take(
        self, pieces: Sequence[tuple[int, torch.Tensor, bool]], buffer: torch.Tensor, write: Callable[[int], None]
    ) -> Any:
        for start, tensor, _ in pieces:
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            buffer[start : start + flat.numel()].copy_(flat)
        write(int(sum_of([tensor for _, tensor, swift in pieces if swift])))
        return SimpleNamespace(finish=lambda: None, stall_s=0.0)


def test_a_torn_copy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperpod_ray_training.spares.store.pin", lambda _: True)
    monkeypatch.setattr(Snapshot, "_written_by_optimizers", lambda self, content: frozenset(content.tensors))

    def snapshot() -> Snapshot:
        torch.manual_seed(3)
        model = torch.nn.Linear(64, 64)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        state = TrainingState(model=model, optimizer=optimizer, extra={}, per_rank={}, rank=0, world=1)
        state.gradients = False
        return Snapshot(state)

    taker = snapshot()
    taker.side = AtOnce()  # type: ignore[assignment]
    copy = taker.take(4, Store())
    assert snapshot().load(copy) == 4
    torn = copy.clone()
    torn[-1] ^= 1  # the last byte of the last tensor, from another moment
    with pytest.raises(ValueError, match=r"the copy is torn: something beside optimizer\.step"):
        snapshot().load(torn)

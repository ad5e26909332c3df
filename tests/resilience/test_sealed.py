from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hyperpod_ray_training.spares import neighbour
from hyperpod_ray_training.spares.neighbour import Neighbour
from hyperpod_ray_training.spares.sealed import ForeignError, room_for, seal, unseal
from hyperpod_ray_training.spares.snapshot import _HEAD_BYTES, numbers_of
from hyperpod_ray_training.spares.store import Store
from tests.resilience.copies_channel_helpers import snapshot


class Planted:
    """Runs when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (self.path,)


def forged(copy: torch.Tensor, content: bytes) -> torch.Tensor:
    """A copy with another pickled part."""
    head = len(content).to_bytes(8, "big") + bytes(copy[8:_HEAD_BYTES].tolist())
    made = copy.clone()
    made[: _HEAD_BYTES + len(content)] = torch.frombuffer(bytearray(head + content), dtype=torch.uint8)
    return made


@pytest.mark.parametrize("sealed_by", [None, "guessed", ""])
def test_a_copy_that_this_run_did_not_make_is_not_unpickled(sealed_by: str | None, tmp_path: Path) -> None:
    own = snapshot("the run's")
    copy = own.take(1, Store())
    assert own.load(copy) == 1
    planted = pickle.dumps(Planted(str(tmp_path / "ran")))
    if sealed_by is not None:
        planted = seal(planted, secret=sealed_by, about="the copy of rank 0")
    with pytest.raises(ForeignError, match="the copy of rank 0 is not from this run"):
        own.load(forged(copy, planted))
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Planted(str(tmp_path / "ran"))))  # noqa: S301 - the planted one does run
    assert (tmp_path / "ran").exists()


def test_one_changed_byte_is_noticed() -> None:
    own = snapshot("the run's")
    copy = own.take(1, Store())
    copy[_HEAD_BYTES + numbers_of(copy)[0] // 2] ^= 1
    with pytest.raises(ForeignError):
        own.load(copy)


def test_the_copy_of_another_rank_is_not_taken_for_this_ones() -> None:
    copy = snapshot("the run's", rank=1).take(1, Store())
    with pytest.raises(ForeignError, match="rank 0"):
        snapshot("the run's", rank=0).load(copy)


def test_a_seal_is_of_its_content_its_subject_and_its_secret() -> None:
    sealed = seal(b"content", secret="s", about="a")
    assert unseal(sealed, secret="s", about="a") == b"content"
    for secret, about, changed in (("t", "a", sealed), ("s", "b", sealed), ("s", "a", sealed + b"x"), ("s", "a", b"")):
        with pytest.raises(ForeignError):
            unseal(changed, secret=secret, about=about)


@pytest.mark.parametrize("size", [-1, 1 << 62])
def test_a_frame_that_no_memory_holds_is_refused_before_it_is_made(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour, "memory_free", lambda: (1 << 30, 1 << 20))
    exchange = Neighbour(store=Store(), group=None, nodes=["a", "b"], rank=0)
    with pytest.raises(ForeignError, match="rank 1 announces a copy of"):
        exchange._frame(size, 1)
    assert exchange._frame(1 << 20, 1).numel() == 1 << 20
    with pytest.raises(ForeignError):
        exchange._frame((2 << 20) + 1, 1)
    assert room_for(0, free=0, source=1) == 0

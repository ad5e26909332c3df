"""The channel of copies in memory: a peer that is not of the run, forged copies, frames that no memory holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.spares import host_memory, memory, wires
from hyperpod_ray_training.spares.neighbour import Neighbour
from hyperpod_ray_training.spares.sealed import ForeignError, gathered_messages, prove
from hyperpod_ray_training.spares.store import Store
from tests.resilience.copies_channel_helpers import snapshot
from tests.support.ranks import ranks


class Opened:
    """Stands for the groups of a generation, and for connections: what is opened, and inside what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node, self.closing, self.asked = "10.0.0.7", [], []  # type: ignore[var-annotated]
        self.noted = False
        monkeypatch.setattr(wires.Wires, "open", self.open)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """What is opened inside is shut where the generation is cut."""
        self.noted = True
        yield
        self.noted = False

    def refuse_if_over(self) -> None:
        """The generation goes on."""

    def close(self) -> None:
        """Of connections."""

    def open(self, ends: wires.Ends, *, secret: str, limit: timedelta, check: Any, **_: Any) -> Any:
        """Connect."""
        assert self.noted
        assert check == self.refuse_if_over
        self.asked.append((ends, secret, limit))
        return self


def test_a_generation_proves_its_group_and_seals_its_copies_with_the_runs_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(dist, "new_group", lambda **_: None)
    monkeypatch.setattr(memory, "prove", lambda *_, secret, about, **__: asked.append((secret, about)))
    monkeypatch.setattr(host_memory, "check", lambda *_, **__: None)
    state, opened = snapshot("").state, Opened(monkeypatch)
    generation = SimpleNamespace(
        member=SimpleNamespace(token="the run's"), number=7, nodes=["a", "b"], store=Store(), quiet_groups=set(),
        groups=opened,
    )  # fmt: skip
    settings = SimpleNamespace(
        checkpoint_group_timeout_s=60, memory_every_steps=1, memory_overhead=0.03, spares=1
    )  # fmt: skip
    made = memory.memory_of(generation, state, settings, quiet=None)  # type: ignore[arg-type]
    assert made is not None
    assert asked == [("the run's", "copies of generation 7")]
    assert made.snapshot.secret == "the run's"
    assert opened.asked == [(wires.Ends(state.rank, 2, 1, "10.0.0.7"), "the run's", timedelta(seconds=60))]
    assert opened.closing == [opened.close], "they end with the generation"


@pytest.mark.parametrize(
    ("here", "elsewhere", "copies"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_without_spares_a_run_trains_without_copies_that_fit_nowhere_or_not_on_some_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: bool, elsewhere: bool, copies: bool
) -> None:
    def check(*_: Any, **__: Any) -> None:
        if here:
            raise InputError("memory for spares: needs more", expected="less", fix="none")

    monkeypatch.setattr(dist, "new_group", lambda **_: None)
    monkeypatch.setattr(memory, "prove", lambda *_, **__: None)
    monkeypatch.setattr(host_memory, "check", check)
    monkeypatch.setattr(memory, "_on_any_rank", lambda on_this_rank, **_: on_this_rank or elsewhere)
    generation = SimpleNamespace(
        member=SimpleNamespace(token="t"), number=0, nodes=["a", "b"], store=Store(), quiet_groups=set(),
        groups=Opened(monkeypatch),
    )  # fmt: skip
    settings = SimpleNamespace(checkpoint_group_timeout_s=60, memory_every_steps=1, memory_overhead=0.03, spares=0)
    state = snapshot("").state
    made = memory.memory_of(generation, state, settings, quiet=None)  # type: ignore[arg-type]
    assert (made is not None) == copies
    assert ("a lost rank goes back to the checkpoint: memory for spares" in capsys.readouterr().err) == here
    settings.spares = 1
    if here:
        with pytest.raises(InputError):
            memory.memory_of(generation, state, settings, quiet=None)  # type: ignore[arg-type]


# --- two processes ----------------------------------------------------------------------------------------------------


def meet(rank: int, port: int, act: str, pipe: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    try:
        pipe.send(ACTS[act](rank))
    except ForeignError as error:
        pipe.send(str(error))


def shared_secret(rank: int) -> str:
    prove(None, secret="the run's", about="copies", rank=rank, world=2)
    return "proved"


def stranger(rank: int) -> str:
    prove(None, secret="the run's" if rank == 0 else "guessed", about="copies", rank=rank, world=2)
    return "proved"


def parrot(rank: int) -> str:
    """Rank 1 sends back what rank 0 answers; it learns that only after it has answered itself."""
    if rank == 0:
        prove(None, secret="the run's", about="copies", rank=rank, world=2)
        return "proved"
    for size in (16, 32):
        parts = [torch.zeros(size, dtype=torch.uint8) for _ in range(2)]
        dist.all_gather(parts, torch.full((size,), 7, dtype=torch.uint8))
    return "parrot"


def message(rank: int) -> str:
    text = b"short" if rank else b"a longer one"
    return repr(gathered_messages(text, group=None, world=2))


def long_message(rank: int) -> str:
    gathered_messages(b"x" * (1 if rank == 0 else 2 << 20), group=None, world=2)
    return "taken"


def huge_frame(rank: int) -> str:
    exchange = Neighbour(store=Store(), group=None, nodes=["a", "b"], rank=rank)
    if rank == 1:
        dist.send(torch.tensor([1 << 62]), 0)
        return "sent"
    exchange._hand(None, 1, 0)
    return "taken"


ACTS: dict[str, Callable[[int], str]] = {
    act.__name__: act for act in (shared_secret, stranger, parrot, message, long_message, huge_frame)
}


@pytest.mark.parametrize(
    ("act", "first", "second"),
    [
        ("shared_secret", "proved", "proved"),
        ("stranger", "copies: rank 1 is not of this run", "copies: rank 0 is not of this run"),
        ("parrot", "copies: rank 1 is not of this run", "parrot"),
        ("message", "[b'a longer one', b'short']", "[b'a longer one', b'short']"),
        ("long_message", "a message of 2,097,152 bytes between ranks", "a message of 2,097,152 bytes between ranks"),
        ("huge_frame", "rank 1 announces a copy of 4,611,686,018,427,387,904 bytes", "sent"),
    ],
)
def test_two_ranks(act: str, first: str, second: str) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ranks(meet, store.port, act) as pipes:
        assert all(pipe.poll(600) for pipe in pipes)
        said = [pipe.recv() for pipe in pipes]
    assert said[0].startswith(first)
    assert said[1] == second

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training import flight
from hyperpod_ray_training.spares import groups
from hyperpod_ray_training.spares import loop as loops
from hyperpod_ray_training.spares.groups import GenerationOverError, Groups, open_sockets
from hyperpod_ray_training.spares.loop import is_network
from hyperpod_ray_training.spares.store import Store
from tests.support.ranks import ranks

NODE = "127.0.0.1"


def waits_for_a_dead_peer(rank: int, lazy_from: int, pipe: Any) -> None:
    """Rank 1 stops; rank 0 waits for it in a collective until its sockets are cut from another thread."""
    groups.LAZY_FROM = lazy_from
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    pipe.send(opened.store.port)
    port = pipe.recv()
    opened.open(gen=1, rank=rank, world=2, host=NODE, port=port, nodes=[NODE])
    assert (groups._LAZY in os.environ) is False
    dist.new_group(backend="gloo")  # a loop opens groups of its own
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    threading.Timer(0.3, opened.cut).start()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        pipe.send(is_network(error))
    opened.let_go()
    opened.open(gen=2, rank=0, world=1, host=NODE, port=port)  # the same process, the same store, another prefix
    dist.all_reduce(torch.ones(1))
    pipe.send(dist.get_world_size())


@pytest.mark.parametrize("lazy_from", [64, 1])
def test_gloo_is_cut_where_its_abort_does_nothing_and_a_new_group_opens(lazy_from: int) -> None:
    with ranks(waits_for_a_dead_peer, lazy_from) as pipes:
        ports = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send(ports[0])
        assert pipes[0].poll(900), "it waits for the limit of the collective"
        assert pipes[0].recv() is True
        assert pipes[0].recv() == 1


@pytest.mark.parametrize(
    ("error", "network"),
    [
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"), True),
        (dist.DistStoreError("wait timeout"), True),
        (ConnectionResetError("reset"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("Connection string is wrong"), False),
        (RuntimeError("[unrecoverable] Connection closed by peer"), False),
    ],
)
def test_whose_fault_an_error_is(error: BaseException, network: bool) -> None:
    assert is_network(error) is network
    wrapped = RuntimeError("in the loop")
    wrapped.__cause__ = error
    assert is_network(wrapped) is network


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def quotes(text: str, sort: type[Exception] = RuntimeError) -> None:
    raise sort(text)


def fails_by(error: BaseException) -> None:
    try:
        raise error
    except BaseException as cause:
        raise RuntimeError("the step failed") from cause


class Broken(torch.utils.data.Dataset[int]):  # type: ignore[misc]
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("Connection to the feature store refused")


def refused() -> None:
    """The user's own client, of the standard library."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    socket.create_connection(("127.0.0.1", port), timeout=120)


def of_torch() -> None:
    dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).wait(["never"], timedelta(milliseconds=10))


@pytest.mark.parametrize(
    ("call", "network"),
    [
        (lambda: quotes("NCCL_DEBUG must be set"), False),
        (lambda: quotes("no peer review of this sample, Connection closed by peer"), False),
        (lambda: quotes("Timed out", ConnectionError), False),
        (lambda: list(torch.utils.data.DataLoader(Broken(), num_workers=1)), False),
        (refused, False),
        (of_torch, True),
        (lambda: fails_by(raised(of_torch)), True),
    ],
)
def test_an_error_of_the_users_own_stays_one_whatever_it_quotes(call: Callable[[], Any], network: bool) -> None:
    assert is_network(raised(call)) is network


def opens_lazily(rank: int, world: int, pipe: Any) -> None:
    """Four ranks: what a group connects as it opens, what a send adds, and that a cut finds that too."""
    groups.LAZY_FROM = 1
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    pipe.send(opened.store.port)
    port = pipe.recv()
    kept = socket.create_connection((NODE, port))  # somebody else's, which no cut may shut
    opened.kept = lambda: {kept.fileno()}
    opened.open(gen=1, rank=rank, world=world, host=NODE, port=port, nodes=[NODE])
    theirs = socket.create_connection((NODE, port))  # opened while the generation trains, and not exempt
    dist.barrier()
    box = torch.full((1,), float(rank))
    if rank in (0, 4):  # four apart in eight: neither a ring nor a barrier has connected these two
        other = 4 - rank
        for work in [dist.isend(box.clone(), other), dist.irecv(box, other)]:
            work.wait()
    pipe.send((float(box), sum(handle in open_sockets() for handle in opened._opened_since())))
    pipe.recv()
    if rank == 4:
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank == 0:
        threading.Timer(0.3, opened.cut).start()
        try:
            dist.recv(box, 4)
        except RuntimeError as error:
            kept.sendall(b"x")
            pipe.send(is_network(error))
    theirs.close()
    pipe.recv()


def test_a_pair_that_connects_later_is_cut_too() -> None:
    world = 8
    with ranks(opens_lazily, world, world=world) as pipes:
        ports = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send(ports[0])
        answers = [pipe.recv() for pipe in pipes]
        assert [answers[rank][0] for rank in (0, 4)] == [4.0, 0.0]
        assert all(count >= 1 for _, count in answers), "the connection that was opened meanwhile"
        for pipe in pipes:
            pipe.send("on")
        assert pipes[0].poll(900), "it waits for the limit of the collective"
        assert pipes[0].recv() is True


def survivor(monkeypatch: pytest.MonkeyPatch, *, newest_gen: int, loop: Any = None) -> Any:
    """A worker whose groups open at once, and what it says."""
    monkeypatch.setattr(loops, "Stance", lambda: SimpleNamespace(look=dict))
    monkeypatch.setattr(flight, "keep", lambda *_, **__: {})
    one = loops.Survivor.__new__(loops.Survivor)
    one.said, one.trained, one.left = [], [], 0  # type: ignore[attr-defined]
    one.member = SimpleNamespace(  # type: ignore[assignment]
        newest_gen=newest_gen, now=SimpleNamespace(), move_asked=True,
        send=lambda kind, **fields: one.said.append((kind, fields)),  # type: ignore[attr-defined]
    )  # fmt: skip

    def let_go() -> None:
        one.left += 1  # type: ignore[attr-defined]

    one.groups = SimpleNamespace(open=lambda **_: None, let_go=let_go)  # type: ignore[assignment]
    one.store, one.config, one.folder, one.loop = Store(), {}, None, loop
    return one


ASSIGN = {"type": "assign", "gen": 3, "rank": 0, "nodes": "a*1", "host": "h", "port": 1}


@pytest.mark.parametrize(("newest", "obeys"), [(2, True), (3, True), (4, False)])
def test_an_assignment_of_a_generation_that_has_ended_is_not_obeyed(
    newest: int, obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = survivor(monkeypatch, newest_gen=newest)
    one._train = one.trained.append
    one._obey(dict(ASSIGN))
    assert bool(one.trained) == obeys


OWN, LOST_PEER = ValueError("nothing of the network"), RuntimeError("[gloo] Connection closed by peer")


@pytest.mark.parametrize(
    ("error", "ended", "raises", "says"),
    [
        (OWN, True, False, []),  # a closed socket can look like anything; the generation is over anyway
        (OWN, False, True, []),
        (LOST_PEER, False, False, ["broke"]),
        (LOST_PEER, True, False, []),
        (GenerationOverError(), True, False, []),
        (loops.HandOverError(), False, False, ["handed over"]),
        (None, False, False, ["done"]),
    ],
)
def test_what_a_worker_does_with_what_ends_its_loop(
    error: BaseException | None, ended: bool, raises: bool, says: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(_: dict[str, Any]) -> str:
        one.member.newest_gen = 4 if ended else 3
        if error is not None:
            raise error
        return "result"

    one = survivor(monkeypatch, newest_gen=3, loop=loop)
    monkeypatch.setattr(loops, "shown", Nothing)
    monkeypatch.setattr(loops, "is_network", lambda raised: raised is LOST_PEER)  # this file is the user's
    if raises:
        with pytest.raises(ValueError, match="nothing of the network"):
            one._train(dict(ASSIGN))
    else:
        assert bool(one._train(dict(ASSIGN))) == (error is None)
    assert ([kind for kind, _ in one.said], one.member.now.rank, loops.current()) == (says, None, None)
    assert one.left
    assert one.member.move_asked is False


@pytest.mark.parametrize("said", ["in words", "by the way"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_lost_peer_is_known_also_behind_another_error(said: str, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch raises one error of another, with `from` or while it handles the first."""
    monkeypatch.setattr(loops, "of_user", lambda _: False)
    first, second = (LOST_PEER if lost else OWN), RuntimeError("the step has failed")
    second.__cause__, second.__context__ = (first, None) if said == "in words" else (None, first)
    assert loops.is_network(second) == lost


class Nothing:
    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

"""The traps of process groups that end and open inside a living process."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from hyperpod_ray_training.ranks import _limit_of as limit_of
from hyperpod_ray_training.spares import groups, warm_up
from hyperpod_ray_training.spares.groups import Groups, forget_meshes, open_sockets
from hyperpod_ray_training.spares.loop import is_network
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


def test_a_generation_that_ended_before_its_store_was_reached_is_not_waited_for() -> None:
    opening = Groups(node=NODE, timeout_s=240, backend="gloo")
    opening.cut()  # there is no socket yet
    with pytest.raises(ConnectionError, match="generation 1 ended") as error:
        opening.open(gen=1, rank=0, world=2, host=NODE, port=opening.store.port, over=lambda: True)
    assert is_network(error.value)
    assert not dist.is_initialized()
    opening.let_go()
    opening.open(gen=2, rank=0, world=1, host=NODE, port=opening.store.port)
    # the group that failed has counted, and a newcomer's first group has the name "0"
    assert distributed_c10d._get_default_group().group_name == "0"
    opening.let_go()


def test_each_generation_is_cut_though_the_last_one_is_still_being_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, done = threading.Event(), threading.Event()
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    real = Groups._cut_on

    def cut_slowly(*_: Any) -> None:
        slow.set()
        done.wait(600)

    try:
        monkeypatch.setattr(Groups, "_cut_on", cut_slowly)
        opened.open(gen=1, rank=0, world=1, host=NODE, port=opened.store.port)
        opened.cut()
        assert slow.wait(60)
        opened.let_go()
        monkeypatch.setattr(Groups, "_cut_on", real)
        opened.open(gen=2, rank=0, world=1, host=NODE, port=opened.store.port)
        store = distributed_c10d._get_default_store()
        opened.cut()
        with pytest.raises(dist.DistNetworkError):
            for _ in range(600):
                store.set("key", "value")
                time.sleep(0.1)
    finally:
        done.set()
        opened.let_go()


def test_who_has_met_is_waited_for_a_few_seconds_and_then_as_long_as_asked() -> None:
    opened, asked = Groups(node=NODE, timeout_s=1800, backend="gloo"), []
    store = dist.HashStore()
    store.add("name/come", 1)  # the other has come

    def real(*_: Any, **options: Any) -> tuple[None, None]:
        asked.append(options["timeout"])
        return None, None

    opened._real = real
    opened._open_group(2, 0, [], "gloo", store, "name", timeout=timedelta(seconds=1800))
    assert asked[0].total_seconds() < 3, "gloo waits five times as long"
    opened.open(gen=1, rank=0, world=1, host=NODE, port=opened.store.port)
    assert limit_of(dist.new_group(backend="gloo", timeout=timedelta(seconds=77))) == timedelta(seconds=77)
    assert limit_of(distributed_c10d._get_default_group()) == timedelta(seconds=1800)
    opened.let_go()


def test_a_wait_for_those_who_never_come_is_cut() -> None:
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    ended = threading.Event()

    def end() -> None:
        ended.set()
        opened.cut()

    threading.Timer(0.5, end).start()
    with pytest.raises((dist.DistNetworkError, ConnectionError)):
        opened.open(gen=1, rank=0, world=2, host=NODE, port=opened.store.port, over=ended.is_set)
    opened.let_go()
    assert not dist.is_initialized()


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


def meshes(rank: int) -> tuple[int, list[Any]]:
    """A sharded parameter's rank, and its offsets in a checkpoint, after a change of rank in one process."""
    from torch.distributed.checkpoint.planner_helpers import _create_write_items
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed import fake_pg

    dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=rank, world_size=2)
    try:
        model = torch.nn.Linear(4, 8)
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        weight = optimizer.state[model.weight]["exp_avg"]
        items = _create_write_items("weight", weight)
        return weight.device_mesh.get_rank(), [tuple(item.tensor_data.chunk.offsets) for item in items]
    finally:
        dist.destroy_process_group()


def test_dtensor_does_not_remember_the_rank_of_another_generation() -> None:
    forget_meshes()
    assert meshes(0) == (0, [(0, 0)])
    forget_meshes()
    assert meshes(1) == (1, [(4, 0)])
    forget_meshes()


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

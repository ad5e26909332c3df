"""The traps of process groups that end and open inside a living process."""

from __future__ import annotations

import socket
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from hyperpod_ray_training.ranks import _limit_of as limit_of
from hyperpod_ray_training.spares.groups import Groups, forget_meshes
from hyperpod_ray_training.spares.loop import is_network

NODE = "127.0.0.1"


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


def test_what_was_opened_beside_a_generation_is_cut_and_closed_with_it() -> None:
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    opened.open(gen=1, rank=0, world=1, host=NODE, port=opened.store.port)
    with socket.create_server((NODE, 0)) as server:
        outside = socket.create_connection(server.getsockname())
        with opened.noting():
            inside = socket.create_connection(server.getsockname())
        opened.closing.append(inside.close)
        inside.settimeout(600)
        opened.cut()
        assert inside.recv(1) == b"", "it is shut"
        opened.let_go()
        assert inside.fileno() == -1
        assert opened.closing == []
        assert outside.getpeername() == server.getsockname()
        outside.close()


def test_who_asks_of_a_generation_that_is_over_hears_so() -> None:
    over = [False]
    opened = Groups(node=NODE, timeout_s=1800, backend="gloo")
    opened.open(gen=4, rank=0, world=1, host=NODE, port=opened.store.port, over=lambda: over[0])
    opened.refuse_if_over()
    over[0] = True
    with pytest.raises(ConnectionError, match="generation 4 ended"):
        opened.refuse_if_over()
    opened.let_go()

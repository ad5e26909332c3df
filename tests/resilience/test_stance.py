"""What the stance of a thread is in each of the places where loops of others stand: real threads, real waits."""

from __future__ import annotations

import bdb
import contextlib
import os
import pdb
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training.spares import stance
from hyperpod_ray_training.spares.stance import Stance
from tests.support.ranks import ranks


class Loop:
    """A thread that does something, and its stance."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        THREADS.append(self.thread)
        self.thread.start()
        assert self.begun.wait(60)

    def run(self) -> None:
        self.stance = Stance()
        self.begun.set()
        with contextlib.suppress(Exception, bdb.BdbQuit):
            self.work()

    def until(self, place: str, *, still: bool = True) -> dict[str, Any]:
        """Look until it stands there."""
        looked: list[Any] = []
        for _ in range(1200):
            time.sleep(0.1)
            looked.append(self.stance.look(time.monotonic()))
            if looked[-1].get("place") == place and (not still or looked[-1]["still"] > 0):
                return dict(looked[-1])
        raise AssertionError(f"{place} expected: {looked[-5:]}")


ENDED = threading.Event()
LONG_S = 3.0
"""So long a thread stands still, unless the test has ended."""
PIPES: list[socket.socket] = []
THREADS: list[threading.Thread] = []


@pytest.fixture(autouse=True)
def end() -> Iterator[None]:
    """Threads of a test end with it: torch's own would end the whole process otherwise."""
    ENDED.clear()
    yield
    ENDED.set()
    while PIPES:
        PIPES.pop().close()
    while THREADS:
        THREADS.pop().join()


def a_lock() -> None:
    lock = threading.Lock()
    with lock:
        lock.acquire(timeout=LONG_S)


def evaluates() -> None:
    while not ENDED.is_set():
        sum(value * value for value in range(2000))


def sorts_in_c() -> None:
    """One long call that lets others run: torch gives Python's lock back."""
    whole = torch.randn(3_000_000)
    while not ENDED.is_set():
        whole.sort()


def pipe() -> socket.socket:
    left, right = socket.socketpair()
    PIPES.append(right)
    return left


def reads_a_socket() -> None:
    with pipe() as left:
        left.recv(1)


def selects() -> None:
    with pipe() as left:
        select.select([left], [], [], LONG_S)


def waits_for_a_process() -> None:
    subprocess.run([sys.executable, "-c", f"import time; time.sleep({LONG_S})"], check=False)


def waits_for_a_queue() -> None:
    queue.Queue().get(timeout=LONG_S)


def waits_for_a_future() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ENDED.wait).result()


class Slow(torch.utils.data.Dataset[int]):  # type: ignore[misc]
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        time.sleep(LONG_S)
        return index


def waits_for_a_loader() -> None:
    list(torch.utils.data.DataLoader(Slow(), num_workers=1))


def is_debugged() -> None:
    left = pipe()
    with left:
        pdb.Pdb(stdin=left.makefile("r"), stdout=left.makefile("w")).set_trace()
        time.sleep(0)


@pytest.mark.parametrize(
    ("work", "place"),
    [
        (a_lock, "lock"),
        (lambda: time.sleep(LONG_S), "sleep"),
        (reads_a_socket, "input"),
        (selects, "input"),
        (waits_for_a_process, "input"),
        (waits_for_a_queue, "thread"),
        (waits_for_a_future, "thread"),
        (waits_for_a_loader, "data"),
        (is_debugged, "debugger"),
    ],
)
def test_where_a_loop_stands(work: Callable[[], Any], place: str) -> None:
    stance = Loop(work).until(place)
    assert Path(__file__).name in stance["at"] or "pdb" in stance["at"] or "lambda" in stance["at"]


@pytest.mark.parametrize("work", [evaluates, sorts_in_c])
def test_a_loop_that_computes_moves(work: Callable[[], Any]) -> None:
    loop = Loop(work)
    for _ in range(5):
        loop.until("moves", still=False)


def test_the_time_that_a_loop_stands_still_is_counted_from_its_last_move() -> None:
    loop = Loop(a_lock)
    loop.until("lock")
    begun = time.monotonic()
    first = loop.stance.look(begun)["still"]
    assert loop.stance.look(begun + 7)["still"] == pytest.approx(first + 7, abs=0.1)


def test_a_lock_in_a_process_whose_other_threads_compute_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(a_lock)
    loop.until("lock")
    computed = iter(range(1000))
    monkeypatch.setattr(time, "process_time", lambda: 1000.0 + next(computed))
    begun = time.monotonic()
    loop.stance.look(begun)
    assert loop.stance.look(begun + 0.2)["place"] == "process"


def waits_for_a_peer(rank: int, port: int, place: str, pipe: Any) -> None:
    """Rank 1 begins no collective; rank 0 says where it stands."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    stance, model = Stance(), torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))

    def look() -> None:
        while True:
            time.sleep(0.1)
            looked = stance.look(time.monotonic())
            if looked["still"] > 0.5:
                pipe.send(looked["place"])

    if rank:
        time.sleep(3600)
    threading.Thread(target=look, daemon=True).start()
    if place == "backward":
        model(torch.ones(2, 4)).sum().backward()
    else:
        dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("place", ["collective", "backward"])
def test_a_rank_that_waits_for_a_peer(place: str) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with ranks(waits_for_a_peer, store.port, place) as pipes:
        assert pipes[0].poll(900)
        assert pipes[0].recv() == place


@pytest.mark.parametrize(("busy", "place"), [(True, "lock"), (False, "moves")])
def test_a_thread_that_spins_while_its_gpu_never_rests_waits_for_it(
    busy: bool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stance, "device_is_busy", lambda: busy)
    monkeypatch.setattr(stance, "DEVICE_S", 0.5)
    looked = Loop(sorts_in_c).until(place, still=busy)
    assert not busy or looked["still"] >= 0.5

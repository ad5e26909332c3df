"""Process groups that open and end inside one living process.

Traps, each with a test in `tests/resilience/test_groups.py`:

- gloo has no abort (torch 2.13: it returns and unblocks nothing). A rank that waits for a dead peer raises at once
  when the group's sockets are shut, so the sockets that a group opens are noted.
- a rank that opens a group waits for the connection of a peer, and has no socket yet that could be shut. So ranks
  first meet in the store, whose socket can be shut, and then connect within a short limit (`OPENING_S`).
- torch counts the groups of a process, and their names are this number. A default group that failed to open has
  counted: the process and its peers would wait for each other under two names.
- DTensor caches results by mesh equality, which ignores this process's rank and the age of the mesh. After a change of
  rank or group `param.device_mesh` would be the old one, and checkpoint offsets another rank's.
- a store's keys outlive the group: each generation has a prefix of its own.
- gloo connects every rank with every other as a group opens: thousands of sockets a process, and a read of every
  address by every rank. Groups of more than `LAZY_FROM` ranks connect two ranks when these first have something to
  say. What their collectives use is used once as they open, within the short limit: a rank that then waits for one
  that died has a socket that can be shut.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.ranks import set_limit

CONNECT_S = 5.0
"""Rank 0's store is connected to within this: its node may be gone."""
OPENING_S, OPENING_PER_RANK_S = 2.0, 0.01
"""Ranks that have met exchange addresses within this, and connect within five times as long (gloo's own factor)."""
LAZY_FROM = 64
"""Ranks of a group from which on its pairs connect when they are first used."""
_LAZY = "TORCH_GLOO_LAZY_INIT"
"""Read by torch as a gloo group opens."""
_AGAIN_S = 0.1
"""A generation that has ended is cut again and again: its main thread may be about to open a socket."""
_INTERRUPT_AFTER_S, _INTERRUPT_EVERY_S = 2.0, 5.0
"""A loop that is in no collective, but in Python, is interrupted."""


class GenerationOverError(BaseException):
    """The generation has ended while the loop was in its own code. No `Exception`: loops handle those."""


class Groups:
    """The process groups of this process, one generation at a time.

    Args:
        node: This node's address.
        timeout_s: Limit of a collective.
        backend: Of the training group, for example `gloo` or `cpu:gloo,cuda:nccl`.
    """

    def __init__(self, *, node: str, timeout_s: float, backend: str) -> None:
        self.node, self.backend, self.timeout = node, backend, timedelta(seconds=timeout_s)
        # opened once and early: whoever becomes rank 0 is ready to be found
        self.store = dist.TCPStore(node, 0, is_master=True, wait_for_workers=False)
        self._sockets: set[int] = set()
        self._before: set[int] | None = None
        self._lock = threading.RLock()
        self._over: Callable[[], bool] = lambda: False
        self._left = threading.Event()
        self._left.set()
        self._cutter: threading.Thread | None = None
        self._thread_id, self._gen = 0, -1
        self._real: Any = None
        self._nodes: frozenset[str] = frozenset()
        self._foreign: set[int] | None = None
        self.closing: list[Callable[[], None]] = []
        """What the library has opened beside the groups, to be closed with them."""
        self.kept: Callable[[], set[int]] = set
        """Sockets that are nobody's but another part of the library's."""

    @contextlib.contextmanager
    def noting(self) -> Any:
        """Sockets that are opened inside are the generation's: they are shut where it is cut."""
        with self._lock:
            self._before = open_sockets()
        try:
            yield
        finally:
            with self._lock:
                self._take_note()
                self._before = None

    def _take_note(self) -> None:
        if self._before is not None:
            self._sockets |= open_sockets() - self._before

    def open(
        self,
        *,
        gen: int,
        rank: int,
        world: int,
        host: str,
        port: int,
        nodes: Iterable[str] = (),
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open the default group of a generation on rank 0's store.

        Groups that the library and the loop open later, until `let_go`, are opened the same way: the ranks meet in the
        store, then connect.

        Args:
            gen: The generation.
            rank: This process's.
            world: Ranks of the generation.
            host: Rank 0's node.
            port: Rank 0's store.
            nodes: The addresses of the ranks' nodes.
            over: Whether the generation has ended already. Then ConnectionError is raised, by each group that is
                opened.
        """
        with self._lock:
            self._sockets, self._over, self._thread_id, self._gen = set(), over, threading.get_ident(), gen
            self._left, self._cutter = threading.Event(), None
            self._nodes, self._foreign = frozenset(nodes), open_sockets() if world > LAZY_FROM else None
            self._real, c10d._new_process_group_helper = c10d._new_process_group_helper, self._open_group
        forget_groups()
        with self.noting():
            # rank 0 connects to its own store too: a wait on the store object itself could not be cut
            store = dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=CONNECT_S))
        store.set_timeout(self.timeout)
        # read by libraries that make no group where there is one (Accelerate)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR=host, MASTER_PORT=str(port))
        dist.init_process_group(
            self.backend,
            store=dist.PrefixStore(f"generation-{gen}", store),
            rank=rank,
            world_size=world,
            timeout=self.timeout,
        )

    def _open_group(self, size: int, rank: int, members: list[int], *rest: Any, **options: Any) -> Any:
        """What torch opens a group with (`rest`: backend, store, name), after a meeting of its members."""
        self.refuse_if_over()
        _, store, name = rest
        timeout = options["timeout"]
        if size > 1 and (not members or dist.get_rank() in members):
            meet(store, name, size, timeout)
            self.refuse_if_over()
            options["timeout"] = min(timeout, timedelta(seconds=OPENING_S + OPENING_PER_RANK_S * size))
        with self.noting(), _connecting_lazily(size):
            group, prefix = self._real(size, rank, members, *rest, **options)
            if isinstance(group, dist.ProcessGroup):
                if size > LAZY_FROM:
                    use_once(group)
                set_limit(group, timeout)
        return group, prefix

    def refuse_if_over(self) -> None:
        """Raise ConnectionError where the generation has ended."""
        # it was cut before there was a socket to shut: nobody else would end the wait that follows
        if self._over():
            raise ConnectionError(f"generation {self._gen} ended while its groups were being opened")

    def cut(self) -> None:
        """Make every collective of this generation raise, in whichever thread it waits, until it is let go."""
        with self._lock:
            if not self._left.is_set() and self._cutter is None:
                self._cutter = threading.Thread(
                    target=self._cut_on, args=(self._left,), name="resilience-cut", daemon=True
                )
                self._cutter.start()

    def _shut_all(self) -> None:
        with self._lock:
            self._take_note()  # somebody may be lost while a group is being opened
            for handle in self._sockets | self._opened_since():
                _shut(handle)
            self._sockets = set()
        if torch.cuda.is_available() and dist.is_initialized():
            with contextlib.suppress(Exception):
                c10d._abort_process_group()

    def _opened_since(self) -> set[int]:
        """Connections with peers that a lazy group has opened while nobody took note."""
        if self._foreign is None:
            return set()
        handles = open_sockets() - self._foreign - self.kept()
        return {handle for handle in handles if _is_with(handle, self._nodes, own_port=self.store.port)}

    def _cut_on(self, departed: threading.Event) -> None:
        interrupt_t = time.monotonic() + _INTERRUPT_AFTER_S
        while not departed.is_set():
            with self._lock:
                if departed.is_set():  # the next generation's sockets are none of this one's
                    return
                self._shut_all()
                if time.monotonic() >= interrupt_t:
                    interrupt_t += _INTERRUPT_EVERY_S
                    _raise_in(self._thread_id, GenerationOverError)
            departed.wait(_AGAIN_S)

    def let_go(self) -> None:
        """Forget this generation; never raises, whatever state its groups are in."""
        with self._lock:
            self._left.set()
            if self._thread_id == threading.get_ident():
                _raise_in(self._thread_id, None)
        self._shut_all()
        while self.closing:
            self.closing.pop()()
        if self._real is not None:
            c10d._new_process_group_helper, self._real = self._real, None
        for forget in (forget_ranks, dist.destroy_process_group, forget_groups):
            try:
                if dist.is_initialized() or forget is not dist.destroy_process_group:
                    forget()
            except Exception as error:
                log(f"letting go of a generation: {type(error).__name__}: {error}")


@contextlib.contextmanager
def _connecting_lazily(size: int) -> Iterator[None]:
    if size <= LAZY_FROM:
        yield
        return
    before = os.environ.get(_LAZY)
    os.environ[_LAZY] = "1"
    try:
        yield
    finally:
        os.environ.pop(_LAZY) if before is None else os.environ.update({_LAZY: before})


def use_once(group: dist.ProcessGroup) -> None:
    """Let the pairs connect that gloo's sums and barriers go over, where gloo is among a group's backends."""
    device = torch.device("cpu")
    if device in group._device_types and group._get_backend(device).name() == "gloo":
        connect_few(group._get_backend(device))


def connect_few(gloo: Any) -> None:
    """A message to the next rank, for rings, and a barrier: few pairs, however many ranks."""
    rank, size = gloo.rank(), gloo.size()
    sent = gloo.send([torch.ones(1)], (rank + 1) % size, 0)
    gloo.recv([torch.ones(1)], (rank - 1) % size, 0).wait()
    sent.wait()
    gloo.barrier().wait()


def meet(store: Any, name: str, size: int, timeout: timedelta) -> None:
    """Wait until so many ranks have come to open this group."""
    if store.add(f"{name}/come", 1) >= size:
        store.set(f"{name}/all", "1")
    store.wait([f"{name}/all"], timeout)


def forget_groups() -> None:
    """Put torch's count of groups back where no group is open: its names must be those of a new process."""
    if not dist.is_initialized():
        world = c10d._world
        for registry in (world.pg_map, world.pg_names, world.pg_group_ranks, world.pg_backend_config, world.pg_to_tag,
                      world.tags_to_pg, world.pg_coalesce_state):  # fmt: skip
            registry.clear()
        c10d._unregister_all_process_groups()
        world.group_count = 0


def _raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    """Raise in another thread, once it is in Python; None takes back what has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), None if error is None else ctypes.py_object(error)
    )


def open_sockets() -> set[int]:
    """The descriptors of this process that are sockets."""
    descriptors = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if str(descriptor.readlink()).startswith("socket:"):
                descriptors.add(int(descriptor.name))
        except OSError:
            continue
    return descriptors


def _shut(handle: int) -> None:
    """Shut a connected TCP socket and leave all others alone: the number may have been given out again."""
    try:
        copy = socket.socket(fileno=os.dup(handle))
    except OSError:
        return
    with copy, contextlib.suppress(OSError):
        if copy.type == socket.SOCK_STREAM and copy.family in (socket.AF_INET, socket.AF_INET6):
            copy.getpeername()
            copy.shutdown(socket.SHUT_RDWR)


def _is_with(handle: int, nodes: Collection[str], *, own_port: int) -> bool:
    """Whether a socket is connected with one of these nodes, other than by the store of this process."""
    try:
        copy = socket.socket(fileno=os.dup(handle))
    except OSError:
        return False
    with copy, contextlib.suppress(OSError):
        if copy.type == socket.SOCK_STREAM and copy.family in (socket.AF_INET, socket.AF_INET6):
            address = str(copy.getpeername()[0]).removeprefix("::ffff:")
            return address in nodes and copy.getsockname()[1] != own_port
    return False


def forget_ranks() -> None:
    """Empty what does not know that this process has another rank now: DTensor's caches, Accelerate's state."""
    forget_meshes()
    if "accelerate" in sys.modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def forget_meshes() -> None:
    """Empty DTensor's caches."""
    from torch.distributed.tensor import DTensor, _redistribute

    torch._C._clear_DTensor_sharding_propagator_cache()
    propagator = DTensor._op_dispatcher.sharding_propagator
    propagator.propagate_op_sharding.cache_clear()  # type: ignore[attr-defined]
    # torch 2.10 has one method, which caches; later versions have one with the cache and one without
    meta = getattr(propagator, "_propagate_tensor_meta_cached", propagator._propagate_tensor_meta)
    meta.cache_clear()  # type: ignore[attr-defined]
    _redistribute.clear_redistribute_planner_cache()


def collectives_begun(skip: set[dist.ProcessGroup]) -> int:
    """How many collectives this rank has begun, over all groups but `skip`."""
    groups = list(dist.distributed_c10d._world.pg_map)
    return sum(group._get_sequence_number_for_group() for group in groups if group not in skip)

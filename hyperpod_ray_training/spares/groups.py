"""Process groups that open and end inside one living process.

Three traps, each with a test in `tests/resilience/test_groups.py`:

- gloo has no abort (torch 2.13: it returns and unblocks nothing). A rank that waits for a dead peer raises at once
  when the group's sockets are shut, so the sockets that a group opens are noted.
- DTensor caches results by mesh equality, which ignores this process's rank and the age of the mesh. After a change of
  rank or group `param.device_mesh` would be the old one, and checkpoint offsets another rank's.
- a store's keys outlive the group: each generation has a prefix of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from hyperpod_ray_training.journal import log

_CONNECT_SHARE = 4
"""Rank 0's store is connected to within a quarter of the limit of a collective (5 s): its node may be gone."""


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
        self._lock = threading.Lock()

    def _take_note(self) -> None:
        if self._before is not None:
            self._sockets |= open_sockets() - self._before

    def all_open(self) -> None:
        """The library and the loop have opened their groups: sockets from now on are somebody else's."""
        with self._lock:
            self._take_note()
            self._before = None

    def open(
        self, *, gen: int, rank: int, world: int, host: str, port: int, over: Callable[[], bool] = lambda: False
    ) -> None:
        """Open the default group of a generation on rank 0's store.

        Sockets are noted from here until `all_open`, since the loop opens groups too.

        Args:
            gen: The generation.
            rank: This process's.
            world: Ranks of the generation.
            host: Rank 0's node.
            port: Rank 0's store.
            over: Whether the generation has ended already. Then ConnectionError is raised.
        """
        with self._lock:
            self._sockets, self._before = set(), open_sockets()
        # rank 0 connects to its own store too: a wait on the store object itself could not be cut
        store = dist.TCPStore(host, port, is_master=False, timeout=self.timeout / _CONNECT_SHARE)
        store.set_timeout(self.timeout)
        if over():  # it was cut before there was a socket to shut: nobody else would end the wait below
            raise ConnectionError(f"generation {gen} ended while its groups were being opened")
        # read by libraries that make no group where there is one (Accelerate)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR=host, MASTER_PORT=str(port))
        dist.init_process_group(
            self.backend,
            store=dist.PrefixStore(f"generation-{gen}", store),
            rank=rank,
            world_size=world,
            timeout=self.timeout,
        )

    def cut(self) -> None:
        """Make every collective of this generation raise, in whichever thread it waits."""
        with self._lock:
            self._take_note()  # somebody may be lost while the groups are being opened
            sockets, self._sockets, self._before = self._sockets, set(), None
        for handle in sockets:
            _shut(handle)
        if torch.cuda.is_available() and dist.is_initialized():
            with contextlib.suppress(Exception):
                dist.distributed_c10d._abort_process_group()

    def let_go(self) -> None:
        """Forget this generation; never raises, whatever state its groups are in."""
        self.cut()
        for forget in (forget_ranks, dist.destroy_process_group):
            try:
                if dist.is_initialized() or forget is forget_ranks:
                    forget()
            except Exception as error:
                log(f"letting go of a generation: {type(error).__name__}: {error}")


def open_sockets() -> set[int]:
    """The descriptors of this process that are sockets."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if str(entry.readlink()).startswith("socket:"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


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
    propagator._propagate_tensor_meta_cached.cache_clear()  # type: ignore[attr-defined]
    _redistribute.clear_redistribute_planner_cache()


def collectives_begun(skip: set[dist.ProcessGroup]) -> int:
    """How many collectives this rank has begun, over all groups but `skip`."""
    groups = list(dist.distributed_c10d._world.pg_map)
    return sum(group._get_sequence_number_for_group() for group in groups if group not in skip)

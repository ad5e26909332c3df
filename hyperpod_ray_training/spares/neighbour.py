"""Which ranks keep copies for which, and the exchange of them: in the background of a step, and in a recovery."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares.host_memory import memory_free
from hyperpod_ray_training.spares.sealed import room_for
from hyperpod_ray_training.spares.snapshot import numbers_of, own_part
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState

Inventory = Sequence[tuple[int, int]]
LONG_WAIT_S = 2.0
"""A step that waits for the copy before it for longer than this, and than it took itself, waits too long."""
MOST_STRETCH, QUICK_EXCHANGES = 64, 20
"""At most one copy in so many is made; after so many exchanges that nobody waited for, twice as many again."""


def neighbour_distance(nodes: Sequence[str]) -> int:
    """By how many ranks a copy is shifted so that as few as possible stay on their own node; 1 on a single node."""
    world = len(nodes)
    if world < 2:
        return 0
    on_node: dict[str, list[int]] = {}
    for rank, node in enumerate(nodes):
        on_node.setdefault(node, []).append(rank)
    staying = [0] * world
    """By distance, how many copies would stay: counted by pairs of one node, which are few where nodes are many."""
    for ranks in on_node.values():
        for first, second in itertools.combinations(ranks, 2):
            staying[second - first] += 1
            staying[world - second + first] += 1
    return min(range(1, world), key=lambda distance: (staying[distance], distance))


@dataclass(frozen=True)
class Source:
    """Where a rank's part of a step is.

    Args:
        own: Who holds all of it, or what is the rank's own.
        tensors: Who holds the same tensors, where `own` has no more than that; else None.
    """

    own: int
    tensors: int | None = None


def newest_whole(
    inventories: Sequence[Inventory], *, owned: Sequence[Inventory] = (), replicas: Sequence[Sequence[int]] = ()
) -> tuple[int, list[Source]] | None:
    """The newest step of which every rank's part is somewhere, and where; None where there is none.

    Args:
        inventories: Of each rank, the (owner, step) pairs of which it holds the whole.
        owned: Of each rank, those of which it holds what is the owner's own.
        replicas: Of each rank, the ranks with the same tensors.
    """
    world = len(inventories)

    def source(owner: int, step: int) -> Source | None:
        for rank in [owner, *range(world)]:
            if (owner, step) in inventories[rank]:
                return Source(rank)
        keeper = next((rank for rank, held in enumerate(owned) if (owner, step) in held), None)
        alike = replicas[owner] if replicas else ()
        twin = next((rank for rank in alike if (rank, step) in inventories[rank]), None)
        return None if keeper is None or twin is None else Source(keeper, twin)

    for step in sorted({step for held in inventories for _, step in held}, reverse=True):
        sources = [source(owner, step) for owner in range(world)]
        complete = [origin for origin in sources if origin is not None]
        if len(complete) == world:
            return step, complete
    return None


def replicas_among(state: TrainingState, nodes: Sequence[str]) -> list[list[int]] | None:
    """Of each rank, the others with the same tensors; None where some rank has none on another node.

    Known are DDP, where it keeps every trained parameter the same, and parameters that `fully_shard` replicates over a
    dimension of the mesh.
    """
    world = len(nodes)
    parameters = state.trained()
    groups = _replicated(parameters, world)
    if parameters and {id(parameter) for parameter in parameters} <= {
        id(parameter) for parameter in _synchronised(state.model)
    }:
        groups = [list(range(world))]
    alike = {rank: [peer for peer in group if peer != rank] for group in groups for rank in group}
    elsewhere = all(any(nodes[peer] != nodes[rank] for peer in alike.get(rank, [])) for rank in range(world))
    if not elsewhere:
        return None
    return [sorted(alike[rank], key=lambda peer: nodes[peer] == nodes[rank]) for rank in range(world)]


def _synchronised(model: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters that DDP keeps the same on every rank of the run."""
    return [
        parameter
        for module in model.modules()
        if isinstance(module, DistributedDataParallel) and module.process_group.size() == dist.get_world_size()
        for name, parameter in module.module.named_parameters()
        if name not in module.parameters_to_ignore and not isinstance(parameter, DTensor)
    ]


def _replicated(parameters: Sequence[torch.Tensor], world: int) -> list[list[int]]:
    if not parameters or not all(isinstance(parameter, DTensor) for parameter in parameters):
        return []
    sample = parameters[0]
    mesh, axes = sample.device_mesh, range(sample.device_mesh.ndim)
    if mesh.size() != world or any(parameter.device_mesh != mesh for parameter in parameters):
        return []
    same = [axis for axis in axes if all(parameter.placements[axis].is_replicate() for parameter in parameters)]
    order = [axis for axis in axes if axis not in same] + same
    apart = math.prod(mesh.size(axis) for axis in axes if axis not in same)
    return [[int(rank) for rank in row] for row in mesh.mesh.permute(order).reshape(apart, -1).tolist()]


class Neighbour:
    """Sends this rank's copies to one neighbour and receives another's, in the background, on a group of its own.

    Args:
        store: Where copies are kept.
        group: A gloo group of all ranks.
        nodes: The node of each rank.
        rank: This rank.
        replicas: Of each rank, the others with the same tensors: only a rank's own part is sent then.
    """

    def __init__(
        self,
        *,
        store: Store,
        group: dist.ProcessGroup | None,
        nodes: Sequence[str],
        rank: int,
        replicas: Sequence[Sequence[int]] = (),
    ) -> None:
        self.store, self.group, self.rank, self.world, self.replicas = store, group, rank, len(nodes), replicas
        distance = neighbour_distance(nodes)
        self.to, self.source = (rank + distance) % self.world, (rank - distance) % self.world
        self.stretch = 1
        """A copy after so many times as many steps as asked for: the same on every rank."""
        self._sizes: list[int] | None = None
        self._under_way: tuple[list[Any], int, torch.Tensor] | None = None
        self._vote: tuple[Any, torch.Tensor] | None = None
        self._sent_t: float | None = None
        self._quick = 0
        self._accepted = 0
        """The size of the last frame that had room."""

    def send(self, step: int, buffer: torch.Tensor) -> None:
        """Begin to exchange copies of `step`; the exchange before is over when this returns.

        Where that takes long, the ranks agree to skip the copies of some steps: one is under way at a time.
        """
        begun, before = time.monotonic(), self.stretch
        self.settle()
        if self.world < 2:
            return
        if self.replicas:
            buffer = own_part(buffer)
        if self._sizes is None:
            own_size = torch.tensor([buffer.numel()])
            sizes = [torch.zeros_like(own_size) for _ in range(self.world)]
            dist.all_gather(sizes, own_size, group=self.group)
            self._sizes = [int(size) for size in sizes]
        received = self._frame(self._sizes[self.source], self.source)
        works = [
            dist.isend(buffer, self.to, group=self.group, tag=1),
            dist.irecv(received, self.source, group=self.group, tag=1),
        ]
        self._under_way = (works, step, received)
        self._ask(waited=time.monotonic() - begun, now=begun, changed=self.stretch != before)

    def _frame(self, size: int, source: int) -> torch.Tensor:
        """A buffer for a frame of another rank; none that is larger than what is free here."""
        if size != self._accepted:
            free = memory_free()[1] + self.store.bytes
            self._accepted = room_for(size, free=free, source=source)
        return self.store.buffer(size, pinned=False)

    def _ask(self, *, waited: float, now: float, changed: bool) -> None:
        """Say how often this rank would have copies; the answer is read when this exchange is over."""
        between = now if self._sent_t is None or changed else now - self._sent_t
        self._sent_t = now + waited
        slow = waited > max(LONG_WAIT_S, between)
        self._quick = 0 if waited > LONG_WAIT_S else self._quick + 1
        ask = self.stretch
        if slow:
            ask = min(2 * self.stretch, MOST_STRETCH)
        elif self._quick >= QUICK_EXCHANGES:
            ask = max(1, self.stretch // 2)
        vote = torch.tensor([ask])
        self._vote = dist.all_reduce(vote, op=dist.ReduceOp.MAX, group=self.group, async_op=True), vote

    def settle(self) -> None:
        """Wait until the exchange under way is over."""
        if self._under_way is None:
            return
        works, step, received = self._under_way
        self._under_way = None
        for work in works:
            work.wait()
        self._keep(step, received)
        if self._vote is not None:
            work, vote = self._vote
            work.wait()
            if self.stretch != int(vote):
                self._quick = 0
                if self.rank == 0:
                    log(f"memory: one copy in {int(vote)} is sent; a copy takes longer than the steps it covers")
            self.stretch, self._vote = int(vote), None

    def _keep(self, step: int, received: torch.Tensor) -> None:
        length, _, _, next_size, next_own, _ = numbers_of(received)
        if self._sizes is not None:
            self._sizes[self.source] = next_own if self.replicas else next_size
        if length:
            (self.store.put_own if self.replicas else self.store.put)(self.source, step, received)

    def salvage(self) -> None:
        """The generation is over: keep what has arrived whole, wait for nothing."""
        if self._under_way is None:
            return
        works, step, received = self._under_way
        self._under_way = None
        try:
            complete = works[1].is_completed() and works[1].exception() is None
        except Exception:  # a broken group's work raises when it is looked at
            complete = False
        if complete:
            self._keep(step, received)

    def restore(self, step: int, sources: Sequence[Source]) -> torch.Tensor:
        """Hand copies to the ranks that lack theirs; this rank's own copy of `step`."""
        for owner, source in enumerate(sources):
            if source.tensors is None:
                copy = self._hand(self.store.held.get((owner, step)), source.own, owner)
                if copy is not None:
                    self.store.put(owner, step, copy)
                continue
            part = self._hand(self.store.own.get((owner, step)), source.own, owner)
            twin = self._hand(self.store.held.get((source.tensors, step)), source.tensors, owner)
            if part is not None and twin is not None:
                self.store.put(owner, step, torch.cat([part, twin[len(own_part(twin)) :]]))
        snapshot = self.store.held[self.rank, step]
        self.store.only(step, {self.rank, self.source})
        return snapshot

    def _hand(self, copy: torch.Tensor | None, holder: int, owner: int) -> torch.Tensor | None:
        """Hand one over; what has arrived, on its owner."""
        if owner == holder:
            return None
        if self.rank == holder:
            assert copy is not None  # noqa: S101 - it was in this rank's inventory
            dist.send(torch.tensor([copy.numel()]), owner, group=self.group)
            dist.send(copy, owner, group=self.group)
        elif self.rank == owner:
            size = torch.zeros(1, dtype=torch.int64)
            dist.recv(size, holder, group=self.group)
            received = self._frame(int(size), holder)
            dist.recv(received, holder, group=self.group)
            return received
        return None

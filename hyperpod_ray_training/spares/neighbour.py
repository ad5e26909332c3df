"""Which ranks keep copies for which, and the exchange of them: in the background of a step, and in a recovery."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, mixed_precision_hooks, powerSGD_hook
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares.host_memory import memory_free
from hyperpod_ray_training.spares.pacing import Pacing
from hyperpod_ray_training.spares.sealed import room_for
from hyperpod_ray_training.spares.snapshot import counts, numbers_of, own_part
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.spares.wires import Wires
from hyperpod_ray_training.state import TrainingState

Inventory = Sequence[tuple[int, int]]
_AVERAGING = {
    default_hooks.allreduce_hook,
    default_hooks.fp16_compress_hook,
    default_hooks.bf16_compress_hook,
    mixed_precision_hooks._reducer_allreduce_and_upcast_hook,  # DDP's own, with mixed_precision=
    powerSGD_hook.powerSGD_hook,
    powerSGD_hook.batched_powerSGD_hook,
}
"""Communication hooks after which every rank has the same gradients.
https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html"""


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
        for lower, higher in itertools.combinations(ranks, 2):
            staying[higher - lower] += 1
            staying[world - higher + lower] += 1
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
        # the owner first: what it holds itself needs no message
        for rank in [owner, *range(world)]:
            if (owner, step) in inventories[rank]:
                return Source(rank)
        keeper = next((rank for rank, held in enumerate(owned) if (owner, step) in held), None)
        alike = replicas[owner] if replicas else ()
        twin = next((rank for rank in alike if (rank, step) in inventories[rank]), None)
        # tensors of a twin and what is the owner's own make up the whole between them
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
    # those on other nodes first: a node that is lost takes its own ranks' tensors along
    return [sorted(alike[rank], key=lambda peer: nodes[peer] == nodes[rank]) for rank in range(world)]


def _synchronised(model: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters that DDP keeps the same on every rank of the run.

    A communication hook may average over fewer ranks, or later (`post_localSGD_hook`): only torch's hooks of one
    average are known to keep them the same.
    """
    return [
        parameter
        for module in model.modules()
        if isinstance(module, DistributedDataParallel)
        and module.process_group.size() == dist.get_world_size()
        and all(hook in _AVERAGING for hook, _ in module._comm_hooks)
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
    # the axes over which tensors are replicated go last: each row of the reshaped mesh is one group of equal ranks
    order = [axis for axis in axes if axis not in same] + same
    apart = math.prod(mesh.size(axis) for axis in axes if axis not in same)
    return [[int(rank) for rank in row] for row in mesh.mesh.permute(order).reshape(apart, -1).tolist()]


class Pending(Protocol):
    """A copy that is under way from a GPU."""

    @property
    def stall_s(self) -> float:
        """So long the GPU has waited for it."""

    def wait(self, length: int) -> None:
        """Until so many bytes are there."""

    def finish(self) -> None:
        """Until all are."""


class Exchange:
    """One exchange, in a thread: what is copied is sent at once, and all ranks say when theirs is over.

    Args:
        step: Of the copy.
        complete: Whether this rank's copy counts.
        pending: Where the copy comes from a GPU.
        received: Where the other rank's copy goes; None in a world of one.
    """

    def __init__(
        self,
        *,
        step: int,
        complete: bool,
        pending: Pending | None = None,
        received: torch.Tensor | None = None,
    ) -> None:
        self.step, self.pending, self.received = step, pending, received
        self.vote = torch.tensor([1, int(not complete)])
        """How often to copy, and whether a copy is missing: the most of all ranks, once all are over."""
        self.arrived = False
        self.seconds = 0.0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        """Whether it is over, on every rank."""
        return self._thread is None or not self._thread.is_alive()

    def begin(self, buffer: torch.Tensor, *, wires: Wires, group: Any) -> None:
        """Send and receive in the background."""
        self._thread = threading.Thread(target=self._run, args=(buffer, wires, group), daemon=True)
        self._thread.start()

    def _run(self, buffer: torch.Tensor, wires: Wires, group: Any) -> None:
        begun = time.monotonic()
        try:
            assert self.received is not None  # noqa: S101 - it begins with one
            received = wires.receive(self.received)
            sent = wires.send(buffer, ready=self.pending.wait if self.pending else lambda _: None)
            received()
            # before the vote: a copy that has arrived whole can be salvaged though another rank's exchange broke
            self.arrived = True
            sent()
            if not counts(self.received):
                self.vote[1] = 1
            # the largest answer of all ranks: every rank must copy at the same steps, and one missing copy makes the
            # step useless
            dist.all_reduce(self.vote, op=dist.ReduceOp.MAX, group=group)
            self.seconds = time.monotonic() - begun
        except BaseException as error:  # the loop's thread raises it
            self._error = error

    def wait(self) -> None:
        """Until it is over on every rank; what it raised is raised here."""
        if self.pending is not None:
            self.pending.finish()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error


class Neighbour:
    """Sends this rank's copies to one neighbour and receives another's, in the background, on a group of its own.

    Args:
        store: Where copies are kept.
        group: A gloo group of all ranks.
        nodes: The node of each rank.
        rank: This rank.
        replicas: Of each rank, the others with the same tensors: only a rank's own part is sent then.
        share: Of a step that copies may hold it up; 0: no copy is skipped.
        steps: Between two copies, as asked for.
        pinned: Whether buffers are for a GPU.
        limit: Of one message of a recovery. Gloo's own would be the short one that the group was opened with:
            `set_limit` is for collectives alone.
        wires: What copies go over; None where none are exchanged.
    """

    def __init__(
        self,
        *,
        store: Store,
        group: dist.ProcessGroup | None,
        nodes: Sequence[str],
        rank: int,
        replicas: Sequence[Sequence[int]] = (),
        share: float = 0.03,
        steps: int = 1,
        pinned: bool = False,
        limit: timedelta = timedelta(minutes=30),
        wires: Wires | None = None,
    ) -> None:
        self.limit, self.wires = limit, wires
        self.store, self.group, self.rank, self.world, self.replicas = store, group, rank, len(nodes), replicas
        self.source = (rank - neighbour_distance(nodes)) % self.world
        self.pacing = Pacing(share=share, steps=steps)
        self.pinned = pinned
        self._sizes: list[int] | None = None
        self._under_way: Exchange | None = None
        self._begun = time.monotonic()
        self._accepted = 0
        """The size of the last frame that had room."""

    def send(self, step: int, buffer: torch.Tensor, *, pending: Pending | None = None) -> None:
        """Begin to exchange copies of `step`; the exchange before is over already (`settle`).

        Where that costs more than its share of the steps, the ranks agree to skip the copies of some steps.

        Args:
            step: Steps that are done.
            buffer: The copy.
            pending: Where the copy is under way itself.
        """
        complete = counts(buffer)
        if self.world < 2:
            self._under_way = Exchange(step=step, complete=complete, pending=pending)
            self._under_way.vote[0] = self._ask()
            return
        if self.replicas:
            buffer = own_part(buffer)
        if self._sizes is None:
            own_size = torch.tensor([buffer.numel()])
            sizes = [torch.zeros_like(own_size) for _ in range(self.world)]
            dist.all_gather(sizes, own_size, group=self.group)
            self._sizes = [int(size) for size in sizes]
        received = self._frame(self._sizes[self.source], self.source)
        self._under_way = Exchange(step=step, complete=complete, pending=pending, received=received)
        self._under_way.vote[0] = self._ask()
        assert self.wires is not None  # noqa: S101 - a world of two has them
        self._under_way.begin(buffer, wires=self.wires, group=self.group)

    def _frame(self, size: int, source: int) -> torch.Tensor:
        """A buffer for a frame of another rank; none that is larger than what is free here."""
        if size != self._accepted:
            # buffers that are there already are used again, so that they count as free
            free = memory_free()[1] + self.store.bytes
            self._accepted = room_for(size, free=free, source=source)
        return self.store.buffer(size, pinned=self.pinned)

    @property
    def stretch(self) -> int:
        """A copy after so many times as many steps as asked for: the same on every rank."""
        return self.pacing.stretch

    def stepped(self) -> None:
        """A step is over: beside a copy it may have taken longer than without."""
        under_way = self._under_way is not None and not self._under_way.over
        self.pacing.stepped(time.monotonic(), under_way=under_way)

    def left(self) -> None:
        """The loop has saved or paused: what that took is no part of a step."""
        self.pacing.left(time.monotonic())

    def _ask(self) -> int:
        """How often this rank would have copies; one begins its way."""
        moment = time.monotonic()
        self.pacing.copied(moment, held_s=moment - self._begun)
        return self.pacing.ask()

    def settle(self) -> None:
        """Wait until the exchange under way is over, on every rank."""
        exchange, self._under_way = self._under_way, None
        self._begun = time.monotonic()
        if exchange is None:
            return
        exchange.wait()
        begun = time.monotonic()
        if exchange.received is not None:
            self._keep(exchange.step, exchange.received)
        stretch, incomplete = (int(number) for number in exchange.vote)
        (self.store.drop if incomplete else self.store.whole)(exchange.step)
        if stretch != self.stretch and self.rank == 0:
            steps = self.pacing.steps * stretch
            log(f"memory: a copy after each {steps} steps now, so that copies cost {self.pacing.share:.0%} of them")
        self.pacing.stretch = self.store.stretch = stretch
        self._begun = time.monotonic()
        stall_s = exchange.pending.stall_s if exchange.pending is not None else 0.0
        self.pacing.settled(exchange_s=exchange.seconds + self._begun - begun, stall_s=stall_s)

    def _keep(self, step: int, received: torch.Tensor) -> None:
        length, _, _, next_size, next_own, *_ = numbers_of(received)
        if self._sizes is not None:
            # each frame announces the size of the next one, so that sizes are gathered once only
            self._sizes[self.source] = next_own if self.replicas else next_size
        if length:
            (self.store.put_own if self.replicas else self.store.put)(self.source, step, received)
        else:
            self.store.release(received)

    def salvage(self) -> None:
        """The generation is over: keep what has arrived whole, wait for nothing but this rank's own GPU."""
        exchange, self._under_way = self._under_way, None
        if exchange is None:
            return
        if exchange.pending is not None:
            try:
                exchange.pending.finish()
            except Exception:  # the GPU has failed: its copy is none
                self.store.held.pop((self.rank, exchange.step), None)
        if exchange.received is not None and exchange.arrived:
            self._keep(exchange.step, exchange.received)

    def restore(self, step: int, sources: Sequence[Source]) -> torch.Tensor:
        """Hand copies to the ranks that lack theirs; this rank's own copy of `step`."""
        for owner, source in enumerate(sources):
            if source.tensors is None:
                copy = self._hand(self.store.held.get((owner, step)), source.own, owner)
                if copy is not None:
                    self.store.put(owner, step, copy)
                continue
            # two messages: the owner's own part from its keeper, the tensors from any twin
            part = self._hand(self.store.own.get((owner, step)), source.own, owner)
            twin = self._hand(self.store.held.get((source.tensors, step)), source.tensors, owner)
            if part is not None and twin is not None:
                self.store.put(owner, step, torch.cat([part, twin[len(own_part(twin)) :]]))
        snapshot = self.store.held[self.rank, step]
        # what was handed over for others is theirs now; kept is what an ordinary exchange would have left here
        self.store.only(step, {self.rank, self.source})
        return snapshot

    def _hand(self, copy: torch.Tensor | None, holder: int, owner: int) -> torch.Tensor | None:
        """Hand one over; what has arrived, on its owner."""
        if owner == holder:
            return None
        if self.rank == holder:
            assert copy is not None  # noqa: S101 - it was in this rank's inventory
            for message in (torch.tensor([copy.numel()]), copy):
                _wait(dist.isend(message, owner, group=self.group), self.limit)
        elif self.rank == owner:
            size = torch.zeros(1, dtype=torch.int64)
            _wait(dist.irecv(size, holder, group=self.group), self.limit)
            received = self._frame(int(size), holder)
            _wait(dist.irecv(received, holder, group=self.group), self.limit)
            return received
        return None


def _wait(work: dist.Work | None, limit: timedelta) -> None:
    if work is not None:
        work.wait(limit)

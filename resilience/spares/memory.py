"""The newest steps of this rank, and of one neighbour on another node, in host memory.

After every step a rank copies what the step changed (parameters, optimizer, buffers, schedulers, random numbers) and
sends the copy to its neighbour while the next step computes. When a rank is lost the survivors still hold a step that
is whole: at most the step under way is done again. When a rank and the node with its copy are lost together, the run
continues from the newest checkpoint.

Three steps of each are kept. Ranks can be a step apart when one is lost, and a copy may be under way: with two, a
survivor could have dropped the one step that all others still hold.

Where another rank on another node holds the same shard anyway (a replica of HSDP's, or of DDP's), only what is this
rank's own is sent: random numbers, the place in the data, buffers, the state by name. The rest comes from the replica.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from resilience import rng
from resilience.journal import log
from resilience.state import TrainingState

KEPT = 3
_NUMBER_BYTES, _LEAST_META = 8, 1 << 16
_HEAD_BYTES = 5 * _NUMBER_BYTES
Inventory = Sequence[tuple[int, int]]


def neighbour_distance(nodes: Sequence[str]) -> int:
    """By how many ranks a copy is shifted so that as few as possible stay on their own node; 1 on a single node."""
    world = len(nodes)
    if world < 2:
        return 0
    return min(range(1, world), key=lambda d: (sum(nodes[r] == nodes[(r + d) % world] for r in range(world)), d))


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
    inventories: Sequence[Inventory], *, own: Sequence[Inventory] = (), replicas: Sequence[Sequence[int]] = ()
) -> tuple[int, list[Source]] | None:
    """The newest step of which every rank's part is somewhere, and where; None where there is none.

    Args:
        inventories: Of each rank, the (owner, step) pairs of which it holds the whole.
        own: Of each rank, those of which it holds what is the owner's own.
        replicas: Of each rank, the ranks with the same tensors.
    """
    world = len(inventories)

    def source(owner: int, step: int) -> Source | None:
        for rank in [owner, *range(world)]:
            if (owner, step) in inventories[rank]:
                return Source(rank)
        keeper = next((rank for rank, held in enumerate(own) if (owner, step) in held), None)
        alike = replicas[owner] if replicas else ()
        twin = next((rank for rank in alike if (rank, step) in inventories[rank]), None)
        return None if keeper is None or twin is None else Source(keeper, twin)

    for step in sorted({step for held in inventories for _, step in held}, reverse=True):
        sources = [source(owner, step) for owner in range(world)]
        found = [one for one in sources if one is not None]
        if len(found) == world:
            return step, found
    return None


class Store:
    """The copies this process holds. It outlives generations; buffers are used again."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], torch.Tensor] = {}
        self.own: dict[tuple[int, int], torch.Tensor] = {}
        """Of others, what is theirs alone; their tensors are with a replica."""
        self.saved_step = -1
        """The newest step this process knows to be in a checkpoint."""
        self.world = 0
        """Ranks of the generation whose copies these are."""
        self._free: list[torch.Tensor] = []

    def of(self, world: int) -> Store:
        """This store, for a generation of so many ranks: copies of another number of ranks fit nobody."""
        if self.world != world:
            self.world = world
            self.only(-1, set())
        return self

    def buffer(self, size: int, *, pinned: bool) -> torch.Tensor:
        """A buffer of `size` bytes; touching new memory costs more than copying into old."""
        for index, tensor in enumerate(self._free):
            if tensor.numel() == size:
                return self._free.pop(index)
        return torch.empty(size, dtype=torch.uint8, pin_memory=pinned)

    def put(self, owner: int, step: int, buffer: torch.Tensor) -> None:
        """Keep a copy; of each owner the newest `KEPT`."""
        self.held[owner, step] = buffer
        for old in sorted(key for key in self.held if key[0] == owner)[:-KEPT]:
            self._free.append(self.held.pop(old))
        del self._free[:-2]

    def put_own(self, owner: int, step: int, part: torch.Tensor) -> None:
        """Keep what is another's own; of each the newest `KEPT`."""
        self.own[owner, step] = part
        for old in sorted(key for key in self.own if key[0] == owner)[:-KEPT]:
            self._free.append(self.own.pop(old))
        del self._free[:-2]

    def only(self, step: int, owners: set[int]) -> None:
        """Forget everything but one step of these owners: a generation begins."""
        for key in [key for key in self.held if key[1] != step or key[0] not in owners]:
            self._free.append(self.held.pop(key))
        self.own = {key: part for key, part in self.own.items() if key[1] == step and key[0] in owners}
        del self._free[:-2]

    def inventory(self) -> list[tuple[int, int]]:
        """What is there."""
        return sorted(self.held)

    @property
    def bytes(self) -> int:
        """Bytes in use, free buffers included."""
        return sum(tensor.numel() for tensor in [*self.held.values(), *self.own.values(), *self._free])


class Snapshot:
    """What a step changes in this rank, as one buffer: a head, a pickled part of bounded size, then all tensors."""

    def __init__(self, state: TrainingState) -> None:
        self.state, self.model, self.optimizer, self.extra = state, state.model, state.optimizer, state.extra
        self.device = state.device
        self.room = self.size = 0

    def _parameters(self) -> list[torch.Tensor]:
        # the optimizer's, not the model's: FSDP2 leaves the root unsharded after a forward without a backward
        # (a validation), and model.parameters() are then others
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _tensors(self) -> list[torch.Tensor]:
        parameters = self._parameters()
        # what may differ between replicas comes first: `own_part`
        tensors = [local(buffer) for buffer in self.model.buffers()]
        tensors += [local(parameter.detach()) for parameter in parameters]
        for parameter in parameters:
            state = self.optimizer.state[parameter]
            tensors += [local(state[key]) for key in sorted(state) if torch.is_tensor(state[key])]
        return tensors

    def expected_bytes(self) -> int:
        """Bytes of a copy once the optimizer has made its state, before it has: two moments for Adam's kind."""
        parameters = [local(one.detach()) for one in self._parameters()]
        # `get`: to ask the optimizer's defaultdict would make an entry, and a checkpoint's state would not be loaded
        made = [value for one in self._parameters() for value in self.optimizer.state.get(one, {}).values()]
        tensors = parameters + [local(one) for one in self.model.buffers()]
        if made:
            return bytes_of(tensors + [local(one) for one in made if torch.is_tensor(one)])
        options = self.optimizer.defaults
        moments = 2 if "betas" in options else int(bool(options.get("momentum")))
        return bytes_of(tensors) + moments * bytes_of(parameters)

    def _extra(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """State by name, with its tensors apart from the rest."""
        tensors: list[torch.Tensor] = []
        return {key: without_tensors(value.state_dict(), tensors) for key, value in self.extra.items()}, tensors

    def _meta(self, step: int, extra: Mapping[str, Any]) -> bytes:
        shapes = []
        for parameter in self._parameters():
            state = self.optimizer.state[parameter]
            shapes.append({key: _shape(state[key], parameter) for key in sorted(state)})
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        return pickle.dumps(
            {
                "step": step, "rng": rng.capture(self.device), "state": shapes, "groups": groups, "extra": extra,
                "shared": self.state.shared(), "own": self.state.own(),
            }
        )  # fmt: skip

    def take(self, step: int, store: Store) -> torch.Tensor:
        """Copy this moment into a buffer of the store."""
        extra, extra_tensors = self._extra()
        meta, tensors = self._meta(step, extra), self._tensors() + extra_tensors
        content = bytes_of(tensors)
        if not self.size:
            self.room = max(_LEAST_META, 2 * len(meta))
            self.size = _HEAD_BYTES + self.room + content
        # the neighbour knows this copy's size from the one before: growth is announced, and counts from the next on
        fits = len(meta) <= self.room and self.size == _HEAD_BYTES + self.room + content
        next_room = self.room if len(meta) <= 0.75 * self.room else 2 * len(meta)
        next_size = _HEAD_BYTES + next_room + content
        on_gpu = self.device.type == "cuda"
        buffer = store.buffer(self.size, pinned=on_gpu)
        buffers = bytes_of(self.model.buffers())
        own, next_own = (_HEAD_BYTES + room + buffers for room in (self.room, next_room))
        numbers = (len(meta) if fits else 0, self.room, own, next_size, next_own)
        head = b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers)
        if not fits:
            log(f"memory: the state grew to {next_size} bytes; the copy of step {step} does not count")
            meta, tensors = b"", []
        buffer[: _HEAD_BYTES + len(meta)].copy_(torch.frombuffer(bytearray(head + meta), dtype=torch.uint8))
        at = _HEAD_BYTES + self.room
        for tensor in tensors:
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            buffer[at : at + flat.numel()].copy_(flat, non_blocking=on_gpu)
            at += flat.numel()
        if on_gpu:
            torch.cuda.current_stream(self.device).synchronize()
        self.room, self.size = next_room, next_size
        return buffer

    def load(self, buffer: torch.Tensor) -> int:
        """Put a copy back and return its step; the random numbers last."""
        length, room, *_ = numbers_of(buffer)
        meta = pickle.loads(buffer[_HEAD_BYTES : _HEAD_BYTES + length].numpy().tobytes())  # noqa: S301 - a rank's
        for parameter, shapes in zip(self._parameters(), meta["state"], strict=True):
            state = self.optimizer.state[parameter]
            for key, shape in shapes.items():
                if key not in state or not torch.is_tensor(state[key]):
                    state[key] = _made(shape, parameter)
        for group, saved in zip(self.optimizer.param_groups, meta["groups"], strict=True):
            group.update(saved)
        at = _HEAD_BYTES + room
        with torch.no_grad():
            for tensor in self._tensors():
                size = tensor.numel() * tensor.element_size()
                part = buffer[at : at + size].to(tensor.device).clone().view(tensor.dtype).reshape(tensor.shape)
                tensor.copy_(part)
                at += size
        for key, value in self.extra.items():
            state, at = with_tensors(meta["extra"][key], buffer, at, value.state_dict())
            value.load_state_dict(state)
        if at != buffer.numel():
            raise ValueError(f"a copy has {buffer.numel()} bytes, {at} expected")
        self.state.fill_own(meta["shared"], meta["own"])
        rng.restore(meta["rng"], self.device)
        return int(meta["step"])


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """All of them together, the local parts of sharded ones."""
    return sum(local(one).numel() * one.element_size() for one in tensors)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


@dataclass(frozen=True)
class _Tensor:
    """Stands for a tensor of a state by name, whose content is elsewhere."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str


def without_tensors(tree: Any, found: list[torch.Tensor]) -> Any:
    """`tree` with a mark for each tensor in it, whose local parts are added to `found`."""
    if torch.is_tensor(tree):
        part = local(tree.detach())
        found.append(part)
        return _Tensor(tuple(part.shape), part.dtype, part.device.type)
    if isinstance(tree, Mapping):
        return {key: without_tensors(value, found) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(without_tensors(value, found) for value in tree)
    return tree


def with_tensors(tree: Any, buffer: torch.Tensor, at: int, current: Any) -> tuple[Any, int]:
    """`tree` with its tensors from `buffer`, and where the next begins.

    A sharded tensor takes its mesh from `current`, the same tree as it is here: a copy may come from another process.
    """
    if isinstance(tree, _Tensor):
        size = tree.dtype.itemsize * math.prod(tree.shape)
        part = buffer[at : at + size].clone().view(tree.dtype).reshape(tree.shape)
        if tree.device == "cuda" and torch.is_tensor(current):
            part = part.to(current.device)
        if isinstance(current, DTensor):
            part = DTensor.from_local(
                part, current.device_mesh, current.placements, run_check=False, shape=current.shape,
                stride=current.stride(),
            )  # fmt: skip
        return part, at + size
    if isinstance(tree, dict):
        out = {}
        for key, value in tree.items():
            out[key], at = with_tensors(value, buffer, at, current.get(key) if isinstance(current, Mapping) else None)
        return out, at
    if type(tree) in (list, tuple):
        items = []
        for index, value in enumerate(tree):
            known = current[index] if type(current) is type(tree) and index < len(current) else None
            item, at = with_tensors(value, buffer, at, known)
            items.append(item)
        return type(tree)(items), at
    return tree, at


def _shape(value: Any, parameter: torch.Tensor) -> Any:
    """How to make an optimizer's entry that is not there yet; before its first step AdamW has none."""
    if not torch.is_tensor(value):
        return ("value", value)
    if isinstance(value, DTensor) or value.shape == parameter.shape:
        return ("like", value.dtype)
    return ("tensor", tuple(value.shape), value.dtype, value.device.type)


def _made(shape: Any, parameter: torch.Tensor) -> Any:
    if shape[0] == "value":
        return shape[1]
    if shape[0] == "like":
        return torch.zeros_like(parameter, dtype=shape[1])
    return torch.zeros(shape[1], dtype=shape[2], device=parameter.device if shape[3] == "cuda" else "cpu")


def numbers_of(buffer: torch.Tensor) -> list[int]:
    """A copy's head.

    Bytes of the pickled part (0: does not count), room for it, bytes of its own part; then of the next copy, all its
    bytes and those of its own part.
    """
    head = bytes(buffer[:_HEAD_BYTES].tolist())
    return [int.from_bytes(head[at : at + _NUMBER_BYTES], "big") for at in range(0, _HEAD_BYTES, _NUMBER_BYTES)]


def counts(buffer: torch.Tensor) -> bool:
    """Whether a copy holds a state: one that outgrew its announced size does not."""
    return numbers_of(buffer)[0] > 0


def own_part(buffer: torch.Tensor) -> torch.Tensor:
    """Of a copy, what may differ between replicas: head, random numbers, place in the data, buffers."""
    return buffer[: numbers_of(buffer)[2]]


def replicas_among(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, nodes: Sequence[str]
) -> list[list[int]] | None:
    """Of each rank, the others with the same tensors; None where some rank has none on another node.

    Known are DDP, where all have the same, and parameters that `fully_shard` replicates over a dimension of the mesh.
    """
    world = len(nodes)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if hasattr(optimizer, "consolidate_state_dict"):  # ZeroRedundancyOptimizer: each rank has a part of the state
        return None
    if isinstance(model, DistributedDataParallel) and not any(isinstance(one, DTensor) for one in parameters):
        groups = [list(range(world))]
    else:
        groups = _replicated(parameters, world)
    alike = {rank: [other for other in group if other != rank] for group in groups for rank in group}
    elsewhere = all(any(nodes[other] != nodes[rank] for other in alike.get(rank, [])) for rank in range(world))
    if not elsewhere:
        return None
    return [sorted(alike[rank], key=lambda other: nodes[other] == nodes[rank]) for rank in range(world)]


def _replicated(parameters: Sequence[torch.Tensor], world: int) -> list[list[int]]:
    if not parameters or not all(isinstance(one, DTensor) for one in parameters):
        return []
    first = parameters[0]
    mesh, axes = first.device_mesh, range(first.device_mesh.ndim)
    if mesh.size() != world or any(one.device_mesh != mesh for one in parameters):
        return []
    same = [axis for axis in axes if all(one.placements[axis].is_replicate() for one in parameters)]
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
        self._sizes: list[int] | None = None
        self._under_way: tuple[list[Any], int, torch.Tensor] | None = None

    def send(self, step: int, buffer: torch.Tensor) -> None:
        """Begin to exchange copies of `step`; the exchange before is over when this returns."""
        self.settle()
        if self.world < 2:
            return
        if self.replicas:
            buffer = own_part(buffer)
        if self._sizes is None:
            mine = torch.tensor([buffer.numel()])
            sizes = [torch.zeros_like(mine) for _ in range(self.world)]
            dist.all_gather(sizes, mine, group=self.group)
            self._sizes = [int(size) for size in sizes]
        received = self.store.buffer(self._sizes[self.source], pinned=False)
        works = [
            dist.isend(buffer, self.to, group=self.group, tag=1),
            dist.irecv(received, self.source, group=self.group, tag=1),
        ]
        self._under_way = (works, step, received)

    def settle(self) -> None:
        """Wait until the exchange under way is over."""
        if self._under_way is None:
            return
        works, step, received = self._under_way
        self._under_way = None
        for work in works:
            work.wait()
        self._keep(step, received)

    def _keep(self, step: int, received: torch.Tensor) -> None:
        length, _, _, next_size, next_own = numbers_of(received)
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
            whole = works[1].is_completed() and works[1].exception() is None
        except Exception:  # a broken group's work raises when it is looked at
            whole = False
        if whole:
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
        own = self.store.held[self.rank, step]
        self.store.only(step, {self.rank, self.source})
        return own

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
            received = self.store.buffer(int(size), pinned=False)
            dist.recv(received, holder, group=self.group)
            return received
        return None


class Memory:
    """The newest steps in memory, for one rank of one generation.

    Args:
        snapshot: Takes and loads copies of this rank.
        neighbour: Exchanges them.
        every: A copy after so many steps.
    """

    def __init__(self, *, snapshot: Snapshot, neighbour: Neighbour, every: int) -> None:
        self.snapshot, self.neighbour, self.every = snapshot, neighbour, every
        self.store = neighbour.store

    def finished(self, step: int, *, settle: bool = False) -> None:
        """Keep the state after `step` steps. `settle` waits until the neighbour has it too."""
        if step % self.every == 0 or settle:
            buffer = self.snapshot.take(step, self.store)
            if counts(buffer):
                self.store.put(self.neighbour.rank, step, buffer)
            self.neighbour.send(step, buffer)
        if settle:
            self.neighbour.settle()

    def restore(self) -> int | None:
        """Load the newest step that is whole somewhere, and return it; None where none is, or a checkpoint is newer."""
        told: list[Any] = [None] * self.neighbour.world
        mine = (self.store.inventory(), sorted(self.store.own), self.store.saved_step)
        dist.all_gather_object(told, mine, group=self.neighbour.group)
        found = newest_whole(
            [whole for whole, _, _ in told], own=[own for _, own, _ in told], replicas=self.neighbour.replicas
        )
        self.store.saved_step = max(saved for _, _, saved in told)
        if found is None or found[0] < self.store.saved_step:
            self.store.only(-1, set())
            return None
        step, sources = found
        return self.snapshot.load(self.neighbour.restore(step, sources))

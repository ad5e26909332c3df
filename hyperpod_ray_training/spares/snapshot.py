"""A copy of what a step changes in one rank, as one buffer of bytes, and back."""

from __future__ import annotations

import math
import pickle
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import partial

import torch

from hyperpod_ray_training import rng
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares.sealed import seal, unseal
from hyperpod_ray_training.spares.side_stream import SideStream, Taken, sum_of
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import ATTRIBUTES, BUFFERS, EXTRA, GRADIENTS, MODEL, OPTIMIZER, Content, TrainingState
from hyperpod_ray_training.trees import checksum, local, mark_of, weighed

_NUMBER_BYTES, _LEAST_META = 8, 1 << 16
_ALIGNED = 64
"""The pickled part has a multiple of so many bytes of room: tensors are read where they lie."""
_HEAD_BYTES = 8 * _NUMBER_BYTES
_SUM_AT = 6 * _NUMBER_BYTES
_SUM_MASK = (1 << 63) - 1
_MOMENTS = {"betas": 2, "momentum": 1}


class Snapshot:
    """What a step changes in this rank, as one buffer: a head, a pickled part of bounded size, then all tensors.

    Parameters that no optimizer has and that no step has changed are not copied: a newcomer builds them as all did, and
    a checksum says whether it has the same. The pickled part is sealed with the run's secret: a copy comes back from
    another rank, and what it did not get from this run is not unpickled.
    """

    def __init__(self, state: TrainingState, *, replicas: bool = False, secret: str = "") -> None:
        self.state, self.device, self.replicas, self.secret = state, state.device, replicas, secret
        self.room: tuple[int, int, int] | None = None
        """Bytes for what is pickled, for what may differ between replicas, and for the rest."""
        self.gradients = state.gradients
        self.frozen: dict[str, int] = {}
        """Checksums of parameters that nobody has changed yet."""
        self.changed: set[str] = set()
        """Parameters of no optimizer that a step has changed, such as a momentum network's."""
        self.swift = frozenset[str]()
        """Names of the tensors that only optimizers write."""
        self.side: SideStream | None = None
        self.pending: Taken | None = None
        """The newest copy, where it comes from a GPU."""
        if self.device.type == "cuda":
            self.side = SideStream(self.device, [single.optimizer for single in state.optimizers.values()])
        self._still(state.content())

    def _still(self, content: Content) -> dict[str, int]:
        """Checksums of the parameters that stay as they are; those that turn out to move are noted."""
        trained = {id(parameter) for parameter in self.state.trained()}
        sums = {}
        for name, tensor in self.state.named().items():
            if id(tensor) in trained or tensor.requires_grad or not isinstance(tensor, torch.nn.Parameter):
                continue
            if name in content.tensors and name not in self.changed:
                sums[name] = checksum(tensor)
        for name, value in sums.items():
            if self.frozen.setdefault(name, value) != value:
                self.changed.add(name)
        return {name: value for name, value in sums.items() if name not in self.changed}

    def _ordered(self, content: Content, still: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names of the tensors that may differ between replicas, and of the others."""
        parameters = {name for name, tensor in self.state.named().items() if isinstance(tensor, torch.nn.Parameter)}
        averages = {name: value for name, value in self.state.extra.items() if isinstance(value, torch.nn.Module)}
        # an average's statistics are of what this rank has shown it
        statistics = {
            f"{EXTRA}.{name}.{inner}" for name, value in averages.items() for inner, _ in value.named_buffers()
        }
        left_out = set(still)
        own_names: list[str] = []
        rest: list[str] = []
        for name in content.tensors:
            section = name.partition(".")[0]
            buffer = (section in {BUFFERS, MODEL} and name not in parameters) or name in statistics
            buffer = buffer or name.startswith(f"{EXTRA}.{ATTRIBUTES}.")  # such as a metric of this rank's batches
            if name not in left_out:
                (own_names if buffer or section == GRADIENTS or name in self.changed else rest).append(name)
        return own_names, rest

    def expected_bytes(self) -> int:
        """Bytes of a copy once the optimizers have made their state, before they have: two moments for Adam's kind."""
        content = self.state.content()
        expected = bytes_of(tensor for name, tensor in content.tensors.items() if not name.startswith(f"{GRADIENTS}."))
        for optimizer in self.state.optimizers.values():
            if not optimizer.optimizer.state:
                options = optimizer.optimizer.defaults
                moments = next((count for name, count in _MOMENTS.items() if options.get(name)), 0)
                expected += moments * bytes_of(optimizer.parameters())
        return expected

    def take(self, step: int, store: Store) -> torch.Tensor:
        """Copy this moment into a buffer of the store."""
        if self.side is not None:
            self.side.judge()
        content = self.state.content()
        still = self._still(content)
        own_names, rest = self._ordered(content, still)
        swift = self._written_by_optimizers(content) & set(rest) if self.side is not None else frozenset()
        pickled = pickle.dumps(
            {
                "step": step, "rng": rng.capture(self.device), "still": still, "trees": content.trees,
                "marks": [[mark_of(name, content.tensors[name]) for name in names] for names in (own_names, rest)],
                "shared": self.state.shared(), "own": self.state.own(), "gradients": self.state.gradients,
                "proved": self.state.proved, "swift": [name for name in rest if name in swift],
            }
        )  # fmt: skip
        meta = seal(pickled, secret=self.secret, about=self._about)
        parts = [[local(content.tensors[name]) for name in names] for names in (own_names, rest)]
        needed = (len(meta), bytes_of(parts[0]), bytes_of(parts[1]))
        if not self.room:
            self.room = (max(_LEAST_META, _double(needed[0])), *needed[1:])
        # the neighbour knows this copy's size from the one before: growth is announced, and counts from the next on
        room, fits = self.room, all(size <= limit for size, limit in zip(needed, self.room, strict=True))
        shrunk, self.gradients = self.gradients and not self.state.gradients, self.state.gradients
        minimums = (0, 0) if shrunk else room[1:]
        self.room = (
            room[0] if needed[0] <= 0.75 * room[0] else _double(needed[0]), max(needed[1], minimums[0]),
            max(needed[2], minimums[1]),
        )  # fmt: skip
        starts, next_starts = starts_of(room), starts_of(self.room)
        buffer = store.buffer(starts[2], pinned=self.side is not None)
        if not fits:
            log(f"memory: the state is of {next_starts[2]} bytes now; the copy of step {step} does not count")
        pieces: list[tuple[int, torch.Tensor, bool]] = []
        for tensors, names, start in zip(parts if fits else [], (own_names, rest), starts[:2], strict=False):
            at = start
            for tensor, name in zip(tensors, names, strict=True):
                pieces.append((at, tensor, name in swift))
                at += _bytes(tensor)
        # what is not this rank's own may come from a replica: is that what was here?
        alike = _together(parts[1]) if self.replicas and fits else 0
        numbers = (len(meta) if fits else 0, room[0], starts[1], next_starts[2], next_starts[1], alike, 0, 0)
        head = b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers) + (meta if fits else b"")
        buffer[: len(head)].copy_(torch.frombuffer(bytearray(head), dtype=torch.uint8))
        if self.side is not None:
            self.pending = self.side.take(pieces, buffer, partial(_write_sum, buffer))
            return buffer
        for at, tensor, _ in pieces:
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            buffer[at : at + flat.numel()].copy_(flat)
        return buffer

    def _written_by_optimizers(self, content: Content) -> frozenset[str]:
        """Names of the tensors on this GPU that nobody but an optimizer should write: its parameters and its state."""
        trained = {id(tensor) for tensor in self.state.trained()}
        named = {name for name, tensor in self.state.named().items() if id(tensor) in trained}
        return frozenset(
            name for name, tensor in content.tensors.items()
            if (name in named or name.startswith(f"{OPTIMIZER}.")) and local(tensor).is_cuda
        )  # fmt: skip

    def load(self, buffer: torch.Tensor) -> int:
        """Put a copy back and return its step; the random numbers last."""
        if self.pending is not None:
            self.pending.finish()
        length, room, own_start, _, _, alike, total, _ = numbers_of(buffer)
        sealed = buffer[_HEAD_BYTES : _HEAD_BYTES + length].numpy().tobytes()
        meta = pickle.loads(unseal(sealed, secret=self.secret, about=self._about))  # noqa: S301 - sealed by this run
        self.state.make_buffers(meta["trees"])
        live, content = self.state.named(), Content(trees=meta["trees"])
        at = 0
        for marks, start in zip(meta["marks"], (_HEAD_BYTES + room, own_start), strict=True):
            at = start
            for mark in marks:
                size = mark.dtype.itemsize * math.prod(mark.shape)
                part = buffer[at : at + size]
                if (buffer.storage_offset() + at) % mark.dtype.itemsize:
                    part = part.clone()  # no tensor begins there
                part = part.view(mark.dtype).reshape(mark.shape)
                content.tensors[mark.name] = part
                at += size
        if at > buffer.numel():
            raise ValueError(f"a copy has {buffer.numel()} bytes, {at} expected")
        saved = {mark.name: mark for marks in meta["marks"] for mark in marks}
        rebuilt = [name for name, value in meta["still"].items() if name not in live or checksum(live[name]) != value]
        if rebuilt:
            raise ValueError(f"{', '.join(rebuilt[:3])}: trained by no optimizer, and built otherwise than before")
        wholes = {name: mark.whole for name, mark in saved.items()}
        wholes |= {name: tuple(live[name].shape) for name in meta["still"]}
        reason = self.state.unlike(wholes, meta["trees"], wholes)
        if reason:
            raise ValueError(reason)
        self.state.gradients, self.state.proved = meta["gradients"], meta["proved"]
        self._detach(content, buffer, {name for name, mark in saved.items() if mark.device != "cpu"})
        self.state.fill(content)
        filled = self.state.content().tensors if alike or total else {}
        if alike and _together(filled[mark.name] for mark in meta["marks"][1]) != alike:
            raise ValueError(
                "the tensors of a replica are not what this rank had: its parameters or learning rates differ by rank"
            )
        if total and int(sum_of([filled[name] for name in meta["swift"]])) & _SUM_MASK != total & _SUM_MASK:
            raise ValueError("the copy is torn: something beside optimizer.step has written what was being copied")
        self.state.fill_own(meta["shared"], meta["own"])
        rng.restore(meta["rng"], self.device)
        self.frozen = dict(meta["still"])
        self.changed = {name for name in saved if name in live and self._nobody_trains(live[name])}
        return int(meta["step"])

    def _detach(self, content: Content, buffer: torch.Tensor, on_device: set[str]) -> None:
        """Take out of the buffer, which is used again, what others keep: into tensors that are there, where they fit.

        What `fill` copies into a parameter or a buffer of the model, or to the GPU, stays where it is: nothing is there
        twice.
        """
        current, copied = self.state.content().tensors, self.state.named().keys()
        shares = Counter(local(tensor).untyped_storage().data_ptr() for tensor in current.values())
        with torch.no_grad():
            for name, part in content.tensors.items():
                if name in copied:
                    continue
                there = local(current[name]) if name in current and name.startswith(f"{OPTIMIZER}.") else None
                on_gpu = name in on_device
                alone = there is not None and shares[there.untyped_storage().data_ptr()] == 1
                if there is not None and alone and _fits(there, part, on_gpu=on_gpu):
                    content.tensors[name] = there.copy_(part)
                elif self.side is not None and on_gpu:
                    continue
                elif part.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr():
                    content.tensors[name] = part.clone()

    @property
    def _about(self) -> str:
        return f"the copy of rank {self.state.rank}"

    def _nobody_trains(self, tensor: torch.Tensor) -> bool:
        trained = {id(parameter) for parameter in self.state.trained()}
        return isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad and id(tensor) not in trained


def _double(size: int) -> int:
    return -(-2 * size // _ALIGNED) * _ALIGNED


def _write_sum(buffer: torch.Tensor, total: int) -> None:
    number = (total & _SUM_MASK | 1 << 63).to_bytes(_NUMBER_BYTES, "big")
    buffer[_SUM_AT : _SUM_AT + _NUMBER_BYTES].copy_(torch.frombuffer(bytearray(number), dtype=torch.uint8))


def _fits(there: torch.Tensor, part: torch.Tensor, *, on_gpu: bool) -> bool:
    """Whether a tensor can take a part's content and be used in its place."""
    alike = (there.shape, there.dtype) == (part.shape, part.dtype)
    alike = alike and (there.device.type != "cpu") == on_gpu
    return alike and there.is_contiguous() and not there.requires_grad


def _bytes(tensor: torch.Tensor) -> int:
    return int(local(tensor).numel() * tensor.element_size())


def _together(tensors: Iterable[torch.Tensor]) -> int:
    """One checksum of all, computed where they are; never 0."""
    return zlib.crc32(repr([weighed(tensor) for tensor in tensors]).encode()) or 1


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """All of them together, the local parts of sharded ones."""
    return sum(_bytes(tensor) for tensor in tensors)


def starts_of(room: tuple[int, int, int]) -> tuple[int, int, int]:
    """Where a copy's own tensors begin, where those that replicas have too, and where it ends."""
    own_start = _HEAD_BYTES + room[0]
    return own_start, own_start + room[1], own_start + room[1] + room[2]


def numbers_of(buffer: torch.Tensor) -> list[int]:
    """A copy's head.

    Bytes of the pickled part (0: does not count), room for it, bytes of its own part; then of the next copy, all its
    bytes and those of its own part; a checksum of what is not its own, where a replica has it too; last a sum of what
    was copied while a step ran (0: nothing was), and a number that is not used.
    """
    head = bytes(buffer[:_HEAD_BYTES].tolist())
    return [int.from_bytes(head[at : at + _NUMBER_BYTES], "big") for at in range(0, _HEAD_BYTES, _NUMBER_BYTES)]


def counts(buffer: torch.Tensor) -> bool:
    """Whether a copy holds a state: one that outgrew its announced size does not."""
    return numbers_of(buffer)[0] > 0


def own_part(buffer: torch.Tensor) -> torch.Tensor:
    """Of a copy, what may differ between replicas: head, random numbers, place in the data, buffers."""
    return buffer[: numbers_of(buffer)[2]]

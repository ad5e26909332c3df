"""A copy of what a step changes in one rank, as one buffer of bytes, and back."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from hyperpod_ray_training import rng
from hyperpod_ray_training.journal import log
from hyperpod_ray_training.spares.store import Store
from hyperpod_ray_training.state import TrainingState

_NUMBER_BYTES, _LEAST_META = 8, 1 << 16
_HEAD_BYTES = 5 * _NUMBER_BYTES


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

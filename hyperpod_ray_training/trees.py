"""State as two parts: a tree that pickles, with a mark for each tensor, and the tensors by name."""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor

_CHUNK = 1 << 24


@dataclass(frozen=True)
class Mark:
    """Stands in a tree for a tensor whose content is elsewhere.

    Attributes:
        name: Of the tensor.
        shape: Of this rank's part.
        dtype: Of the tensor.
        device: Its type.
        placements: Of a sharded tensor; None for a plain one.
        whole: The shape of all parts together.
        stride: The stride of all parts together.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    placements: tuple[Any, ...] | None = None
    whole: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def mark_of(name: str, tensor: torch.Tensor) -> Mark:
    """The mark of a tensor."""
    part = local(tensor)
    placements = tuple(tensor.placements) if isinstance(tensor, DTensor) else None
    return Mark(
        name, tuple(part.shape), part.dtype, part.device.type, placements, tuple(tensor.shape), tuple(tensor.stride())
    )


def split(tree: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """`tree` with marks; its tensors go into `tensors` under `name` and their path."""
    if torch.is_tensor(tree):
        while name in tensors:  # two paths that read alike, such as 1 and "1"
            name += "'"
        tensors[name] = tree.detach()
        return mark_of(name, tree)
    if isinstance(tree, Mapping):
        return {key: split(value, f"{name}.{key}", tensors) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(split(value, f"{name}.{index}", tensors) for index, value in enumerate(tree))
    return tree


def join(tree: Any, tensor_of: Callable[[Mark], Any]) -> Any:
    """`tree` with what `tensor_of` says for each mark."""
    if isinstance(tree, Mark):
        return tensor_of(tree)
    if isinstance(tree, dict):
        return {key: join(value, tensor_of) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(join(value, tensor_of) for value in tree)
    return tree


def marks_in(tree: Any) -> list[Mark]:
    """All marks of a tree."""
    marks: list[Mark] = []
    join(tree, marks.append)
    return marks


def sharded(part: torch.Tensor, mark: Mark, like: torch.Tensor | None) -> torch.Tensor:
    """This rank's part as the tensor that the mark stands for; `like` has the mesh."""
    if mark.placements is None or isinstance(part, DTensor):
        return part
    if not isinstance(like, DTensor):
        raise ValueError(f"{mark.name} was sharded, and there is no sharded tensor of that name now")
    return DTensor.from_local(
        part, like.device_mesh, mark.placements, run_check=False, shape=torch.Size(mark.whole), stride=mark.stride
    )


CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def parts_of(value: Any, *, most: int | None = None) -> Iterator[Any]:
    """An object, and what its containers of any class contain at any depth; each container once: it may contain itself.

    Args:
        value: The object.
        most: So many elements of each container at most. Default: all.
    """
    pending, containers = [value], set[int]()
    while pending:
        part = pending.pop()
        if not isinstance(part, CONTAINERS):
            yield part
        elif id(part) not in containers:
            containers.add(id(part))
            yield part
            pending += itertools.islice(part.values() if isinstance(part, dict) else part, most)


def elements_of(value: Any) -> Iterator[Any]:
    """Those parts that are no containers."""
    return (part for part in parts_of(value) if not isinstance(part, CONTAINERS))


def checksum(tensor: torch.Tensor) -> int:
    """A number of 32 bits that differs where the content of this rank's part does; on a GPU it is computed there."""
    shard = local(tensor).detach()
    if shard.device.type == "cpu":
        return zlib.crc32(_bytes_of(shard).numpy()) if shard.numel() else 0
    return weighed(shard)


def weighed(tensor: torch.Tensor) -> int:
    """A checksum that is the same on every device: a sum of words, weighted by their place."""
    flat = _bytes_of(local(tensor).detach())
    words = flat[: flat.numel() // 8 * 8]
    # a view of eight-byte words needs an address that is a multiple of eight; a part of a tensor may begin elsewhere
    words = (words if words.data_ptr() % 8 == 0 and words.storage_offset() % 8 == 0 else words.clone()).view(
        torch.int64
    )
    rest = flat[words.numel() * 8 :].to(torch.int64)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for part in (words, rest):
        for at in range(0, part.numel(), _CHUNK):
            piece = part[at : at + _CHUNK]
            weights = torch.arange(2 * at + 1, 2 * (at + len(piece)) + 1, 2, device=flat.device) * 2654435761
            total = total * 31 + (piece * (weights | 1)).sum()
    number = int(total)
    return (number ^ number >> 32) & 0xFFFFFFFF


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)

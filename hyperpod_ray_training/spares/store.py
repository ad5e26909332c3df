"""The copies that a process keeps, of itself and of others. It outlives generations."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch

from hyperpod_ray_training.journal import log

SLOTS = 2
"""Copies of each owner at most: one that is whole on every rank, and one that is on its way."""


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
        self.stretch = 1
        """How seldom its copies came at last."""
        self._free: list[torch.Tensor] = []
        self._pageable = False

    def of(self, world: int) -> Store:
        """This store, for a generation of so many ranks: copies of another number of ranks fit nobody."""
        if self.world != world:
            self.world, self.stretch = world, 1
            self.only(-1, set())
        return self

    def buffer(self, size: int, *, pinned: bool) -> torch.Tensor:
        """A buffer of `size` bytes; touching new memory costs more than copying into old.

        All buffers of a process with a GPU are pinned, also those that a neighbour's copy arrives in: either may be the
        next that the GPU writes into.
        """
        for index, tensor in enumerate(self._free):
            if tensor.numel() == size:
                return self._free.pop(index)
        self._free.clear()  # of another size: nobody asks for them again
        tensor = torch.empty(size, dtype=torch.uint8)
        if pinned and not self._pageable:
            self._pageable = not pin(tensor)
        return tensor

    def put(self, owner: int, step: int, buffer: torch.Tensor) -> None:
        """Keep a copy."""
        self._replace(self.held, (owner, step), buffer)

    def put_own(self, owner: int, step: int, part: torch.Tensor) -> None:
        """Keep what is another's own."""
        self._replace(self.own, (owner, step), part)

    def _replace(self, copies: dict[tuple[int, int], torch.Tensor], key: tuple[int, int], buffer: torch.Tensor) -> None:
        if key in copies:
            self.release(copies[key])
        copies[key] = buffer

    def release(self, buffer: torch.Tensor) -> None:
        """Nobody needs this buffer's content; the next copy takes it."""
        self._free.append(buffer)
        del self._free[:-SLOTS]

    def whole(self, step: int) -> None:
        """Every rank has its copy of this step, and its neighbour too: older ones are needed by nobody."""
        self._drop(lambda at: at < step)

    def drop(self, step: int) -> None:
        """Some rank has no copy of this step: it is of no use."""
        self._drop(lambda at: at == step)

    def _drop(self, expired: Callable[[int], bool]) -> None:
        for copies in (self.held, self.own):
            for key in [key for key in copies if expired(key[1])]:
                self.release(copies.pop(key))

    def only(self, step: int, owners: set[int]) -> None:
        """Forget everything but one step of these owners: a generation begins."""
        for copies in (self.held, self.own):
            for key in [key for key in copies if key[1] != step or key[0] not in owners]:
                self.release(copies.pop(key))

    def inventory(self) -> list[tuple[int, int]]:
        """What is there."""
        return sorted(self.held)

    @property
    def bytes(self) -> int:
        """Bytes in use, free buffers included."""
        return sum(tensor.numel() for tensor in [*self.held.values(), *self.own.values(), *self._free])


def pin(tensor: torch.Tensor) -> bool:
    """Register the memory of a tensor with CUDA, so that copies need nobody to wait; False where it is refused.

    torch's own pinned memory comes in powers of two, of which 20 GB would take 32.
    """
    if not tensor.numel():
        return True
    runtime = torch.cuda.cudart()
    error = int(runtime.cudaHostRegister(tensor.data_ptr(), tensor.numel(), 0))
    if error:
        log(f"memory: {tensor.numel():,} bytes cannot be pinned (CUDA error {error}); copies wait for the GPU")
        return False
    unpinning = weakref.finalize(tensor.untyped_storage(), _unpin, tensor.data_ptr())
    unpinning.atexit = False  # the process takes its memory along
    return True


def _unpin(address: int) -> None:
    torch.cuda.cudart().cudaHostUnregister(address)

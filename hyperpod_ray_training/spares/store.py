"""The copies that a process keeps, of itself and of others. It outlives generations."""

from __future__ import annotations

import torch

KEPT = 3


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
        for expired in sorted(key for key in self.held if key[0] == owner)[:-KEPT]:
            self._free.append(self.held.pop(expired))
        del self._free[:-2]

    def put_own(self, owner: int, step: int, part: torch.Tensor) -> None:
        """Keep what is another's own; of each the newest `KEPT`."""
        self.own[owner, step] = part
        for expired in sorted(key for key in self.own if key[0] == owner)[:-KEPT]:
            self._free.append(self.own.pop(expired))
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

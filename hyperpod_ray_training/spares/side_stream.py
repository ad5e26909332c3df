"""Copies from a GPU that nobody waits for: on a stream of their own, over before the optimizer writes again.

What a step changes in its optimizer alone (parameters, moments) is copied while the next forward and backward pass
run; the GPU waits for the copy before the next `optimizer.step`, the host never does. That nothing else writes them is
seen first: the first copies are taken at once, and their tensors have the same sum when the optimizer begins. Each copy
has that sum in its head, and a copy whose tensors have another is refused when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hyperpod_ray_training.journal import log
from hyperpod_ray_training.trees import local

PROOFS = 2
"""Copies that are taken at once, to see that only the optimizers write."""
MARK_BYTES = 64 << 20
"""What is copied can be sent on after so many bytes."""
CLONED_BYTES = 256 << 20
"""What others write too is copied within the GPU first, up to so many bytes; more is waited for."""
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Taken:
    """A copy under way."""

    tensors: Sequence[torch.Tensor]
    total: torch.Tensor
    """Their sum, on the GPU."""
    number: torch.Tensor
    """Their sum in host memory, once the first mark is there."""
    write: Callable[[int], None]
    """Puts the sum into the copy's head."""
    marks: list[tuple[int, Any]] = field(default_factory=list)
    """Bytes of the buffer, and the event after which they are there."""
    before_update: torch.Tensor | None = None
    stalled: tuple[Any, Any] | None = None
    _there: int = 0
    """Marks that have been waited for."""

    def wait(self, length: int) -> None:
        """Until so many bytes are there, the head with the sum among them; any thread may wait."""
        while self._there < len(self.marks):
            if self._there and self.marks[self._there - 1][0] >= length:
                return
            self.marks[self._there][1].synchronize()
            if not self._there:
                self.write(int(self.number))
            self._there += 1

    def finish(self) -> None:
        """Until all of it is there."""
        self.wait(self.marks[-1][0])

    @property
    def stall_s(self) -> float:
        """So long the GPU waited for the copy before its optimizer; 0 where that is not known yet."""
        if self.stalled is None or not self.stalled[1].query():
            return 0.0
        return float(self.stalled[0].elapsed_time(self.stalled[1])) / 1000


class SideStream:
    """Copies of one rank's tensors to pinned memory.

    Args:
        device: The GPU.
        optimizers: Whose `step` a copy must be over before.
    """

    def __init__(self, device: torch.device, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.proofs, self.refused = 0, False
        self.newest: Taken | None = None
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before_update)

    @property
    def proved(self) -> bool:
        """Whether copies may be under way while the next step runs."""
        return self.proofs >= PROOFS and not self.refused

    def _before_update(self, *_: Any) -> None:
        taken = self.newest
        if taken is None or taken.before_update is not None or torch.cuda.is_current_stream_capturing():
            return
        taken.before_update = sum_of(taken.tensors) if not self.proved else taken.total
        if taken.marks[-1][1].query():
            return
        stream = torch.cuda.current_stream(self.device)
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record(stream)
        stream.wait_event(taken.marks[-1][1])
        after.record(stream)
        taken.stalled = (before, after)

    def judge(self) -> None:
        """Whether the copy before was of tensors that only the optimizer wrote: before the next one is taken."""
        taken, self.newest = self.newest, None
        if taken is None or self.refused or self.proved or taken.before_update is None:
            return
        if int(taken.total) == int(taken.before_update):
            self.proofs += 1
            return
        self.refused = True
        log("memory: parameters change outside optimizer.step; each copy is taken at once, and the step waits for it")

    def take(
        self, pieces: Sequence[tuple[int, torch.Tensor, bool]], buffer: torch.Tensor, write: Callable[[int], None]
    ) -> Taken:
        """Begin to copy tensors to their places in a buffer.

        Args:
            pieces: Of each tensor where it goes, and whether only its optimizer writes it.
            buffer: Of host memory.
            write: Puts the sum of what only optimizers write into the copy's head.
        """
        alone = [tensor for _, tensor, swift in pieces if swift]
        current = torch.cuda.current_stream(self.device)
        total = sum_of(alone).to(self.device)
        number = torch.empty_like(total, device="cpu", pin_memory=True)
        taken = self.newest = Taken(tensors=alone, total=total, number=number, write=write)
        shared_bytes = sum(_bytes(tensor) for _, tensor, swift in pieces if not swift)
        background = self.proved and shared_bytes <= CLONED_BYTES
        sources = [
            (start, tensor if swift or not background or not tensor.is_cuda else tensor.clone())
            for start, tensor, swift in pieces
        ]
        stream = self.stream if background else current
        if background:
            stream.wait_stream(current)
        with torch.cuda.stream(stream):
            number.copy_(total, non_blocking=True)
            total.record_stream(stream)
            taken.marks.append((0, stream.record_event()))
            copied = 0
            for start, tensor in sources:
                flat = tensor.contiguous().reshape(-1).view(torch.uint8)
                buffer[start : start + flat.numel()].copy_(flat, non_blocking=tensor.is_cuda)
                if tensor.is_cuda:
                    tensor.record_stream(stream)
                copied += flat.numel()
                if copied >= MARK_BYTES:
                    taken.marks.append((start + flat.numel(), stream.record_event()))
                    copied = 0
            taken.marks.append((buffer.numel(), stream.record_event()))
        if not background:
            taken.finish()
        return taken


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def sum_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A number of 64 bits of what tensors hold, computed where they are, and the same in whichever order."""
    totals = []
    for tensor in tensors:
        flat = local(tensor).detach().reshape(-1)
        totals.append(flat.view(_WORDS.get(flat.element_size(), torch.uint8)).sum(dtype=torch.int64))
    if not totals:
        return torch.zeros((), dtype=torch.int64)
    stacked = torch.stack(totals)
    return (stacked * torch.arange(1, 2 * len(totals), 2, device=stacked.device)).sum()

"""A model that is the proof of what it was trained on."""

from __future__ import annotations

import torch
from torch import nn


class Counts(nn.Module):  # type: ignore[misc]
    """A model whose parameters are how often each sample of each epoch counted."""

    def __init__(self, epochs: int, samples: int) -> None:
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(epochs, samples))

    def forward(self, epoch: int, ids: torch.Tensor) -> torch.Tensor:
        return -self.seen[epoch, ids].sum()

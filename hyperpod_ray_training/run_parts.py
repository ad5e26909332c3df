"""What of a run its helpers see, and what its trainer is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hyperpod_ray_training.folder import RunFolder
from hyperpod_ray_training.settings import Settings


class RunFacts(Protocol):
    """Where a run lives and how it is trained; `hyperpod_ray_training.Run` is one."""

    @property
    def storage(self) -> str:
        """Folder of all runs."""

    @property
    def name(self) -> str:
        """The run."""

    @property
    def best(self) -> tuple[str, str] | None:
        """Metric whose best checkpoints are kept, with "min" or "max"."""

    @property
    def settings(self) -> Settings:
        """Timeouts and intervals."""

    def folder(self) -> RunFolder:
        """The run's folder, opened."""

    def preflight(self) -> RunFolder:
        """See that the folder can be used."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a trainer is made of that depends on whether there are spares."""

    loop: Callable[[dict[str, Any]], Any]
    torch_config: Any
    callbacks: tuple[Any, ...] = ()
    spares: int = 0
    dataset_config: Any = None
    survive: bool = False
    """Whether the workers that live stay when others are lost."""

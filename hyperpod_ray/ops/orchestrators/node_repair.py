"""A repair of nodes: what is to be done, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.ops.observe.snapshot import Instance

Verb = Literal["replace", "reboot", "remove"]
When = Literal["now", "after-jobs"]


@dataclass(frozen=True, kw_only=True)
class NodeRepair:
    """What is to be done with nodes."""

    when: When
    instances: tuple[Instance, ...]
    hosts: tuple[str, ...] = ()
    """Names in the scheduler, where it acts after the jobs."""
    lines: tuple[str, ...] = ()
    """What it costs, for whoever confirms it."""

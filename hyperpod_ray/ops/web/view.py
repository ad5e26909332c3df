"""What the page shows, as plain data: an environment fills it from a snapshot, a rehearsal from its own files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hyperpod_ray.ops.journal.record import Record
from hyperpod_ray.ops.money.spend import Spend
from hyperpod_ray.ops.observe.node_rows import Tone
from hyperpod_ray.ops.verdict import Finding

__all__ = ["Fact", "GroupLine", "Happening", "NodeLine", "RunLine", "Tone", "View"]


@dataclass(frozen=True, kw_only=True)
class Happening:
    """One entry of a history."""

    time: datetime | None
    where: str
    what: str
    level: str = "Info"
    """Info, Warning or Error."""


@dataclass(frozen=True, kw_only=True)
class GroupLine:
    """How many nodes of a group are in which state."""

    name: str
    type: str
    asked: int
    ready: int
    checking: int = 0
    recovering: int = 0
    missing: int = 0


@dataclass(frozen=True, kw_only=True)
class NodeLine:
    """One node, with its history."""

    id: str
    group: str
    tone: Tone
    state: str
    """In words; the tone only repeats it."""
    fault: str = ""
    pods: tuple[str, ...] = ()
    launched: datetime | None = None
    network: str = ""
    """The network node next above it; empty where that is not known."""
    history: tuple[Happening, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """One run: what is known of it."""

    name: str
    state: str
    tone: Tone
    record: Record | None = None
    """What the run wrote about itself; None where that cannot be read from here."""
    started: datetime | None = None
    ended: datetime | None = None
    command: str = ""
    message: str = ""
    usd: float | None = None
    usd_per_hour: float | None = None
    usd_per_useful_gpu_hour: float | None = None
    why_no_record: str = ""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something else that has a state: a stack, a file system, a RayCluster."""

    kind: str
    name: str
    state: str
    tone: Tone = "none"
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """One look, as the page shows it."""

    environment: str
    subject: str
    """One line below the verdict: the cluster, its Region."""
    at: datetime
    headline: str
    """The verdict."""
    tone: Tone
    findings: tuple[Finding, ...] = ()
    runs: tuple[RunLine, ...] = ()
    groups: tuple[GroupLine, ...] = ()
    nodes: tuple[NodeLine, ...] = ()
    events: tuple[Happening, ...] = ()
    facts: tuple[Fact, ...] = ()
    spend: Spend | None = None
    spend_note: str = ""
    not_shown: tuple[str, ...] = ()
    """What this page cannot know, one sentence each."""
    relative: bool = False
    """Whether times of runs count from their first step: a rehearsal takes minutes."""

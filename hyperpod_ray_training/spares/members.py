"""A worker process as the coordinator knows it, and the limits after which it counts as lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_training.settings import Settings

BEAT = ("step", "seq", "busy", "saving", "still", "place", "at")
"""What a beat says."""
BEATS_PER_S = 5000
"""What one coordinator hears: more than a thousand ranks beat less often, so that it never needs a whole processor."""
BEATS_OF_SILENCE = 3
"""Fewer beats than so many may be late by chance."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a member counts as lost.

    Args:
        silence_s: No beat from a member that trains, nor from the process beside it. Half as long where that one says
            that the member is stopped.
        hang_s: Least seconds that a rank stands still in a lock or a device while others wait for it.
        hang_steps: The same as a multiple of the median step.
        floor_s: The same until the run has shown regular steps, and where nobody can tell what the rank waits for.
        patience_s: The same for a rank that is at work.
        together_s: So long all ranks may stand in collectives without one that gets on.
        ready_s: From the end of a generation until every survivor has let go of it.
        barren: So many generations in a row without a step end in a restart from the checkpoint.
        gather_s: The first generation waits so long for the spares too, so that neighbours in rank are neighbours on
            nodes. A new coordinator waits so long for every rank that trains.
        elastic_gather_s: The first generation of an elastic run waits so long for its largest size, then starts with
            those that are there.
        beat_s: Between two beats of a member, at least; longer where there are very many (`BEATS_PER_S`).
    """

    silence_s: float = 1.5
    hang_s: float = 2.5
    hang_steps: float = 6.0
    floor_s: float = 60.0
    patience_s: float = 1800.0
    together_s: float = 20.0
    ready_s: float = 30.0
    barren: int = 5
    gather_s: float = 5.0
    elastic_gather_s: float = 30.0
    beat_s: float = 0.2

    def beat_of(self, ranks: int) -> float:
        """Seconds between two beats of a member of so many ranks."""
        return max(self.beat_s, ranks / BEATS_PER_S)

    @property
    def ends_within_s(self) -> float:
        """The limits of a recovery, added up: by then ranks train, or all start from the newest checkpoint.

        What the loop's own code takes before its first step, and a process that Ray has to start, come to it.
        """
        return self.barren * (self.silence_s + self.ready_s + max(self.floor_s, self.together_s))

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Those of a run. Where a worker may be silent for minutes it may take them to let go, too."""
        return cls(
            silence_s=settings.silence_s, hang_s=settings.hang_s, hang_steps=settings.hang_steps,
            floor_s=max(cls.floor_s, settings.hang_s), patience_s=max(settings.patience_s, settings.hang_s),
            together_s=max(settings.process_group_timeout_s, settings.hang_s),
            ready_s=max(cls.ready_s, settings.silence_s), beat_s=settings.beat_s,
        )  # fmt: skip


@dataclass(kw_only=True)
class Member:
    """A worker process, as it last described itself."""

    uid: str
    order: int
    node: str
    port: int
    pid: int
    beat: float
    warm: bool = False
    gen: int = -1
    step: int = 0
    seq: int = 0
    busy: bool = False
    saving: bool = False
    still: float = 0.0
    place: str = ""
    at: str = ""
    """Where its loop stands, and for how long: `hyperpod_ray_training.spares.stance`."""
    pulse: float = float("-inf")
    """When the process beside it last beat: it lives, though it may say nothing (`pulse.py`)."""
    state: str = ""
    stopped: float = float("inf")
    """Since when that process has said that this one is stopped by a signal, or has ended."""
    ticks: int = 0
    computed: float = float("-inf")
    """When its processor time last grew."""
    proven: bool = False
    """It has finished a step or rehearsed one: nothing is imported for the first time any more."""
    standby: bool = False
    """It has no device of its own: it waits beside the ranks of its node for one that is lost."""
    imported: bool = False
    """A standby that has imported what the ranks had imported."""
    seat: str = ""
    """Its devices and its rank on the node, as its own process describes them: a standby takes them over."""


def packed(nodes: Iterable[str]) -> str:
    """The node of each rank in few bytes: thousands of ranks hear of thousands."""
    return ",".join(f"{node}*{sum(1 for _ in ranks)}" for node, ranks in itertools.groupby(nodes))


def unpacked(text: str) -> list[str]:
    """The node of each rank, of what `packed` gave."""
    nodes: list[str] = []
    for part in text.split(","):
        node, _, count = part.rpartition("*")
        nodes += [node] * int(count)
    return nodes


def member_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a hello, checked: a message of another form raises KeyError, TypeError or ValueError."""
    fields: dict[str, Any] = {
        "uid": str(message["uid"]), "order": int(message["order"]), "node": str(message["node"]),
        "port": int(message["port"]), "pid": int(message["pid"]), "gen": int(message.get("gen", -1)),
    }  # fmt: skip
    rank = message.get("rank")
    fields |= {"world": int(message.get("world", 0)), "group": int(message.get("group", 0))}
    fields |= {"standby": bool(message.get("standby", False)), "seat": str(message.get("seat", ""))}
    fields["took"] = int(message.get("took", 0))
    return fields | {"rank": None if rank is None else int(rank), "warm": bool(message.get("warm", False))}

"""What a run writes about itself (`events.jsonl`), read while it is being written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of `events.jsonl`.

    Args:
        t: unix seconds.
        kind: start, restore, step, save, drain, resize, error, done or fault.
        step: the step it is about, where it is about one.
        values: everything else in the line.
    """

    t: float
    kind: str
    step: int | None = None
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float | None:
        """The loss of a step, to the last bit (JSON carries a float's shortest exact form)."""
        value = self.values.get("loss")
        return None if value is None else float(value)

    @property
    def worker(self) -> bool:
        """Written by a training worker, not by the driver."""
        return self.values.get("role") != "driver"


def parse(line: str) -> Event | None:
    """An event, or None for a line that is none (cut short by a kill, for example)."""
    try:
        raw = json.loads(line)
        step = raw.pop("step", None)
        return Event(
            t=float(raw.pop("t")), kind=str(raw.pop("kind")), step=None if step is None else int(step), values=raw
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


class Tail:
    """The events of a run so far; `read` takes up what has been added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []
        self._offset = 0
        self._rest = b""

    def read(self) -> list[Event]:
        """New events since the last call, in the order written. A missing file is an empty one."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        fresh = [event for line in lines if (event := parse(line.decode(errors="replace")))]
        self.events += fresh
        return fresh

    def last(self, kind: str) -> Event | None:
        """The newest event of a kind."""
        return next((event for event in reversed(self.events) if event.kind == kind), None)

    @property
    def step(self) -> int:
        """The newest step; 0 before the first."""
        event = self.last("step")
        return event.step if event and event.step is not None else 0


def steps(events: list[Event]) -> Iterator[Event]:
    """The step events that carry a step and a loss."""
    return (event for event in events if event.kind == "step" and event.step is not None and event.loss is not None)

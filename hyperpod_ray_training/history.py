"""The one reader of a run's journal: what `events.jsonl` adds up to, in bounded memory, line by line.

`History` takes the lines in the order in which they were written, and keeps totals, not lines. Its `summary` is JSON:
the writer keeps one in `progress.json`, and whoever reads the run continues from there. A reading therefore costs what
was written since, not what the run has ever written.

Each second since the run's first line counts as one of `SHARES`; together they are the whole.

This file is used where it lies by the training library, is linked into `hyperpod_ray.ops.in_ray`, and is sent as text
to clusters: the standard library alone, and nothing newer than Python 3.8.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = frozenset(
    {
        "start", "restore", "step", "save", "drain", "resize", "error", "done", "fault",
        "lost", "generation", "move", "note", "spare", "fallback", "transport", "slow", "evidence",
    }
)  # fmt: skip
"""Every kind of event; a line of another kind counts as none."""
SIGNS = ("fault", "lost", "drain", "move", "error", "resize", "fallback", "start")
"""Kinds that say why steps stop, the most telling first."""
FAULTS = ("error", "lost", "fault")
"""Kinds that are a fault."""
STOPPING = ("fault", "lost", "error", "start")
"""Kinds after which no step is to be expected before workers have started or restored."""
SHARES = ("training", "redone", "saving", "recovering", "waiting", "idle")
"""What a second of a run is spent on; docs/concepts.md defines each."""
HELD = ("training", "redone", "saving", "recovering")
"""Those in which the run has workers, and therefore holds their nodes."""
VERSION = 1
SKEW_S = 60.0
"""Clocks of two nodes may differ by so much; what is further back is a clock that was set, or no time at all."""
GAP_S = 600.0
"""A line that is later than the one before by more is believed when the next line agrees."""
STEP_JUMP = 100
"""A step further ahead than so many of the last strides, or back without a restore: believed if the next agrees."""
POINTS = 400
"""Most points of the curve."""
MOST_LINE_BYTES = 64 << 10
_NEWEST, _SHORT = 60, 120
_GAPS, _PAUSES, _SLOTS, _SIGNS_KEPT = 50, 8, 64, 10
_SIZES = 64
_MARK_BYTES = 20
_DAY, _YEAR = 86_400.0, 365 * 86_400.0
_LATER = ("redoing",)
"""What summaries of earlier versions lack. Object storage has the summary alone: it is not read again from lines."""
_ROWS = {"curve": 4, "saves": 5, "interruptions": 7, "events": 5, "slots": 3, "signs": 3}
_BIN = 0.03
_TEXT = 200
_ECHOES = ("connection", "timed out", "timeout", "gloo", "nccl", "actordied", "actorunavailable", "broken pipe", "peer")
_NO_METRIC = frozenset({"world", "rank", "gen"})
_EMPTY = {"recovering": 0.0, "waiting": 0.0, "idle": 0.0}


def number(value: Any) -> float | None:
    """A finite number. JSON has no others, and Python writes them all the same."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """A whole number."""
    exact = number(value)
    return None if exact is None or exact != int(exact) else int(exact)


def opened(path: str | Path) -> BinaryIO:
    """A regular file to read. Of a pipe or a device, which somebody may have put in its place, reading has no end.

    Raises:
        OSError: It is not there, or no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def mapping(text: str | bytes | None) -> dict[str, Any]:
    """A JSON object; empty where the text is none."""
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def clean(value: Any, limit: int = 300) -> str:
    """A text in one line: whatever would move a terminal's cursor or change its colours is a space."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())[:limit]


def first_line(value: Any, limit: int = 300) -> str:
    """The first line of a text, as `clean` has it."""
    return clean(str(value or "").strip().partition("\n")[0], limit)


@dataclass
class Event:
    """One line of `events.jsonl`: unix seconds, its kind, the step that it is about, and everything else in it."""

    t: float
    kind: str
    step: int | None = None
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float | None:
        """The loss of a step, to the last bit: JSON carries a float's shortest exact form."""
        return number(self.values.get("loss"))

    @property
    def worker(self) -> bool:
        """Whether a training worker wrote it, and not the driver."""
        return self.values.get("role") != "driver"


def parse(line: str | bytes) -> Event | None:
    """An event, or None for a line that is none. A line that was glued to one that a kill cut short is read."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    content = mapping(text.strip("\0 \r\n\t"))
    if not content and (begin := text.rfind('{"t":', 1)) > 0:
        content = mapping(text[begin:])
    t, event_kind, step = number(content.pop("t", None)), content.pop("kind", None), whole(content.get("step"))
    if t is None or not 0 <= t < 1e11 or not isinstance(event_kind, str) or event_kind not in KINDS:
        return None
    if step is None or step < 0:
        if event_kind in ("step", "save"):
            return None
        step = None
    content.pop("step", None)
    return Event(t, event_kind, step, content)


class Tail:
    """The whole lines of a file that is being written; each call of `lines` takes up what has been added.

    Args:
        path: The file; a missing one is empty.
        offset: Bytes that are known already.
    """

    def __init__(self, path: str | Path, *, offset: int = 0) -> None:
        self.path = Path(path)
        self.offset = offset
        self.events: list[Event] = []
        self._skipping = False

    def lines(self, *, most_bytes: int | None = None) -> Iterable[bytes]:
        """New lines; `offset` is always behind the last one that was handed out.

        Args:
            most_bytes: Stop after so many; None: at the end of the file.
        """
        try:
            stream = opened(self.path)
        except OSError:
            return
        with stream:
            stream.seek(self.offset)
            stop = None if most_bytes is None else self.offset + most_bytes
            while stop is None or self.offset < stop or self._skipping:
                line = stream.readline(MOST_LINE_BYTES)
                if not line.endswith(b"\n"):
                    if len(line) < MOST_LINE_BYTES:
                        return  # it is being written
                    self._skipping = True
                    self.offset += len(line)
                    continue
                self.offset += len(line)
                self._skipping = False
                yield line  # of one that is too long, its end

    def rest(self) -> bytes:
        """A line that is being written."""
        try:
            with opened(self.path) as stream:
                stream.seek(self.offset)
                return stream.readline(MOST_LINE_BYTES)
        except OSError:
            return b""

    def read(self) -> list[Event]:
        """New events since the last call, in the order written; `events` has all of them."""
        fresh = [event for line in self.lines() if (event := parse(line))]
        self.events += fresh
        return fresh

    def last(self, event_kind: str) -> Event | None:
        """The newest event of a kind."""
        return next((event for event in reversed(self.events) if event.kind == event_kind), None)

    @property
    def step(self) -> int:
        """The newest step; 0 before the first."""
        event = self.last("step")
        return event.step if event and event.step is not None else 0


def steps(events: Iterable[Event]) -> Iterable[Event]:
    """The step events that carry a loss."""
    return (event for event in events if event.kind == "step" and event.loss is not None)


class History:
    """What a journal adds up to. All attributes are JSON: `summary` and `kept` carry them from process to process."""

    def __init__(self) -> None:
        self.offset = 0
        """Bytes of `events.jsonl` that are in here."""
        self.line = [0, 0, 0]
        """Length, CRC-32 and end of the last line among them, by which a reader knows its place in the file."""
        self.begin: float | None = None
        """When the first line was written."""
        self.t: float | None = None
        """When the newest was, by a clock that does not go back for a node whose clock is behind."""
        self.seconds = dict.fromkeys(SHARES, 0.0)
        self.held: dict[str, float] = {}
        """Seconds with workers, by the number of ranks; "0" before that is known."""
        self.useful_ranks = 0.0
        """Seconds of training times ranks."""
        self.world: int | None = None
        self.counts: dict[str, int] = {}
        self.metric = ""
        self.not_finite: int | None = None
        self.first_step_t: float | None = None
        self.last: list[Any] | None = None
        """Time, step and value of the newest step."""
        self.lowest: float | None = None
        self.highest: int | None = None
        self.stride = 1
        self.curve: list[list[Any]] = []
        """Time, step, value, and whether an interruption lies before it."""
        self.every, self.skipped = 1, 0
        self.waiting_point: list[Any] | None = None
        self.gaps: list[float] = []
        self.pauses: list[float] = []
        self.slots: list[list[float]] = []
        """Of the last minute of steps, second by second: its end, steps, and seconds that they took."""
        self.rates: dict[str, list[float]] = {}
        """Seconds per step of all steps, in bins 3 % wide: how many, and their sum."""
        self.saves: list[list[Any]] = []
        self.stalled = 0.0
        self.interruptions: list[list[Any]] = []
        self.interrupted = 0
        self.by_cause: dict[str, list[float]] = {}
        """Interruptions by the kind of their most telling sign: how many, and seconds that they cost: those without a
        step, and those of steps that were done again after them."""
        self.redoing = ""
        """The kind of the interruption whose steps are being done again."""
        self.events: list[list[Any]] = []
        self.over = False
        self.mode = ""
        self.since_step = dict(_EMPTY)
        self.debt = 0.0
        self.restored: list[Any] | None = None
        self.restarted = False
        self.signs: list[list[Any]] = []
        self.doubtful: list[Any] | None = None

    # ---- reading ----

    def take_up(self, path: str | Path, *, most_bytes: int | None = None, to_the_end: bool = False) -> None:
        """Read what has been added to a file; from its beginning where it is not the file that this is of.

        Args:
            path: `events.jsonl`.
            most_bytes: Read no more than so many now.
            to_the_end: Read a last line without an end too; nobody continues from here then.
        """
        if self.offset and not self._continues(path):
            vars(self).update(vars(History()))
        tail = Tail(path, offset=self.offset)
        for line in tail.lines(most_bytes=most_bytes):
            self.add(line)
            self.offset = tail.offset
            if len(line) >= _MARK_BYTES:
                self.line = [len(line), zlib.crc32(line), tail.offset]
        if to_the_end and (rest := tail.rest()) and (event := parse(rest)):
            self.feed(event)

    def _continues(self, path: str | Path) -> bool:
        """Whether the last line that is known stands where it stood."""
        try:
            with opened(path) as stream:
                stream.seek(max(0, self.line[2] - self.line[0]))
                line = stream.read(self.line[0])
                return stream.seek(0, 2) >= self.offset and [len(line), zlib.crc32(line)] == self.line[:2]
        except OSError:
            return False

    def take_newest(self, lines: list[bytes]) -> bool:
        """Read the newest lines of a file; False where the last line that is known is not among them.

        Args:
            lines: Without their ends; the first may be cut.
        """
        if self.offset:
            # of a line that was too long for one, its end is known
            complete = [index for index, line in enumerate(lines) if self._ends(line + b"\n")]
            if not complete:
                return False
            lines = lines[complete[-1] + 1 :]
        for line in lines:
            self.add(line + b"\n")
        return True

    def _ends(self, line: bytes) -> bool:
        """Whether a line is the last that is known, or ends with it."""
        length, checksum, _ = self.line
        return 0 < length <= len(line) and zlib.crc32(line[-length:]) == checksum

    def add(self, line: bytes) -> None:
        """One line of the file."""
        event = parse(line)
        if event is not None:
            self.feed(event)

    def summary(self) -> dict[str, Any]:
        """All of it as JSON, of a few kilobytes however long the run is."""
        return {"version": VERSION, **vars(self)}

    def shorten(self) -> None:
        """Drop what no total needs: most of the curve, and all but the newest events."""
        while len(self.curve) > _SHORT:
            self._thin(_SHORT)
        for listed in (self.events, self.saves, self.interruptions):
            del listed[:-5]

    @classmethod
    def kept(cls, summary: Any) -> History:
        """The history that a summary is of, as JSON or its text; an empty one where it is none of this version."""
        fresh, empty = cls(), cls()
        try:
            content = json.loads(summary if isinstance(summary, str) else json.dumps(summary))
            if content.pop("version") != VERSION:
                return empty
            content = {**{name: getattr(empty, name) for name in _LATER}, **content}
            if content.keys() != vars(empty).keys():
                return empty
            if any(type(content[key]) is not type(value) for key, value in vars(empty).items() if value is not None):
                return empty
            vars(fresh).update(content)
            fresh.settled(now=fresh.t or 0.0)  # what another hand has written fails here
            if any(len(row) != length for name, length in _ROWS.items() for row in getattr(fresh, name)):
                return empty
        except Exception:
            return empty
        return fresh

    def newer_than(self, history: History) -> bool:
        """Whether this has read further."""
        return (self.offset, sum(self.counts.values())) > (history.offset, sum(history.counts.values()))

    # ---- adding up ----

    def feed(self, event: Event) -> None:
        """One event. One that is far from its neighbours in time or step harms nobody but itself."""
        if not self._possible(event.t):
            if self.t is None:
                return
            event = Event(self.t, event.kind, event.step, event.values)
        held = self.doubtful
        if held is not None:
            doubted = Event(held[0], held[1], held[2], held[3])
            if event.step is None and self._far(doubted) and not self._doubtful(event):
                self._take(event)  # which says nothing about a step
                return
            self.doubtful = None
            if self._agrees(event, doubted):
                self._take(doubted)
            elif doubted.kind != "step":
                self._take(Event(self.t or doubted.t, doubted.kind, doubted.step, doubted.values))
        if self._doubtful(event):
            self.doubtful = [event.t, event.kind, event.step, _small(event.values)]
        else:
            self._take(event)

    def _possible(self, t: float) -> bool:
        """Whether a line may be of this time: no later than tomorrow, and no earlier than the day before the first."""
        if self.begin is not None and t < self.begin - _DAY:
            return False
        return t <= (self.t or 0.0) + GAP_S or t < time.time() + _DAY

    def _doubtful(self, event: Event) -> bool:
        if self.t is None:
            return False
        if event.t < self.t - SKEW_S or event.t > self.t + GAP_S:
            return True
        return self._far(event)

    def _far(self, event: Event) -> bool:
        if event.kind != "step" or self.last is None or event.step is None:
            return False
        back = event.step <= self.last[1] and self.restored is None and not self.restarted
        return bool(back or event.step > self.last[1] + STEP_JUMP * self.stride)

    def _agrees(self, event: Event, doubted: Event) -> bool:
        """Whether the line after a doubtful one is nearer to it than to the lines before."""
        if self._far(doubted) and event.step is not None and self.last is not None and doubted.step is not None:
            on = event.step > doubted.step or event.kind != "step"
            return bool(on and abs(event.step - doubted.step) <= abs(event.step - self.last[1]))
        return abs(event.t - doubted.t) <= abs(event.t - (self.t or 0.0))

    def _take(self, event: Event) -> None:
        newest = self.t
        if newest is None:
            newest = self.begin = self.t = event.t
        if event.t - newest > _YEAR and sum(self.counts.values()) == 1:
            newest = self.begin = event.t  # the one line before this had no time
        spent = max(0.0, event.t - newest)
        if event.t > newest or event.t < newest - SKEW_S:
            self.t = event.t
        self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
        driver = event.kind == "start" and not event.worker
        share = "idle" if driver or self.over else "waiting" if self.mode == "waiting" else "recovering"
        self._sized(event)
        self.since_step[share] += spent
        if event.kind == "step":
            self._step(event)
            return
        if driver:
            self.mode = "waiting"
        elif event.kind in ("start", "restore"):
            self.mode = "recovering"
        if event.kind == "start":
            self.restarted, self.over = self.restarted or self.last is not None, False
        elif event.kind == "restore":
            self.restored = [event.step, clean(event.values.get("path"), _TEXT)]
        elif event.kind == "save":
            self._save(event)
        elif event.kind == "done":
            self._done()
        is_sign = event.kind in (*SIGNS, "evidence") and (event.kind != "start" or driver)
        if is_sign and self.last is not None:
            self._sign([event.t, event.kind, words(event)])
        seconds = number(event.values.get("seconds"))
        _append(self.events, [event.t, event.kind, event.step, seconds, _about(event)], limit=_NEWEST)

    def _sign(self, sign: list[Any]) -> None:
        """Keep the first, and of later ones what is no consequence: when one rank fails, all the others say so."""
        if len(self.signs) >= _SIGNS_KEPT:
            echoes = [index for index, kept in enumerate(self.signs) if consequence(kept[2])]
            first_stop = sign[1] in STOPPING and all(kept[1] not in STOPPING for kept in self.signs)
            if (consequence(sign[2]) or not echoes) and not first_stop:
                return
            del self.signs[echoes[-1] if echoes else -1]
        self.signs.append(sign)

    def _sized(self, event: Event) -> None:
        world = event.values.get("world")
        if world == self.world or event.kind not in ("start", "restore", "step", "resize"):
            return
        world = whole(world)
        if world is None or world <= 0:
            return
        if str(world) in self.held or len(self.held) < _SIZES:
            if "0" in self.held:
                self.held[str(world)] = self.held.pop("0") + self.held.get(str(world), 0.0)
            self.world = world

    def _hold(self, seconds: float) -> None:
        key = str(self.world or 0)
        self.held[key] = self.held.get(key, 0.0) + seconds

    def _spend(self, share: str, seconds: float) -> None:
        self.seconds[share] += seconds
        if share in HELD:
            self._hold(seconds)

    def _step(self, event: Event) -> None:
        step = event.step or 0
        value = self._value(event, step)
        before, spent = self.last, self.since_step
        interrupted = before is not None and (self.restored is not None or self.restarted or step <= before[1])
        if before is not None and not interrupted:
            self._advance(before, event.t, step, sum(spent.values()))
        else:
            stall = min(self.debt, spent["recovering"])
            self._spend("saving", stall)
            self.debt, spent["recovering"] = 0.0, spent["recovering"] - stall
            for share, seconds in spent.items():
                self._spend(share, seconds)
            if interrupted and before is not None and self.mode != "resumed":
                self._interrupted(before, event)
            elif interrupted:
                self._blame("unknown", sum(spent.values()))
        if self.first_step_t is None:
            self.first_step_t = event.t
        self.highest = step if self.highest is None else max(self.highest, step)
        self.last = [event.t, step, value]
        self._point(self.last, edge=interrupted)
        self.since_step, self.mode, self.signs = dict(_EMPTY), "", []
        self.restored, self.restarted = None, False

    def _value(self, event: Event, step: int) -> float | None:
        if not self.metric:
            metrics = [
                key for key, value in event.values.items() if key not in _NO_METRIC and number(value) is not None
            ]
            self.metric = "loss" if "loss" in event.values else metrics[0] if metrics else ""
        value = number(event.values.get(self.metric))
        if value is None and self.metric in event.values and self.not_finite is None:
            self.not_finite = step
        if value is not None:
            self.lowest = value if self.lowest is None else min(self.lowest, value)
        return value

    def _advance(self, before: list[Any], t: float, step: int, seconds: float) -> None:
        """Steps were done between two lines: their time is training, done again, or that of a save."""
        done = step - before[1]
        stall = min(self.debt, seconds)
        self.debt -= stall
        repeated = max(0, min(step, self.highest if self.highest is not None else 0) - before[1]) / done
        self.seconds["saving"] += stall
        self.seconds["redone"] += (seconds - stall) * repeated
        if repeated:
            self._blame(self.redoing or "unknown", (seconds - stall) * repeated)
        self.seconds["training"] += (seconds - stall) * (1 - repeated)
        self.useful_ranks += (seconds - stall) * (1 - repeated) * (self.world or 0)
        self._hold(seconds)
        self.stride = done
        _append(self.gaps, round(seconds, 6), limit=_GAPS)
        if len(self.pauses) < _PAUSES or seconds > self.pauses[-1]:
            self.pauses = sorted([*self.pauses, round(seconds, 3)], reverse=True)[:_PAUSES]
        if seconds > 0:
            step_s = seconds / done
            row = self.rates.setdefault(str(round(math.log(min(max(step_s, 1e-4), 1e5)) / _BIN)), [0, 0.0])
            row[0], row[1] = row[0] + 1, row[1] + step_s
            if self.slots and t - self.slots[-1][0] < 1.0 and self.slots[-1][0] <= t:
                self.slots[-1][1] += done
                self.slots[-1][2] += seconds
            else:
                _append(self.slots, [t, done, seconds], limit=_SLOTS)

    def _interrupted(self, before: list[Any], event: Event) -> None:
        back, path = self.restored or [None, ""]
        source = "memory" if path == "memory" else "checkpoint" if path else ""
        category, cause = cause_of(self.signs)
        resumed = (event.step or 0) - 1 if back is None else back
        row = [before[0], event.t, before[1], resumed, source, cause, round(sum(self.since_step.values()), 3)]
        _append(self.interruptions, row, limit=_NEWEST)
        self.interrupted += 1
        self.redoing = category
        self._blame(category, sum(self.since_step.values()), times=1)

    def _blame(self, category: str, seconds: float, *, times: int = 0) -> None:
        count, before = self.by_cause.get(category, [0, 0.0])
        self.by_cause[category] = [count + times, before + seconds]

    def _save(self, event: Event) -> None:
        stall = max(0.0, number(event.values.get("stall_s")) or 0.0)
        self.stalled += stall
        # what a save in the background cost lies before it is complete; what steps waited for, since the last of them
        waits = min(stall, sum(self.since_step.values()))
        source = "redone" if self.last is not None and self.last[1] < (self.highest or 0) else "training"
        earlier = min(stall - waits, self.seconds[source])
        self.debt += stall - earlier
        self._stalled(source, earlier)
        row = [event.t, event.step, clean(event.values.get("reason"), 40), number(event.values.get("seconds")), stall]
        _append(self.saves, row, limit=_NEWEST)

    def _stalled(self, source: str, seconds: float) -> None:
        """Time that was counted as steps' was a save's."""
        self.seconds[source] -= seconds
        self.seconds["saving"] += seconds
        if source == "redone":
            self._blame(self.redoing or "unknown", -seconds)
        if source == "training":
            self.useful_ranks = max(0.0, self.useful_ranks - seconds * (self.world or 0))

    def _done(self) -> None:
        """The end of a run: since its last step it has waited for its last checkpoint."""
        spent = sum(self.since_step.values())
        self._spend("saving" if self.last is not None and not self.restarted else "recovering", spent)
        if self.last is not None and self.restarted:
            self._blame(cause_of(self.signs)[0], spent)
        self.debt = max(0.0, self.debt - spent)
        self.since_step, self.over, self.mode = dict(_EMPTY), True, "resumed"
        self.restored, self.restarted, self.signs = None, False, []

    # ---- the curve ----

    def _point(self, point: list[Any], *, edge: bool) -> None:
        """Keep every so many steps, of each stretch the one that stands out most, and both ends of an interruption."""
        if edge and self.waiting_point is not None:
            self.curve.append([*self.waiting_point, 0])
            self.waiting_point, self.skipped = None, 0
        if edge or not self.curve:
            self.curve.append([*point, int(edge)])
        else:
            self.skipped += 1
            if self.waiting_point is None or _apart(point, self.curve[-1]) >= _apart(
                self.waiting_point, self.curve[-1]
            ):
                self.waiting_point = point
            if self.skipped >= self.every:
                self.curve.append([*self.waiting_point, 0])
                self.waiting_point, self.skipped = None, 0
        if len(self.curve) >= POINTS:
            self._thin(POINTS)

    def _thin(self, most: int) -> None:
        """Drop every second point, but for both ends of the newest interruptions, which fit in `most` points."""
        edges = [index for index, point in enumerate(self.curve) if point[3]][-most // 8 :]
        protected = {0, len(self.curve) - 1, *edges, *(index - 1 for index in edges)}
        fewer: list[list[Any]] = []
        spare: list[Any] | None = None
        for index, point in enumerate(self.curve):
            if index in protected:
                fewer += [point] if spare is None else [spare, point]
                spare = None
            elif spare is None:
                spare = point
            else:
                fewer.append(point if _apart(point, fewer[-1]) > _apart(spare, fewer[-1]) else spare)
                spare = None
        self.curve = fewer
        self.every *= 2

    # ---- what it says ----

    @property
    def broken(self) -> bool:
        """Whether something that stops steps was noticed, and no step followed."""
        if self.last is None or self.over:
            return False
        return self.restored is not None or any(sign[1] in STOPPING for sign in self.signs)

    def settled(self, *, now: float, ended: bool = False) -> History:
        """A copy in which the time since the newest line counts too, as far as it can be said what it was.

        Args:
            now: The time where the journal is written. While a run stands still, its time runs on.
            ended: Whether the run is known to be over.
        """
        copy = History()
        vars(copy).update(json.loads(json.dumps(vars(self))))
        if (held := copy.doubtful) is not None:
            copy.doubtful = None
            if (copy.t or 0.0) - SKEW_S <= held[0] <= now + SKEW_S and not copy._far(Event(*held)):
                copy._take(Event(*held))
        if copy.over or ended:
            copy.since_step = dict(_EMPTY) if copy.over else copy.since_step
        elif copy.t is not None and (copy.broken or copy.restarted or (copy.last is None and copy.mode)):
            copy.since_step["waiting" if copy.mode == "waiting" else "recovering"] += max(0.0, now - copy.t)
        if copy.broken or copy.restarted or copy.last is None:
            for share, seconds in copy.since_step.items():
                copy._spend(share, seconds)
            if copy.last is not None:
                lasts = copy.broken and not ended
                copy._blame(cause_of(copy.signs)[0], sum(copy.since_step.values()), times=int(lasts))
        if not copy.over and copy.last is not None:  # a save that no further step followed
            copy._stalled("training", min(copy.debt, copy.seconds["training"]))
        if copy.waiting_point is not None:
            copy.curve.append([*copy.waiting_point, 0])
        if copy.last is not None and copy.curve[-1][:2] != copy.last[:2]:
            copy.curve.append([*copy.last, 0])
        return copy


def _small(values: dict[str, Any]) -> dict[str, Any]:
    """What fits into a summary, of a line's values."""
    return {
        clean(key, 40): value if isinstance(value, int) else number(value) if isinstance(value, float) else clean(value)
        for key, value in list(values.items())[:20]
    }


def _append(listed: list[Any], row: Any, *, limit: int) -> None:
    """Keep the newest; cut now and then, so that a row costs the same however many there were."""
    listed.append(row)
    if len(listed) >= 2 * limit:
        del listed[:-limit]


def _apart(point: list[Any], reference: list[Any]) -> float:
    """How much a point's value stands out; one that has none stands out least."""
    return -1.0 if point[2] is None else math.inf if reference[2] is None else abs(point[2] - reference[2])


def consequence(text: str) -> bool:
    """Whether an error is what ranks report when another one is gone: a broken connection, a collective that waits."""
    lower = text.lower()
    return any(echo in lower for echo in _ECHOES)


def cause_of(signs: list[list[Any]]) -> tuple[str, str]:
    """Kind and words of the most telling sign of an interruption: of the first that is no consequence of another."""
    evidence = "".join(f"; {sign[2]}" for sign in signs if sign[1] == "evidence")[:_TEXT]
    for category in SIGNS:
        alike = [sign for sign in signs if sign[1] == category]
        if alike:
            earliest = next((sign for sign in alike if not consequence(sign[2])), alike[0])
            several = any(sign is not earliest and sign[1] in FAULTS for sign in signs)
            after = " (the first of several)" if several and category in ("lost", "error") else ""
            return category, f"{earliest[2]}{after}{evidence}"
    return "unknown", "the run's events name no cause"


def _about(event: Event) -> str:
    """What a list of events says of one; of a restore it matters whether it came from memory."""
    keys = ("path",) if event.kind == "restore" else ("message", "why", "reason", "node", "path")
    return first_line(next((event.values[key] for key in keys if event.values.get(key)), ""), _TEXT)


def words(event: Event) -> str:
    """A sign in one line."""
    node, rank = event.values.get("node"), event.values.get("rank")
    where = clean(
        (f"rank {rank}" if rank is not None else "") + (f" on {node}" if node not in (None, "local") else ""), 80
    )
    text = clean(event.values.get("message") or event.values.get("reason"), _TEXT)
    name = {
        "fault": f"injected fault {clean(event.values.get('fault') or event.values.get('name'), 40)}".rstrip(),
        "lost": f"{where or 'a rank'} lost",
        "drain": "drain notice",
        "move": "drain notice",
        "resize": f"{event.values.get('world_before', '?')} → {event.values.get('world', '?')} workers",
        "start": "the job started again",
        "fallback": "full restart",
    }.get(event.kind)
    if name is None:
        return ": ".join(filter(None, [where if event.kind == "error" else "", text or "an error without a message"]))
    subject = f"{name} ({where})" if where and event.kind != "lost" else name
    return clean(": ".join(filter(None, [subject, text])), _TEXT + 100)

"""The picture of a run: checkpoints, interruptions, metric and steps per second on one time axis. SVG, no library.

Drawn in two widths, of which CSS shows one: text keeps its size on a narrow screen. Colours are classes of `page.css`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape

from hyperpod_ray.ops import output
from hyperpod_ray.ops.journal.record import Record, Sign, Step

WIDE, NARROW = 920, 340
LEFT, RIGHT = 54, 12
MARKS, VALUES, RATES, AXIS, GAP = 46, 130, 90, 22, 14
POINTS = 400
"""Most points of a line: more would not be seen."""
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
DAY = 86400


@dataclass(frozen=True, kw_only=True)
class Axis:
    """From times to positions."""

    first: float
    last: float
    width: int
    seconds_from: float | None = None
    """Label seconds since this time; None: the clock in UTC."""

    def x(self, t: float) -> float:
        """The position of a time."""
        share = (t - self.first) / (self.last - self.first)
        return LEFT + min(1.0, max(0.0, share)) * (self.width - LEFT - RIGHT)

    def ticks(self) -> list[tuple[float, str]]:
        """Times to label, and their labels."""
        span = self.last - self.first
        limit = max(2, (self.width - LEFT) // 110)
        step = next(
            (candidate for candidate in TICKS if span / candidate <= limit), DAY * max(1, math.ceil(span / DAY / limit))
        )
        base = self.seconds_from or 0.0
        at = base + math.ceil((self.first - base) / step) * step
        labels = []
        while at <= self.last:
            labels.append((at, f"{at - base:g} s" if self.seconds_from is not None else _clock(at, step=step)))
            at += step
        return labels


def _clock(t: float, *, step: float) -> str:
    at = datetime.fromtimestamp(t, UTC)
    return at.strftime("%m-%d" if step >= DAY else "%m-%d %H:%M" if step >= DAY / 8 else "%H:%M:%S")[
        : None if step < 60 or step >= DAY / 8 else 5
    ]


def axis_of(records: Sequence[Record], *, width: int, now: float, relative: bool = False) -> Axis | None:
    """The axis of a run: from its first step to now, or to its last step where it has ended. None before two steps."""
    times = [step.t for record in records for step in record.steps]
    times += [save.t for record in records for save in record.saves]
    if len(times) < 2:
        return None
    earliest, latest = min(times), max(times)
    if not all(record.ended for record in records):
        latest = max(latest, now)
    latest = max(latest, earliest + 1.0)
    return Axis(first=earliest, last=latest, width=width, seconds_from=earliest if relative else None)


def draw(record: Record, *, now: float, node_signs: Sequence[Sign] = (), relative: bool = False) -> str:
    """The picture in both widths; empty before a run has two steps.

    Args:
        node_signs: What the service said of nodes in that time; drawn in the same lane.
        relative: Whether the axis counts seconds from the first step.
    """
    drawn = []
    for width, name in ((WIDE, "wide-only"), (NARROW, "narrow-only")):
        axis = axis_of([record], width=width, now=now, relative=relative)
        if axis is None:
            return ""
        drawn.append(_svg(record, axis, name=name, node_signs=node_signs))
    return "".join(drawn)


@dataclass
class _Drawing:
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str = "", **attributes: object) -> None:
        names = {"class_": "class"}
        written = "".join(
            f' {names.get(key, key.replace("_", "-"))}="{escape(_value(value))}"' for key, value in attributes.items()
        )
        self.parts.append(f"<{tag}{written}>{text}</{tag}>")


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _svg(record: Record, axis: Axis, *, name: str, node_signs: Sequence[Sign]) -> str:
    out = _Drawing()
    values_top = MARKS + GAP
    rates_top = values_top + VALUES + GAP
    bottom = rates_top + RATES
    right_edge = axis.width - RIGHT
    for gap in record.interruptions:
        start, x_end = axis.x(gap.stopped_t), axis.x(gap.resumed_t if gap.resumed_t is not None else axis.last)
        css_class = "gap" if gap.resumed_t is not None else "gap open"
        out.add(
            "rect", class_=css_class, x=start, y=MARKS - 8, width=max(1.0, x_end - start), height=bottom - MARKS + 8
        )
    for t, text in axis.ticks():
        x = axis.x(t)
        out.add("line", class_="grid", x1=x, x2=x, y1=MARKS, y2=bottom)
        anchor = "end" if x > right_edge - 20 else "start" if x < LEFT + 12 else "middle"
        out.add("text", escape(text), class_="tick", x=x, y=bottom + 16, text_anchor=anchor)
    _marks(out, record, axis, node_signs)
    runs = segments(record.steps)
    _lane(
        out, [[(s.t, s.value) for s in run if s.value is not None] for run in runs], axis,
        top=values_top, height=VALUES, label=record.metric, class_="value", repeats=again(record.steps),
    )  # fmt: skip
    _lane(
        out, [rates(record, axis)], axis, top=rates_top, height=RATES, label="steps/s", class_="rate", zero=True
    )  # fmt: skip
    return (
        f'<svg class="{name}" viewBox="0 0 {axis.width} {bottom + AXIS}" width="{axis.width}" '
        f'height="{bottom + AXIS}" role="img"><title>{escape(summary(record))}</title>{"".join(out.parts)}</svg>'
    )


def summary(record: Record) -> str:
    """The picture in one sentence, for who does not see it."""
    count = record.interrupted
    return (
        f"Run {record.name}: {record.metric} and steps per second over time, {record.saved} checkpoints, "
        f"{count} interruption{'' if count == 1 else 's'}; the table below lists them."
    )


def _marks(out: _Drawing, record: Record, axis: Axis, node_signs: Sequence[Sign]) -> None:
    """The top lane: numbers of interruptions above, checkpoints and what the service says of nodes below."""
    line = MARKS - 6
    out.add("line", class_="base", x1=LEFT, x2=axis.width - RIGHT, y1=line, y2=line)
    out.add("text", "saves", class_="tick", x=LEFT - 8, y=line + 4, text_anchor="end")
    previous_x = -10.0
    for save in record.saves:
        x = axis.x(save.t)
        if x - previous_x >= 3:  # closer ones are one mark
            out.add("rect", class_="save", x=x - 3, y=line - 3, width=6, height=6)
            previous_x = x
    for sign in node_signs:
        if axis.first <= sign.t <= axis.last:
            x = axis.x(sign.t)
            mark = f"<title>{escape(sign.text)}</title>"
            out.add("path", mark, class_="node", d=f"M{x - 5:.1f} {line - 6}h10l-5 9z")
    for text, x, x_end, open_ in _numbers(record, axis):
        css_class = "number open" if open_ else "number"
        half = 8 + 3.5 * (len(text) - 1)
        middle = min(max(x, LEFT + half), axis.width - RIGHT - half)
        out.add("rect", class_=css_class, x=middle - half, y=4, width=2 * half, height=17, rx=8)
        out.add("text", escape(text), class_="inside", x=middle, y=16.5, text_anchor="middle")
        out.add("path", class_="back", d=f"M{x_end - 4:.1f} {line + 6}l4 -8 4 8z") if not open_ else None


def _numbers(record: Record, axis: Axis) -> list[tuple[str, float, float, bool]]:
    """Numbers of interruptions, neighbours too close to each other as one (`3–5`); where they begin and end."""
    groups: list[list[int]] = []
    for index, interruption in enumerate(record.interruptions):
        x = axis.x(interruption.stopped_t)
        if groups and x - axis.x(record.interruptions[groups[-1][0]].stopped_t) < 34:
            groups[-1].append(index)
        else:
            groups.append([index])
    numbers = []
    for group in groups:
        earliest, latest = record.interruptions[group[0]], record.interruptions[group[-1]]
        number = group[0] + record.first_number
        text = str(number) if len(group) == 1 else f"{number}–{group[-1] + record.first_number}"
        x_end = axis.x(latest.resumed_t) if latest.resumed_t is not None else axis.last
        numbers.append((text, axis.x(earliest.stopped_t), x_end, latest.resumed_t is None))
    return numbers


def segments(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps cut where one is done a second time."""
    out: list[list[Step]] = []
    for step in steps:
        if not out or step.step <= out[-1][-1].step:
            out.append([])
        out[-1].append(step)
    return out


def again(steps: Sequence[Step]) -> list[tuple[float, float]]:
    """Time and value of each step that was done before."""
    highest, repeated = -1, []
    for step in steps:
        if step.step <= highest and step.value is not None:
            repeated.append((step.t, step.value))
        highest = max(highest, step.step)
    return repeated


def rates(record: Record, axis: Axis) -> list[tuple[float, float | None]]:
    """Steps per second, averaged over equal parts of the axis; 0 where no step was done.

    A part is long enough for about two steps, so that single steps do not look like noise.
    """
    usual = record.usual_rate or 1.0
    span = axis.last - axis.first
    count = max(1, min(POINTS // 4, int(span * usual / 2) or 1))
    width = span / count
    done = [0.0] * count
    for before, after in record.advances():
        # a step counts for the parts that it lies in, by share
        length = max(after.t - before.t, 1e-9)
        first_part, last_part = (min(count - 1, max(0, int((t - axis.first) / width))) for t in (before.t, after.t))
        for part in range(first_part, last_part + 1):
            begin, part_end = axis.first + part * width, axis.first + (part + 1) * width
            share = max(0.0, min(part_end, after.t) - max(begin, before.t)) / length
            done[part] += share * (after.step - before.step)
    return [(axis.first + (index + 0.5) * width, value / width) for index, value in enumerate(done)]


Point = tuple[float, float | None]


def thinned(points: Sequence[tuple[float, float]], *, limit: int = POINTS) -> list[tuple[float, float]]:
    """At most about `limit` points; of each part the lowest and the highest, so that a spike stays."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(len(points) * 2 / limit)
    out: list[tuple[float, float]] = []
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        low, high = min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])
        out += [low] if low == high else sorted([low, high])
    return out


def _lane(
    out: _Drawing,
    lines: Sequence[Sequence[Point]],
    axis: Axis,
    *,
    top: float,
    height: float,
    label: str,
    class_: str,
    zero: bool = False,
    repeats: Sequence[tuple[float, float]] = (),
) -> None:
    values = [value for line in lines for _, value in line if value is not None]
    out.add("text", escape(label), class_="label", x=LEFT, y=top - 3, text_anchor="start")
    out.add("line", class_="base", x1=LEFT, x2=axis.width - RIGHT, y1=top + height, y2=top + height)
    if not values:
        out.add("text", "no figures", class_="tick", x=LEFT + 8, y=top + height / 2)
        return
    low, high = (0.0 if zero else min(values)), max(values)
    if high <= low:
        high = low + (abs(low) or 1.0)

    def y(value: float) -> float:
        return top + height - (value - low) / (high - low) * (height - 8) - 1

    for value in (low, high) if zero else (low, (low + high) / 2, high):
        out.add("line", class_="grid", x1=LEFT, x2=axis.width - RIGHT, y1=y(value), y2=y(value))
        out.add("text", output.figure(value), class_="tick", x=LEFT - 8, y=y(value) + 4, text_anchor="end")
    for line in lines:
        points = thinned([(t, value) for t, value in line if value is not None])
        if len(points) == 1:
            out.add("circle", class_=f"{class_} dot", cx=axis.x(points[0][0]), cy=y(points[0][1]), r=2)
        elif points:
            path = " ".join(f"{axis.x(t):.1f},{y(value):.1f}" for t, value in points)
            out.add("polyline", class_=class_, points=path)
    for t, value in thinned(repeats, limit=POINTS // 2):
        out.add("circle", class_="again", cx=axis.x(t), cy=y(value), r=2)

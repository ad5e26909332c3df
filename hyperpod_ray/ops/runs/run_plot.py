"""Pictures of runs: loss over steps as SVG, and in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from hyperpod_ray.ops.journal.run_state import State
from hyperpod_ray.ops.steering import printable

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e")
"""Readable on white, and for people who do not see red and green apart."""
MARKS = "●▲■◆★✚"
Point = tuple[float, float]


def points(state: State) -> list[Point]:
    """Steps with a loss."""
    return [(float(step), loss) for _, step, loss in state.curve if loss is not None]


def svg(states: Sequence[State], *, title: str) -> str:
    """Loss over steps of some runs, one line each. A document of its own, without scripts and fonts."""
    lines = [points(state) for state in states]
    first_step, last_step, low, high = _frame(lines)

    def x(value: float) -> float:
        return LEFT + (value - first_step) / (last_step - first_step) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" fill="#222222">{escape(title)}</text>',
    ]
    for tick in _ticks(low, high):
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#dddddd"/>',
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#444444">{tick:.4g}</text>',
        ]
    for tick in _ticks(first_step, last_step):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#444444">{tick:.6g}</text>'
        )
    parts.append(
        f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - BOTTOM + 36}" text-anchor="middle" fill="#444444">step</text>'
    )
    parts.append(f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end" fill="#444444">loss</text>')
    for index, (state, line) in enumerate(zip(states, lines, strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in line)
        dashes = f' stroke-dasharray="{4 + 2 * index}"' if index >= len(COLOURS) else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>')
        for step in _restores(state):
            parts.append(
                f'<line x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{colour}" '
                f'stroke-dasharray="2 4"><title>{escape(state.training.name)}: restored at step {step}</title></line>'
            )
        parts.append(
            f'<text x="{LEFT + 8 + 200 * (index % 4)}" y="{HEIGHT - 8 - 15 * (index // 4)}" fill="{colour}">'
            f"— {escape(state.training.name)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _restores(state: State) -> list[int]:
    """Steps from which a run continued, but its first start."""
    steps = [event.step for event in state.training.events if event.kind == "restore" and event.step]
    return [step for step in steps if step]


def text(states: Sequence[State], *, width: int, height: int = 16) -> str:
    """The same for a terminal: each run has a mark of its own."""
    lines = [points(state) for state in states]
    first_step, last_step, low, high = _frame(lines)
    columns = max(20, width - 12)
    grid = [[" "] * columns for _ in range(height)]
    for index, line in enumerate(lines):
        for step, loss in line:
            column = round((step - first_step) / (last_step - first_step) * (columns - 1))
            row = round((high - loss) / (high - low) * (height - 1))
            grid[row][column] = MARKS[index % len(MARKS)]
    rows = []
    for number, cells in enumerate(grid):
        value = high - (high - low) * number / (height - 1)
        label = f"{value:9.4g}" if number in (0, height // 2, height - 1) else " " * 9
        rows.append(f"{label} │{''.join(cells).rstrip()}")
    rows.append(f"{'':9} └{'─' * columns}")
    rows.append(f"{'':11}{first_step:<.6g}{f'step {last_step:.6g}':>{columns - len(f'{first_step:.6g}')}}")
    rows += [
        f"{'':11}{MARKS[index % len(MARKS)]} {printable(state.training.name)}" for index, state in enumerate(states)
    ]
    return "\n".join(rows) + "\n"


def _frame(lines: Sequence[Sequence[Point]]) -> tuple[float, float, float, float]:
    steps = [step for line in lines for step, _ in line] or [0.0]
    losses = [loss for line in lines for _, loss in line] or [0.0]
    first_step, last_step, low, high = min(steps), max(steps), min(losses), max(losses)
    if last_step <= first_step:
        last_step = first_step + 1
    if high <= low:
        high, low = high + max(abs(high), 1.0) / 10, low - max(abs(low), 1.0) / 10
    return first_step, last_step, low, high


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, about five."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    start = math.ceil(low / step)
    return [number * step for number in range(start, math.floor(high / step + 1e-9) + 1)]

"""Every row of `preflight`, word for word: `preflight.txt`, for a person to read. `make records` writes it.

An account in which the environment can be deployed stands with all of its rows, those that are ok too. Each state of
`account_states.yaml` stands with the rows that it changes.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from hyperpod_ray.core import today as day

FILE = Path(__file__).with_name("preflight.txt")
DAY = "2026-11-22"
Json = dict[str, Any]


@functools.cache
def recorded() -> dict[str, list[str]]:
    """The file's lines by state."""
    by_state: dict[str, list[str]] = {}
    state: list[str] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            state = by_state.setdefault(line.removeprefix("# "), [])
        else:
            state.append(line)
    return by_state


def row_of(check: Any) -> str:
    """One line of the file."""
    words = (check.check, check.result, check.what, check.expected, check.fix)
    return " | ".join(words).replace("\n", " ")


def lines_of(rows: list[str], base: list[str]) -> list[str]:
    """What a state changes: rows that are new, and rows that are gone."""
    return [*(f"+ {row}" for row in rows if row not in base), *(f"- {row}" for row in base if row not in rows)]


def write() -> int:
    """Write the file."""
    from tests.ops import test_ops_preflight_states as states

    os.environ[day.VARIABLE] = DAY
    lines = []
    for name in states.FILES:
        lines += [f"# good: {name}", *states.good(name)]
    for name, state in states.STATES.items():
        lines += [f"# {name}", *states.changed(state, states.checks(state))]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())

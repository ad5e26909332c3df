"""Host names in Slurm's short form: `ip-10-0-1-[5,7-9]` is four of them."""

from __future__ import annotations

import re
from itertools import product

_RANGES = re.compile(r"\[([^\]]*)\]")
NOBODY = ("(null)", "None assigned", "n/a")
_APART = re.compile(r",(?![^\[]*\])")


def expanded(text: str) -> tuple[str, ...]:
    """Every name of a list, in its order, as `scontrol show hostnames` prints them; empty for none."""
    names: list[str] = []
    for part in _APART.split(text.strip()):
        if not part or part in NOBODY:
            continue
        pieces = _RANGES.split(part)  # outside, inside, outside, …
        choices = [_numbers(piece) if index % 2 else [piece] for index, piece in enumerate(pieces)]
        names += ["".join(chosen) for chosen in product(*choices)]
    return tuple(names)


def _numbers(ranges: str) -> list[str]:
    """`01-03,7` as numbers with their zeros."""
    numbers = []
    for part in ranges.split(","):
        low, dash, high = part.partition("-")
        width = len(low)
        numbers += [str(number).zfill(width) for number in range(int(low), int(high) + 1)] if dash else [part]
    return numbers

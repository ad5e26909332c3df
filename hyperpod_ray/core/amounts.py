"""Numbers as people write them: `70B`, `1.5T`, `$1,234.50`, `3 h 20 min`."""

from __future__ import annotations

import re

_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def amount(text: str) -> float:
    """The number that a text of the shape `AMOUNT` stands for.

    Raises:
        ValueError: It has another shape; the message says which is expected.
    """
    from hyperpod_ray.core.shapes import AMOUNT  # noqa: PLC0415  (it loads pydantic, which a help needs nowhere)

    if not re.match(AMOUNT.pattern, text, flags=re.ASCII):
        raise ValueError(f"'{text}' is not {AMOUNT.expected}")
    unit = text[-1] if text[-1] in _FACTORS else ""
    return float(text.removesuffix(unit)) * _FACTORS[unit]


def shown(number: float) -> str:
    """A number with at most three digits and its unit: `70B`, `1.5T`."""
    for unit, factor in reversed(_FACTORS.items()):
        if number >= factor and unit:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def dollars(value: float | None, *, mark: str = "", sign: str = "$", cents: bool = True) -> str:
    """An amount in US dollars.

    Args:
        value: None where it is not known.
        mark: What stands before an estimate.
        sign: Empty below a heading that says what the numbers are.
        cents: Whether to write them.
    """
    if value is None:
        return "unknown"
    return f"{mark if value else ''}{sign}{value:,.{2 if cents else 0}f}"


def duration(seconds: float) -> str:
    """A span for people, to the second below a minute and a half: `42 s`, `12 min`, `3 h 20 min`, `5 d`."""
    rounded = max(0, round(seconds))
    if rounded < 90:
        return f"{rounded} s"
    if rounded < 5400:
        return f"{rounded // 60} min"
    if rounded < 172800:
        return f"{rounded // 3600} h {rounded % 3600 // 60:02} min"
    return f"{rounded // 86400} d"


def span(seconds: float) -> str:
    """A duration of which parts of a second count: `0.27 s`, `8.1 s`, and from ten seconds on as `duration`."""
    return f"{seconds:.2g} s" if seconds < 9.95 else duration(seconds)

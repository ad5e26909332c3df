"""Large numbers as people write them: `70B`, `4M`, `1.5T`, `1e12`."""

from __future__ import annotations

import re

from hyperpod_ray.core.shapes import AMOUNT

_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def amount(text: str) -> float:
    """The number that a text of the shape `AMOUNT` stands for.

    Raises:
        ValueError: It has another shape; the message says which is expected.
    """
    if not re.match(AMOUNT.pattern, text):
        raise ValueError(f"'{text}' is not {AMOUNT.expected}")
    unit = text[-1] if text[-1] in _FACTORS else ""
    return float(text.removesuffix(unit)) * _FACTORS[unit]


def shown(number: float) -> str:
    """A number with at most three digits and its unit: `70B`, `1.5T`."""
    for unit, factor in reversed(_FACTORS.items()):
        if number >= factor and unit:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"

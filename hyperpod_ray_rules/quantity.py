"""Kubernetes quantities (`500m`, `1Gi`, `1e3`) as exact numbers.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from fractions import Fraction

_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_WITH_EXPONENT = re.compile(_NUMBER.pattern + r"(?:[eE][+-]?[0-9]+)?")


def number(quantity: object) -> Fraction:
    """The value of a quantity; raises ValueError when it is none."""
    text = str(quantity).strip()
    for suffix in ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E"):
        if text.endswith(suffix) and _NUMBER.fullmatch(text[: -len(suffix)]):
            return Fraction(text[: -len(suffix)]) * _SUFFIX[suffix]
    # Fraction reads 1/2, 1_000 and spaces too
    if not _WITH_EXPONENT.fullmatch(text):
        raise ValueError(f"{text!r} is no quantity of Kubernetes")
    return Fraction(text)

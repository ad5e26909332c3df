"""Quantities as Kubernetes reads them, in the form that it writes: `1000m` is `1`, `0.1Gi` is `107374182400m`.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go, suffix.go and amount.go.
"""

from __future__ import annotations

import re
from fractions import Fraction

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX = "unable to parse quantity's suffix"
# the numbers may be missing: `Gi` is zero
_TEXT = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST = (1 << 63) - 1
_NANO = Fraction(1, 10**9)
_DIGITS = 18


def canonical(text: str) -> str:
    """The form in which an API server stores a quantity.

    Raises:
        ValueError: It is none.
    """
    text = text.strip(" ")  # of other white space JSON has an escape, which is not stripped
    match = _TEXT.fullmatch(text)
    if not text or match is None:
        raise ValueError(FORMAT)
    whole, part, suffix = match["whole"] or "0", match["part"] or "", match["suffix"]
    base, exponent, exponential = _suffix(suffix)
    amount = Fraction(int(whole + part), 10 ** len(part)) * Fraction(base) ** exponent
    if _kept(whole, part, base, exponent):
        return text
    # away from zero, as Go rounds: a request below a nano is one nano, and never nothing
    amount = -(-amount // _NANO) * _NANO
    if base == 2:
        amount = min(amount, Fraction(_LARGEST))
    if not amount:
        return "0"
    sign = "-" if match["sign"] == "-" else ""
    if base == 2 and amount >= 1024 and amount.denominator == 1:
        return sign + _binary(int(amount))
    return sign + _decimal(amount, exponential=exponential)


def _suffix(suffix: str) -> tuple[int, int, bool]:
    """Base and exponent that a suffix stands for, and whether it is written as an exponent."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], False
    if suffix in _BINARY:
        return 2, _BINARY[suffix], False
    if re.fullmatch(r"[eE][+-]?[0-9]+", suffix, re.ASCII):
        return 10, int(suffix[1:]), True
    raise ValueError(_SUFFIX)


def _kept(whole: str, part: str, base: int, exponent: int) -> bool:
    """Whether the text that was sent stays."""
    digits = whole + part
    if base == 2:
        room = 15 - len(whole) - int(exponent * 3 / 10) - 1
        return not part and room >= 0 and int(digits) & 7 != 0
    scale = exponent - len(part)
    short = len(digits) <= _DIGITS and scale >= -9
    return short and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _binary(amount: int) -> str:
    exponent = 0
    while amount % 1024 == 0:
        amount, exponent = amount // 1024, exponent + 10
    suffix = next((name for name, power in _BINARY.items() if power == exponent), "")
    return f"{amount}{suffix}"


def _decimal(amount: Fraction, *, exponential: bool) -> str:
    exponent = 0
    while amount.denominator != 1:
        amount, exponent = amount * 1000, exponent - 3
    count = int(amount)
    while count % 1000 == 0:
        count, exponent = count // 1000, exponent + 3
    if exponential:
        return f"{count}e{exponent}" if exponent else str(count)
    suffix = next((name for name, power in _DECIMAL.items() if power == exponent), "")
    return f"{count}{suffix}"

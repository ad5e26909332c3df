"""Formats of text in the schemas of CustomResourceDefinitions: what each accepts, and what a rule reads of it.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go, k8s.io/kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import email.utils
import ipaddress
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import jsonschema

_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{%d}}-?%s{_HEX}{{%d}}-?{_HEX}{{12}}"
_HOSTNAME = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_CARD = (
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
)
_COLOR_PART = r"(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
_PATTERNS = {
    "bsonobjectid": f"(?i){_HEX}{{24}}",
    "creditcard": _CARD,
    "hexcolor": r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "mac": rf"(?i){_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}(([:-]{_HEX}{{2}}){{2}})?|({_HEX}{{4}}\.){{2,3}}{_HEX}{{4}}",
    "rgbcolor": rf"rgb\(\s*{_COLOR_PART}\s*,\s*{_COLOR_PART}\s*,\s*{_COLOR_PART}\s*\)",
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "uuid": "(?i)" + _UUID % ("", 4, "", 4),
    "uuid3": "(?i)" + _UUID % ("3", 3, "", 4),
    "uuid4": "(?i)" + _UUID % ("4", 3, "[89ab]", 3),
    "uuid5": "(?i)" + _UUID % ("5", 3, "[89ab]", 3),
    "k8sshortname": r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    "k8slongname": r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
}
_UNITS = (
    (1e-9, ("ns",), "nano"),
    (1e-6, ("us", "µs"), "micro"),
    (1e-3, ("ms",), "milli"),
    (1.0, ("s",), "sec"),
    (60.0, ("m",), "min"),
    (3600.0, ("h", "hr"), "hour"),
    (86400.0, ("d",), "day"),
    (604800.0, ("w", "wk"), "week"),
)
_GO_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_PART = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(.\d+)?(z|[+-]\d{2}:\d{2})", re.IGNORECASE)


def seconds(text: str, *, go: bool = False) -> float | None:
    """A duration in seconds, as Go or Scala write it, or only as Go does; None where it is none."""
    if _GO_DURATION.fullmatch(text):
        factors = {name: factor for factor, names, _ in _UNITS for name in names}
        total = sum(float(amount) * factors[unit] for amount, unit in _GO_PART.findall(text))
        return -total if text.startswith("-") else total
    if go:
        return None
    parts = [
        int(amount) * factor
        for amount, word in _PART.findall(text)
        for factor, names, prefix in _UNITS
        if word.lower() in names or word.lower().startswith(prefix)
    ]
    return sum(parts) if parts else None


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2006-01-02")


def _is_time(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    return _is_date(day) and bool(_TIME.fullmatch(clock))


def _reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    """Whether a reader takes a text."""

    def readable(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return readable


def _is_uri(text: str) -> bool:
    """A URI that a request may name: absolute, or a path from the root."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    plain = not re.search(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})", text)
    return plain and bool(parts.scheme or text.startswith("/"))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return bool(text)


def _is_book(*lengths: int) -> Callable[[str], bool]:
    """Whether a text is the number of a book, with ten or thirteen digits."""

    def judge(text: str) -> bool:
        digits = re.sub(r"[\s-]", "", text)
        if len(digits) not in lengths or not re.fullmatch(r"\d+[\dX]", digits):
            return False
        values = [10 if digit == "X" else int(digit) for digit in digits]
        if len(digits) == 10:
            return sum((10 - index) * value for index, value in enumerate(values)) % 11 == 0
        return "X" not in digits and sum(value * (3 if i % 2 else 1) for i, value in enumerate(values)) % 10 == 0

    return judge


_JUDGES: dict[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": lambda text: "/" in text and _reads(lambda t: ipaddress.ip_network(t, strict=False))(text),
    "date": _is_date,
    "datetime": _is_time,
    "duration": lambda text: seconds(text) is not None,
    "email": lambda text: "@" in email.utils.parseaddr(text)[1].strip("@"),
    "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)) and len(text) <= 255,
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "isbn": _is_book(10, 13),
    "isbn10": _is_book(10),
    "isbn13": _is_book(13),
    "uri": _is_uri,
    **{name: lambda text, p=re.compile(pattern): bool(p.fullmatch(text)) for name, pattern in _PATTERNS.items()},  # type: ignore[misc]
}


def _normalized(name: str) -> str:
    return name.replace("-", "")


def supported(name: Any) -> str:
    """The name of a format that the API server checks; empty for another, which it ignores."""
    plain = _normalized(str(name))
    return plain if plain in _JUDGES else ""


def matches(name: str, text: str) -> bool:
    """Whether a text has a format that `supported` names."""
    return _JUDGES[name](text)


def _checker() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name, judge in _JUDGES.items():
        checker.checks(name)(lambda value, judge=judge: not isinstance(value, str) or judge(value))
    return checker


CHECKER = _checker()
"""Checks the formats that `supported` names."""


def read(value: Any, name: Any) -> Any:
    """A text as a rule reads it: a time, a duration or bytes where its format says so."""
    form = supported(name) if isinstance(value, str) else ""
    if not form or not _JUDGES[form](value):
        return value
    if form == "duration":
        return datetime.timedelta(seconds=seconds(value) or 0)
    if form == "date":
        return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
    if form == "datetime":
        return datetime.datetime.fromisoformat(value.upper())
    return base64.b64decode(value) if form == "byte" else value

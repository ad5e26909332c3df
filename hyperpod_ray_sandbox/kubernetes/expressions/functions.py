"""Kubernetes' own functions of the expression language, as Python over plain values.

A quantity, an address, a network, a version or a URL is a map with one key that names its type, so that the evaluator
compares it like any other value. https://kubernetes.io/docs/reference/using-api/cel/#cel-community-libraries
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.expressions import authorizer, named_formats
from hyperpod_ray_sandbox.kubernetes.expressions.signatures import FORMATS

Json = dict[str, Any]

_QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


class CallError(ValueError):
    """A function that cannot take its argument."""


# ---- quantities ----------------------------------------------------------------------------------------------------


def _is_quantity(text: str) -> bool:
    """Whether a text is a quantity."""
    return bool(_QUANTITY.fullmatch(text))


def _quantity(text: str) -> Json:
    """A quantity, in one form for each amount."""
    if not _is_quantity(text):
        raise CallError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    amount = number(text)  # a fraction: `500m` is 1/2
    return {"quantity": str((Decimal(amount.numerator) / amount.denominator).normalize())}


def _amount(value: Any) -> Decimal:
    """The number that a quantity stands for."""
    if isinstance(value, int):
        return Decimal(value)
    return Decimal(value["quantity"])


def _wrapped(amount: Decimal) -> Json:
    return {"quantity": str(amount.normalize())}


def _is_integer(value: Json) -> bool:
    """Whether a quantity is a whole number of 64 bits."""
    amount = _amount(value)
    return amount == amount.to_integral_value() and -(2**63) <= amount < 2**63


def _integer(value: Json) -> int:
    if not _is_integer(value):
        raise CallError("cannot convert value to integer")
    return int(_amount(value))


# ---- lists ---------------------------------------------------------------------------------------------------------


def _extreme(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def extreme(values: list[Any]) -> Any:
        if not values:
            raise CallError(f"{choose.__name__} called on empty list")
        return choose(values)

    return extreme


def _first_index(values: list[Any], value: Any) -> int:
    return values.index(value) if value in values else -1


def _last_index(values: list[Any], value: Any) -> int:
    return max((i for i, v in enumerate(values) if v == value), default=-1)


def _sorted(values: list[Any]) -> bool:
    """Whether a list ascends."""
    return all(a <= b for a, b in itertools.pairwise(values))


def _contains(values: list[Any], part: list[Any]) -> bool:
    return all(value in values for value in part)


def _distinct(values: list[Any]) -> list[Any]:
    """The values without those that stand there before."""
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _flat(values: list[Any], depth: int = 1) -> list[Any]:
    """The values, and those of lists among them."""
    if depth < 0:
        raise CallError("level must be non-negative")
    parts = [_flat(v, depth - 1) if isinstance(v, list) and depth else [v] for v in values]
    return [value for part in parts for value in part]


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise CallError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


# ---- text ----------------------------------------------------------------------------------------------------------


def _find(text: str, pattern: str) -> str:
    """The first match of a pattern, or nothing."""
    match = re.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches = [match[0] for match in re.finditer(pattern, text)]
    return matches if limit < 0 else matches[:limit]


def _format(pattern: str, values: list[Any]) -> str:
    """Fill a pattern's clauses from a list."""
    remaining = list(values)

    def clause(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        if not remaining:
            raise CallError("index out of range while formatting string")
        return _formatted(match[2], match[1], remaining.pop(0))

    return re.sub(r"%%|%(\.\d+)?([sdfeboxX])", clause, pattern)


def _formatted(letter: str, precision: str | None, value: Any) -> str:
    if letter == "s":
        return _written(value)
    if letter == "d" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if letter in "fe" and isinstance(value, int | float):
        return f"%{precision or '.6'}{letter}" % value
    if letter in "boxX" and isinstance(value, int):
        return format(value, letter)
    if letter in "xX" and isinstance(value, str):
        return value.encode().hex().upper() if letter == "X" else value.encode().hex()
    raise CallError(f"error during formatting: %{letter} cannot show {value!r}")


def _written(value: Any) -> str:
    """A value as `%s` writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_literal(key)}:{_literal(member)}" for key, member in value.items())) + "}"
    return str(value)


def _literal(value: Any) -> str:
    """A value in a list or map as `%s` writes it."""
    if isinstance(value, str):
        return _quoted(value)
    return f"{value:.6f}" if isinstance(value, float) else _written(value)


def _replace(text: str, part: str, instead: str, limit: int = -1) -> str:
    return text.replace(part, instead, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Parts of a text between separators."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    alone = len(text) if limit < 0 else limit - 1
    return [*text[:alone], *filter(None, [text[alone:]])]


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
            "\\": "\\\\", '"': '\\"'}  # fmt: skip


def _quoted(text: str) -> str:
    """A text as a literal of the language."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _character(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CallError(f"index out of range: {at}")
    return text[at : at + 1]


def _substring(text: str, start: int, stop: int | None = None) -> str:
    """A part of a text; the end is not in it."""
    limit = len(text) if stop is None else stop
    if not 0 <= start <= limit <= len(text):
        raise CallError(f"invalid substring range. start: {start}, end: {limit}")
    return text[start:limit]


def _index(text: str, part: str, start: int = 0) -> int:
    return start if not part else text.find(part, _in_range(text, start))


def _last(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    return start if not part else text.rfind(part, 0, _in_range(text, start) + len(part))


def _in_range(text: str, at: int) -> int:
    if not 0 <= at < max(len(text), 1):
        raise CallError(f"index out of range: {at}")
    return at


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    """Change the letters of ASCII, and no other."""
    return lambda text: re.sub("[A-Za-z]", lambda letter: change(letter[0]), text)


# ---- URLs ----------------------------------------------------------------------------------------------------------


def _is_url(text: str) -> bool:
    """Whether a text is an absolute URL or path."""
    if re.search(r"[\x00-\x1f\x7f]", text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if " " in parts.netloc or " " in parts.scheme:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path))


def _url(text: str) -> Json:
    if not _is_url(text):
        raise CallError(f"URL parse error during conversion from string: {text}")
    return {"url": text}


def _host(value: Json) -> str:
    return urlsplit(value["url"]).netloc.rpartition("@")[2]


def _hostname(value: Json) -> str:
    return re.sub(r":\d*$", "", _host(value)).strip("[]")


def _port(value: Json) -> str:
    match = re.search(r":(\d*)$", _host(value))
    return match[1] if match else ""


# ---- addresses and networks ----------------------------------------------------------------------------------------


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IP address without zone."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CallError(f'IP Address "{text}" parse error during conversion from string') from None
    if "%" in text or (address.version == 6 and address.ipv4_mapped):
        raise CallError(f'IP Address "{text}" is an IPv4-mapped IPv6 address or has a zone, which is not allowed')
    return address


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """A network; the bits behind its prefix may be set."""
    if "/" not in text:
        raise CallError(f'CIDR "{text}" parse error during conversion from string')
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise CallError(f'CIDR "{text}" parse error during conversion from string') from None


def _reads(read: Callable[..., Any]) -> Callable[..., bool]:
    def readable(*words: Any) -> bool:
        try:
            read(*words)
        except CallError:
            return False
        return True

    return readable


def _ip(value: Any) -> Any:
    return _address(value["ip"] if isinstance(value, dict) else value)


def _cidr(value: Any) -> Any:
    return _network(value["cidr"] if isinstance(value, dict) else value)


# ---- versions ------------------------------------------------------------------------------------------------------


def _semver(text: str) -> Json:
    """A semantic version."""
    if not _VERSION.fullmatch(text):
        raise CallError(f"invalid semantic version: {text}")
    return {"semver": text}


def _normalized(text: str) -> str:
    """A version without `v` and leading zeros, with its three numbers."""
    numbers, separator, rest = re.sub(r"([-+])", r"\n\1", text.removeprefix("v"), count=1).partition("\n")
    parts = [part.lstrip("0") or "0" if part.isdigit() else part for part in numbers.split(".")]
    return ".".join([*parts, "0", "0"][: max(3, len(parts))]) + (rest if separator else "")


def _maybe_normalized(text: str, normalize: bool) -> Json:
    return _semver(_normalized(text) if normalize else text)


def _rank(value: Json) -> tuple[Any, ...]:
    """What semantic versions are ordered by."""
    match = _VERSION.fullmatch(value["semver"])
    if match is None:
        raise CallError(f"not a version: {value}")
    pre = match[4]
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".")) if pre else ()
    return (int(match[1]), int(match[2]), int(match[3]), not pre, parts)


def _as_text(value: Any) -> str:
    """What `string` gives of an address, a network, a number, a truth or text."""
    return str(next(iter(value.values())) if isinstance(value, dict) else value)


def _there(value: Any) -> Any:
    if not value:
        raise CallError("optional.none() dereference")
    return value


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _compare(a: Json, b: Json) -> int:
    return _order(_rank(a), _rank(b)) if "semver" in a else _order(_amount(a), _amount(b))


_MULTICAST: dict[int, Any] = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
_ARITHMETIC: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("add", lambda a, b: _wrapped(_amount(a) + _amount(b))),
    ("sub", lambda a, b: _wrapped(_amount(a) - _amount(b))),
)
# name, whether it is a method, types of its arguments, type of its answer: "d" any, "s" text, "l" list, "i" number,
# "m" map, "b" truth, "f" fraction
FUNCTIONS: tuple[tuple[str, bool, str, str, Callable[..., Any]], ...] = (
    ("quantity", False, "s", "m", _quantity),
    ("isQuantity", False, "s", "b", _is_quantity),
    ("sign", False, "m", "i", lambda q: _order(_amount(q), Decimal(0))),
    ("isInteger", True, "m", "b", _is_integer),
    ("asInteger", True, "m", "i", _integer),
    ("asApproximateFloat", True, "m", "f", lambda q: float(_amount(q))),
    *((name, True, "mi", "m", act) for name, act in _ARITHMETIC),
    *((name, True, "mm", "m", act) for name, act in _ARITHMETIC),
    ("isLessThan", True, "mm", "b", lambda a, b: _compare(a, b) < 0),
    ("isGreaterThan", True, "mm", "b", lambda a, b: _compare(a, b) > 0),
    ("compareTo", True, "mm", "i", _compare),
    ("isSorted", True, "l", "b", _sorted),
    ("sum", True, "l", "d", sum),
    ("min", True, "l", "d", _extreme(min)),
    ("max", True, "l", "d", _extreme(max)),
    *(("indexOf", True, f"l{element_type}", "i", _first_index) for element_type in "sifbm"),
    *(("lastIndexOf", True, f"l{element_type}", "i", _last_index) for element_type in "sifbm"),
    ("charAt", True, "si", "s", _character),
    ("format", True, "sl", "s", _format),
    ("indexOf", True, "ss", "i", _index),
    ("indexOf", True, "ssi", "i", _index),
    ("lastIndexOf", True, "ss", "i", _last),
    ("lastIndexOf", True, "ssi", "i", _last),
    ("sets.contains", False, "ll", "b", _contains),
    ("sets.equivalent", False, "ll", "b", lambda a, b: _contains(a, b) and _contains(b, a)),
    ("sets.intersects", False, "ll", "b", lambda a, b: any(value in b for value in a)),
    ("lists.range", False, "i", "l", lambda size: list(range(size))),
    ("distinct", True, "l", "l", _distinct),
    ("flatten", True, "l", "l", _flat),
    ("flatten", True, "li", "l", _flat),
    ("slice", True, "lii", "l", _slice),
    ("sort", True, "l", "l", sorted),
    ("reverse", True, "l", "l", lambda values: values[::-1]),
    ("strings.quote", False, "s", "s", _quoted),
    ("join", True, "l", "s", "".join),
    ("join", True, "ls", "s", lambda parts, separator: separator.join(parts)),
    ("lowerAscii", True, "s", "s", _ascii(str.lower)),
    ("upperAscii", True, "s", "s", _ascii(str.upper)),
    ("replace", True, "sss", "s", _replace),
    ("replace", True, "sssi", "s", _replace),
    ("split", True, "ss", "d", _split),
    ("split", True, "ssi", "d", _split),
    ("substring", True, "si", "s", _substring),
    ("substring", True, "sii", "s", _substring),
    ("trim", True, "s", "s", str.strip),
    ("find", True, "ss", "s", _find),
    ("findAll", True, "ss", "d", _find_all),
    ("findAll", True, "ssi", "d", _find_all),
    ("url", False, "s", "m", _url),
    ("isURL", False, "s", "b", _is_url),
    ("getScheme", True, "m", "s", lambda u: urlsplit(u["url"]).scheme),
    ("getHost", True, "m", "s", _host),
    ("getHostname", True, "m", "s", _hostname),
    ("getPort", True, "m", "s", _port),
    ("getEscapedPath", True, "m", "s", lambda u: quote(urlsplit(u["url"]).path, safe="/%:@!$&'()*+,;=~")),
    ("getQuery", True, "m", "d", lambda u: parse_qs(urlsplit(u["url"]).query, keep_blank_values=True)),
    ("ip", False, "s", "m", lambda text: {"ip": str(_address(text))}),
    ("ip", True, "m", "m", lambda cidr: {"ip": str(_cidr(cidr).network_address)}),
    ("isIP", False, "s", "b", _reads(_address)),
    ("ip.isCanonical", False, "s", "b", lambda text: str(_address(text)) == text),
    ("family", True, "m", "i", lambda a: _ip(a).version),
    ("isUnspecified", True, "m", "b", lambda a: _ip(a).is_unspecified),
    ("isLoopback", True, "m", "b", lambda a: _ip(a).is_loopback),
    ("isLinkLocalUnicast", True, "m", "b", lambda a: _ip(a).is_link_local and not _ip(a).is_multicast),
    ("isLinkLocalMulticast", True, "m", "b", lambda a: _ip(a) in _MULTICAST[_ip(a).version]),
    ("isGlobalUnicast", True, "m", "b", lambda a: not (
        _ip(a).is_unspecified or _ip(a).is_loopback or _ip(a).is_multicast or _ip(a).is_link_local)),
    ("cidr", False, "s", "m", lambda text: {"cidr": f"{text.partition('/')[0]}/{_network(text).prefixlen}"}),
    ("isCIDR", False, "s", "b", _reads(_network)),
    *(("containsIP", True, signature, "b", lambda c, a: _ip(a) in _cidr(c)) for signature in ("mm", "ms")),
    *(("containsCIDR", True, signature, "b", lambda a, b: _cidr(a).version == _cidr(b).version
        and _cidr(b).subnet_of(_cidr(a))) for signature in ("mm", "ms")),
    ("masked", True, "m", "m", lambda c: {"cidr": str(_cidr(c))}),
    ("prefixLength", True, "m", "i", lambda c: _cidr(c).prefixlen),
    ("semver", False, "s", "m", _semver),
    ("semver", False, "sb", "m", _maybe_normalized),
    ("isSemver", False, "s", "b", _reads(_semver)),
    ("isSemver", False, "sb", "b", _reads(_maybe_normalized)),
    ("major", True, "m", "i", lambda v: _rank(v)[0]),
    ("minor", True, "m", "i", lambda v: _rank(v)[1]),
    ("patch", True, "m", "i", lambda v: _rank(v)[2]),
    *((part, True, "ms", "m", authorizer.narrowed(part))
        for part in ("path", "group", "resource", "subresource", "namespace", "name")),
    ("serviceAccount", True, "mss", "m", authorizer.service_account),
    ("check", True, "ms", "m", authorizer.decided),
    ("allowed", True, "m", "b", lambda decision: decision["allowed"]),
    ("errored", True, "m", "b", lambda _decision: False),
    ("error", True, "m", "s", lambda _decision: ""),
    ("reason", True, "m", "s", lambda decision: decision["reason"]),
    ("fieldSelector", True, "ms", "m", authorizer.narrowed("fieldSelector")),
    ("labelSelector", True, "ms", "m", authorizer.narrowed("labelSelector")),
    *((f"format.{name}", False, "", "m", named_formats.constant(name)) for name in FORMATS),
    ("format.named", False, "s", "d", named_formats.named),
    ("validate", True, "ms", "d", named_formats.faults),
)  # fmt: skip
HELPERS: tuple[tuple[str, bool, str, str, Callable[..., Any]], ...] = (
    # `string` of an address, a network or a number: the evaluator's own takes no maps
    *(("textof", False, letter, "s", _as_text) for letter in "mibs"),
    # what is optional there is empty here, a map without a format or a list without faults, and has methods of its own
    *((named_formats.METHOD + "hasValue", True, letter, "b", bool) for letter in "ml"),
    *((named_formats.METHOD + "value", True, letter, "d", _there) for letter in "ml"),
    *((named_formats.METHOD + name, True, letter * 2, "d", lambda value, instead: value or instead)
        for letter in "ml" for name in ("or", "orValue")),
)  # fmt: skip
"""What the evaluator calls in the place of functions and methods of its own, which take no such values."""
UNSERVED = re.compile(
    r"(?<![.\w])jsonpatch\b"
    r"|\.(transformList|transformMap|transformMapEntry|sortBy|unwrapOpt)(?=\()|optional\.unwrap(?=\()"
    r"|\.(all|exists|existsOne)(?=\(\s*\w+\s*,\s*\w+\s*,)"
)
"""What Kubernetes' expressions may name and this evaluator has not."""

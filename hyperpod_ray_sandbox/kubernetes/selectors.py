"""Label and field selectors, as in `kubectl get -l` and `--field-selector`, and as in objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.status import bad_request

Json = dict[str, Any]
Match = Callable[[dict[str, str]], bool]

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^=!\s]+)\s*(==|=|!=)\s*(\S*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*$")


def _split(text: str) -> list[str]:
    """Split at commas that are not inside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _one(part: str) -> Match:
    if match := _SET.match(part):
        key, word, values = match[1], match[2], {v.strip() for v in match[3].split(",")}
        return (lambda have: have.get(key) in values) if word == "in" else (lambda have: have.get(key) not in values)
    if match := _EQUAL.match(part):
        key, word, value = match[1], match[2], match[3]
        return (lambda have: have.get(key) != value) if word == "!=" else (lambda have: have.get(key) == value)
    if match := _EXISTS.match(part):
        absent, key = bool(match[1]), match[2]
        return lambda have: (key in have) != absent
    raise bad_request(f"unable to parse requirement: {part.strip()!r}")


def label_selector(text: str) -> Match:
    """A test for labels from the text form: `a=b,c in (d,e),!f`."""
    tests = [_one(part) for part in _split(text)]
    return lambda have: all(test(have) for test in tests)


def _field(obj: Json, path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def field_selector(text: str) -> Callable[[Json], bool]:
    """A test for objects: `metadata.name=x,status.phase!=Running` (any path; the real server knows a few per kind)."""
    requirements: list[tuple[str, bool, str]] = []
    for part in _split(text):
        match = _EQUAL.match(part)
        if not match:
            raise bad_request(f"invalid field selector: {part.strip()!r}")
        requirements.append((match[1], match[2] != "!=", match[3]))
    return lambda obj: all((_field(obj, path) == value) == equal for path, equal, value in requirements)


def _expression(expression: Json, have: dict[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return have.get(key) in values
    if operator == "NotIn":
        return have.get(key) not in values
    if operator == "Exists":
        return key in have
    if operator == "DoesNotExist":
        return key not in have
    if operator in ("Gt", "Lt") and key in have and have[key].lstrip("-").isdigit():
        return int(have[key]) > int(values[0]) if operator == "Gt" else int(have[key]) < int(values[0])
    return False


def matches(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector of an object takes these labels; an empty one takes everything, None nothing."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in exact.items()) and all(
        _expression(e, labels) for e in selector.get("matchExpressions") or []
    )


def node_term(term: Json, node: Json) -> bool:
    """Whether one nodeSelectorTerm takes a node; a term with nothing in it takes none."""
    labels = node["metadata"].get("labels") or {}
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return all(_expression(e, labels) for e in expressions) and all(_expression(e, name) for e in fields)

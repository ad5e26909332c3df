"""EventBridge's patterns and input transformer, as far as this project writes them.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html

`tests/sandbox/aws/test_mails.py` compares both with another implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_MISSING = object()
_PATH = re.compile(r"\$(\.[\w-]+(\[\d+\])?)+")
_VARIABLE = re.compile(r"<([\w.-]+)>")
_LINE = re.compile(r'"((?:[^"\\]|\\.)*)"')


class SpoiledError(Exception):
    """The service would deliver something else than the template means, or nothing."""


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether an event fits a pattern: every key of the pattern, and one of the values of each list."""
    for key, wanted in pattern.items():
        given = event.get(key, _MISSING)
        if isinstance(wanted, Mapping):
            if not matches(wanted, given if isinstance(given, Mapping) else {}):
                return False
        elif not any(_fits(choice, given) for choice in wanted):
            return False
    return True


def _fits(choice: Any, given: Any) -> bool:
    if isinstance(given, list):
        return any(_fits(choice, item) for item in given)
    if not isinstance(choice, Mapping):
        return bool(choice == given)
    ((operator, operand),) = choice.items()
    if operator == "exists":
        return (given is not _MISSING and not isinstance(given, Mapping)) is operand
    if operator == "prefix":
        return isinstance(given, str) and given.startswith(operand)
    assert operator == "anything-but", operator
    return given is not _MISSING and given not in operand


def transformed(transformer: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """What a target gets of an event: JSON, or text of lines in quotation marks of their own, as EventBridge leaves it.

    :raises SpoiledError: for a template of another form, for a path that the event has not, and for a value that ends
        its line or its quotation marks, as the service does not escape values.
    """
    paths = transformer["InputPathsMap"]
    assert len(paths) <= 100, "variables"
    values = {name: str(_at(path, event)) for name, path in paths.items()}
    template = transformer["InputTemplate"]
    if len(template) > 8192:
        raise SpoiledError(f"{len(template)} characters")
    if template.startswith("{"):  # JSON, with variables inside of its texts
        json.loads(template)
        return _VARIABLE.sub(lambda variable: _value(variable[1], values), template)
    lines = []
    for line in template.split("\n"):
        if not _LINE.fullmatch(line):
            raise SpoiledError(f"a line of text is not in quotation marks: {line}")
        lines.append(_VARIABLE.sub(lambda found: _value(found[1], values), line))
    text = "\n".join(lines)
    for line in lines:
        json.loads(line)
    return text


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise SpoiledError(f"<{name}> has no path")
    if set(values[name]) & set('"\\\n\r'):
        raise SpoiledError(f"<{name}> is {values[name]!r}")
    return values[name]


def _at(path: str, event: Any) -> Any:
    if not _PATH.fullmatch(path):
        raise SpoiledError(f"EventBridge does not evaluate {path}")
    at = event
    for part in re.findall(r"[\w-]+|\[\d+\]", path):
        try:
            at = at[int(part[1:-1])] if part.startswith("[") else at[part]
        except (KeyError, IndexError, TypeError):
            raise SpoiledError(f"the event has no {path}") from None
    if not isinstance(at, str | int):
        raise SpoiledError(f"{path} is {type(at).__name__}")
    return at


def plain(mail: str) -> list[str]:
    """The lines of a mail without their quotation marks."""
    return [json.loads(line) for line in mail.split("\n")]

"""CloudWatch Logs' JSON filter patterns, as far as this project writes them.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.iam import like

MAXIMUM = 1024
"""Characters of a pattern that the service takes."""
_TOKEN = re.compile(r'\s*(?:(&&|\|\||[(){}]|!?=)|"([^"]*)"|(\$[\w.\[\]]+))')


def matches(pattern: str, line: str) -> bool:
    """Whether a log line fits a pattern `{ $.a.b = "x*" && ($.c[0] = "y") }`."""
    assert len(pattern) <= MAXIMUM, f"{len(pattern)} characters"
    event = json.loads(line)
    tokens = _tokens(pattern)
    assert tokens[0] == "{"
    assert tokens[-1] == "}"
    result, rest = _any(tokens[1:-1], event)
    assert not rest, rest
    return result


def _tokens(pattern: str) -> list[str]:
    found, at = [], 0
    while at < len(pattern.rstrip()):
        token = _TOKEN.match(pattern, at)
        assert token, pattern[at:]
        found.append(token[1] or token[3] or f'"{token[2]}')
        at = token.end()
    return found


def _any(tokens: list[str], event: Any) -> tuple[bool, list[str]]:
    result, rest = _all(tokens, event)
    while rest and rest[0] == "||":
        right, rest = _all(rest[1:], event)
        result = result or right
    return result, rest


def _all(tokens: list[str], event: Any) -> tuple[bool, list[str]]:
    result, rest = _term(tokens, event)
    while rest and rest[0] == "&&":
        right, rest = _term(rest[1:], event)
        result = result and right
    return result, rest


def _term(tokens: list[str], event: Any) -> tuple[bool, list[str]]:
    if tokens[0] == "(":
        result, rest = _any(tokens[1:], event)
        assert rest[0] == ")", rest
        return result, rest[1:]
    selector, operator, value = tokens[:3]
    assert operator in ("=", "!=")
    given = _select(selector, event)
    # a comparison with a property that is not there is never true
    same = isinstance(given, str) and like(value.removeprefix('"'), given)
    return isinstance(given, str) and same == (operator == "="), tokens[3:]


def _select(selector: str, event: Any) -> Any:
    for part in re.findall(r"[A-Za-z_]\w*|\[\d+\]", selector.removeprefix("$")):
        if part.startswith("["):
            index = int(part[1:-1])
            event = event[index] if isinstance(event, list) and index < len(event) else None
        else:
            event = event.get(part) if isinstance(event, dict) else None
    return event

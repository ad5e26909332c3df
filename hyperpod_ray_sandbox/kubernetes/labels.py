"""The text form of label selectors, as in `kubectl get -l`: its reader, and the words of its errors.

Source: k8s.io/apimachinery/pkg/labels/selector.go
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.status import bad_request

Match = Callable[[dict[str, str]], bool]

_SPECIAL = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+|$)")
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")


class _Parser:
    """Reads one selector, word by word."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        at = 0
        while match := _SPECIAL.match(text, at):
            if not match[1]:
                break
            self.words.append(match[1])
            at = match.end()
        self.at = 0

    def look(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        word = self.look()
        self.at += 1
        return word

    def requirements(self) -> list[Match]:
        tests: list[Match] = []
        while word := self.look():
            if not _plain(word) and word != "!":
                raise bad_request(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                tests.append(self._requirement())
            except _SelectorError as error:
                raise bad_request(f"unable to parse requirement: {error}") from None
            separator = self.take()
            if not separator:
                return tests
            if separator != ",":
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            following = self.look()
            if not _plain(following) and following != "!":
                raise bad_request(f"found '{following}', expected: identifier after ','")
        return tests

    def _requirement(self) -> Match:
        """Read one requirement."""
        absent = self.look() == "!"
        if absent:
            self.take()
        key = self.take()
        if not _plain(key):
            raise _SelectorError(f"found '{key}', expected: identifier")
        if not name_forms.is_key(key):
            raise _SelectorError(f'key: Invalid value: "{key}": {name_forms.key_rule(key)}')
        if absent or self.look() in ("", ","):
            return lambda have: (key in have) != absent
        operator = self.take()
        if operator not in _OPERATORS:
            raise _SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else [self._value()]
        for index, value in enumerate(values):
            if operator in "<>":
                if not value.lstrip("-").isdigit():
                    why = "for 'Gt', 'Lt' operators, the value must be an integer"
                    raise _SelectorError(f'values[{index}]: Invalid value: "{value}": {why}')
            elif not name_forms.is_value(value):
                raise _SelectorError(
                    f'values[{index}][{key}]: Invalid value: "{value}": {name_forms.value_rule(value)}'
                )
        if operator in ("in", "notin"):
            return (
                (lambda have: have.get(key) in values)
                if operator == "in"
                else (lambda have: have.get(key) not in values)
            )
        if operator in "<>":
            return lambda have: _ordered(have.get(key), operator, int(values[0]))
        return lambda have: (have.get(key) == values[0]) == (operator != "!=")

    def _value(self) -> str:
        if self.look() in ("", ","):
            return ""
        word = self.take()
        if not _plain(word):
            raise _SelectorError(f"found '{word}', expected: identifier")
        return word

    def _values(self) -> list[str]:
        """Read the values between parentheses."""
        word = self.take()
        if word != "(":
            raise _SelectorError(f"found '{word}' expected: '('")
        values: list[str] = []
        expecting = True
        while (word := self.take()) != ")":
            if word == ",":
                if expecting:
                    values.append("")
                expecting = True
            elif _plain(word) and expecting:
                values.append(word)
                expecting = False
            else:
                rest = "',', or identifier" if expecting else "',' or ')'"
                raise _SelectorError(f"found '{word}', expected: {rest}")
        if expecting and values:
            values.append("")
        return values or [""]


class _SelectorError(Exception):
    """One requirement that cannot be read."""


def _plain(word: str) -> bool:
    return bool(word) and word not in ("==", "!=", "=", "!", "<", ">", "(", ")", ",")


def _ordered(have: str | None, operator: str, bound: int) -> bool:
    if have is None or not have.lstrip("-").isdigit():
        return False
    return int(have) > bound if operator == ">" else int(have) < bound


def label_selector(text: str) -> Match:
    """A test for labels from the text form: `a=b,c in (d,e),!f,g>1`; raises 400."""
    tests = _Parser(text).requirements()
    return lambda have: all(test(have) for test in tests)

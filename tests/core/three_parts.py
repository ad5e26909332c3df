"""What a message in three parts looks like: no part is empty, none contains another, none is long."""

from __future__ import annotations

import re
from typing import Protocol

LONGEST = 25
"""Words of a sentence. A list of values is one word: its length is not the writer's."""
_LIST = re.compile(r"[^\s,]+(?:, [^\s,]+)+")
_QUOTED = re.compile(r"'[^']*'|`[^`]*`|\{.*\}|\([^)]*\)")


class InParts(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def expected(self) -> str: ...
    @property
    def fix(self) -> str: ...


def words(sentence: str) -> int:
    """Words, where a list of values, a quoted value and a remark in parentheses are one each."""
    return len(_LIST.sub("list", _QUOTED.sub("value", sentence)).split())


def assert_form(message: InParts) -> None:
    parts = {"what": message.what, "expected": message.expected, "fix": message.fix}
    for name, text in parts.items():
        assert text, f"{name} is empty: {parts}"
        assert text == text.strip(), parts
        assert not text.endswith((".", ",", ":")), parts
        assert "Expected " not in text, parts
        assert "Fix:" not in text, parts
        for sentence in re.split(r"[.?] (?=[A-Z])|; ", text):
            assert words(sentence) <= LONGEST, sentence

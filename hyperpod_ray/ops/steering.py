"""What would steer a terminal, in text of others."""

from __future__ import annotations

import re

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys or cannot show: controls but tab and newline, and those that turn text around."""


def printable(text: str) -> str:
    """Text of others as a terminal may get it: what would steer the terminal is written as its code.

    A run's name, its errors and its metrics are what somebody's job wrote into its folder.
    """
    return STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)

"""What an answer is worth: 1 where it ends with the number that the data names, and a little for each digit before."""

from __future__ import annotations

import re
from typing import Any


def reward(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Rewards of the completions, in their order; `answer` is the column of the data."""
    return [_of(text, right) for text, right in zip(completions, answer, strict=True)]


def _of(text: str, right: str) -> float:
    numbers = re.findall(r"-?\d+", text)
    return float(bool(numbers) and numbers[-1] == right) + 0.01 * sum(map(str.isdigit, text))

"""What a plan answers is what `answers.txt` records."""

from __future__ import annotations

import difflib

import pytest

from tests.planner import said_answers


@pytest.mark.parametrize("name", said_answers.cases())
def test_an_answer_is_the_recorded_one(name: str) -> None:
    recorded, today = said_answers.recorded().get(name, []), said_answers.today(name)
    changed = [line for line in difflib.ndiff(recorded, today) if line[0] in "+-"]
    assert changed == [], "Fix: correct it, or make records"


def test_no_record_is_of_nothing() -> None:
    assert list(said_answers.recorded()) == said_answers.cases()

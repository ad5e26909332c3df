"""Figures of a plan, as people read them."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import answers


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (float("inf"), "days", "never"),
        (0.12345, "%", "12.35%"),
        (12.345, "$", "12.35"),
        (999.994, "$/h", "999.99"),
        (1000, "$/h", "1,000"),
        (-1200, "$", "-1,200"),
        (1.94, "interruptions", "1.9"),
        (2, "interruptions", "2"),
        (1234.5, "tokens/s", "1,234"),
        (6.4, "nodes", "6"),
        (9.876, "days", "9.88"),
        (10.04, "days", "10.0"),
        (123.45, "days", "123.5"),
        (1234.5, "days", "1,234"),
        (99.96, "GiB", "100.0"),
        (100.4, "GiB", "100"),
        (10.0, "GiB", "10.0"),
        (9.999, "GiB", "10"),
        (0.0123456, "GiB", "0.0123"),
    ],
)
def test_a_figure_has_the_digits_that_it_deserves(value: float, unit: str, words: str) -> None:
    assert answers.figure(value, unit) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(89.9, "89.9 s"), (90, "1.5 min"), (5399, "90 min"), (5400, "1.5 h"), (7200, "2 h")],
)
def test_seconds_are_minutes_from_a_minute_and_a_half_on(seconds: float, words: str) -> None:
    assert answers._seconds(seconds) == words

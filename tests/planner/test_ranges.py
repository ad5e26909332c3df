"""Figures with a span."""

from __future__ import annotations

import math

import pytest

from hyperpod_ray.planner.ranges import Range


def test_a_figure_without_a_span_is_known() -> None:
    assert Range.exact(3.0) == (3.0, 3.0, 3.0)
    assert Range.exact(3.0).known
    assert not Range(1, 2, 3).known


@pytest.mark.parametrize(
    ("values", "central", "expected"),
    [((1.0, 5.0), 2.0, (1.0, 2.0, 5.0)), ((5.0, 4.0), 2.0, (2.0, 2.0, 5.0)), ((1.0,), 9.0, (1.0, 9.0, 9.0))],
)
def test_a_span_holds_its_central_figure(
    values: tuple[float, ...], central: float, expected: tuple[float, ...]
) -> None:
    assert Range.over(*values, central=central) == expected


def test_a_falling_function_turns_the_ends_round() -> None:
    assert Range(1, 2, 4).map(lambda value: 8 / value) == (2, 4, 8)
    assert Range(1, 2, 4).map(math.sqrt) == (1, math.sqrt(2), 2)

"""Numbers as people write and read them."""

from __future__ import annotations

import pytest

from hyperpod_ray.core.amounts import amount, dollars, duration, shown, span


@pytest.mark.parametrize(
    ("text", "number"), [("70B", 70e9), ("1.5T", 1.5e12), ("4M", 4e6), ("128k", 128e3), ("512", 512.0)]
)
def test_a_text_is_its_number_and_back(text: str, number: float) -> None:
    assert amount(text) == number
    assert shown(number) == text


def test_three_digits_are_shown() -> None:
    assert [shown(number) for number in (1_234_567, 999.0, 1000.0, 0.1234)] == ["1.23M", "999", "1k", "0.123"]


@pytest.mark.parametrize("text", ["", "70 B", "seventy", "-1B", "1b", "1BB"])
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        amount(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"), (0, "0 s"), (42.4, "42 s"), (89.4, "89 s"), (90, "1 min"), (5399, "89 min"), (5400, "1 h 30 min"),
        (12_000, "3 h 20 min"), (172_799, "47 h 59 min"), (172_800, "2 d"), (5 * 86_400 + 1, "5 d"),
    ],
)  # fmt: skip
def test_a_span_is_as_long_as_a_person_counts(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(0.274, "0.27 s"), (8.1, "8.1 s"), (9.94, "9.9 s"), (9.95, "10 s")])
def test_parts_of_a_second_count_below_ten(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_dollars() -> None:
    assert dollars(1234.5) == "$1,234.50"
    assert dollars(1234.5, cents=False) == "$1,234"
    assert dollars(1234.5, mark="~", sign="") == "~1,234.50"
    assert dollars(0.0, mark="~") == "$0.00", "nothing is no estimate"
    assert dollars(None, mark="~") == "unknown"

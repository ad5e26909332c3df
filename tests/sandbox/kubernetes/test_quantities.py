"""Quantities as an API server stores them; the values are those of apimachinery's own quantity_test.go."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes import quantities


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("0", "0"), ("0n", "0"), ("-0.0", "0"), ("1000m", "1"), ("0.1Gi", "107374182400m"),
        ("1024Ki", "1Mi"), ("1023Ki", "1023Ki"), ("1.5Gi", "1536Mi"), ("1000", "1k"), ("1e3", "1e3"),
        ("1E6", "1E6"), ("100k", "100k"), ("0.5", "500m"), ("1n", "1n"), ("0.1n", "1n"), ("+5", "+5"), ("-2Ki", "-2Ki"),
        ("12.500", "12.500"),
    ],
)  # fmt: skip
def test_it_is_stored_as(sent: str, stored: str) -> None:
    """Go keeps a text of three decimals that it can read exactly, such as `1E6` and `12.500`."""
    assert quantities.canonical(sent) == stored


@pytest.mark.parametrize("text", ["0.5", "1000m", "0.1Gi", "1.5Gi", "1023Ki", "100k", "3M", "7e6", "-250m"])
def test_what_is_stored_stays_and_keeps_its_value(text: str) -> None:
    from hyperpod_ray_rules.quantity import number

    stored = quantities.canonical(text)
    assert quantities.canonical(stored) == stored
    assert number(stored) == number(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must match the regular expression"), ("1 Gi", "must match"), ("ten", "must match"), ("1,5", "must match"),
        ("1KI", "must match"), ("1Gii", "suffix"), ("5m5", "suffix"), ("1ki", "suffix"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_in_the_servers_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quantities.canonical(text)

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.review.effects import eks


def configuration(level: str, interval: int | None = 30) -> str:
    return json.dumps({"metricsProvider": {"gpu": {"level": level, "scrapeInterval": interval}}})


@pytest.mark.parametrize(
    ("before", "after", "less"),
    [
        (configuration("ADVANCED"), configuration("BASIC"), ["gpu ADVANCED → BASIC"]),
        (configuration("BASIC"), configuration("DISABLED"), ["gpu BASIC → DISABLED"]),
        (configuration("BASIC"), "{}", ["gpu BASIC → DISABLED"]),
        (configuration("BASIC"), configuration("ADVANCED"), []),
        # what lasts a minute is missed by samples further apart
        (configuration("BASIC", 30), configuration("BASIC", 60), []),
        (configuration("BASIC", 30), configuration("BASIC", 61), ["gpu every 30 s → 61 s"]),
        (configuration("BASIC", 120), configuration("BASIC", 120), []),
        (configuration("BASIC", 120), configuration("BASIC", 121), ["gpu every 120 s → 121 s"]),
        (configuration("BASIC", 300), configuration("BASIC", 120), []),
        (configuration("DISABLED", 30), configuration("DISABLED", 300), []),
    ],
)
def test_fewer_metrics(before: str, after: str, less: list[str]) -> None:
    assert eks._fewer_metrics(before, after) == less


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 77 + "…"), (3, "3")]
)
def test_a_long_value_is_cut(value: Any, text: str) -> None:
    assert eks._short(value) == text

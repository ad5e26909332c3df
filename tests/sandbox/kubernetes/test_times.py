"""Moments of RFC 3339, as Kubernetes takes them; the good and bad ones are of the RFC's section 5."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hyperpod_ray_sandbox.kubernetes import times


def test_now_is_a_moment_to_the_second() -> None:
    written = times.now()
    assert times.is_time(written)
    assert abs(datetime.now(UTC) - datetime.fromisoformat(written)) < timedelta(minutes=10)


@pytest.mark.parametrize(
    "text",
    ["1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00", "2024-02-29T00:00:00Z", "1990-12-31T15:59:59+05:30"],
)
def test_a_moment(text: str) -> None:
    assert times.is_time(text)


@pytest.mark.parametrize(
    "text",
    ["2023-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-27", "2026-11-27 10:00:00Z", "2026-11-27T10:00:00", "",
     "2026-11-27T25:00:00Z", "2026-11-27T10:00:00Z\n"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    assert not times.is_time(text)


def test_a_lease_wants_six_digits_of_the_second() -> None:
    assert times.is_micro_time("2026-11-27T10:00:00.123456Z")
    assert not times.is_micro_time("2026-11-27T10:00:00.123Z")
    assert not times.is_micro_time("2026-11-27T10:00:00Z")
    assert not times.is_micro_time("2026-02-30T10:00:00.123456Z")

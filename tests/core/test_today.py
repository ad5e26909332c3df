"""The day of the checks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from hyperpod_ray.core import today


def test_it_is_the_clocks_day_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(today.VARIABLE, raising=False)
    assert abs(today.today() - datetime.now(UTC).date()) <= timedelta(days=1)
    assert today.now().tzinfo is UTC


def test_the_variable_sets_it_and_its_time_is_the_days_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(today.VARIABLE, "2028-02-29")
    assert today.today() == date(2028, 2, 29)
    assert today.now() == datetime(2028, 2, 29, tzinfo=UTC)
    monkeypatch.setenv(today.VARIABLE, "")
    assert today.today() != date(2028, 2, 29), "an empty variable is none"


@pytest.mark.parametrize("text", ["2026-02-30", "tomorrow", "27.11.2026", "2026-11"])
def test_what_is_no_day_is_refused_with_its_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(today.VARIABLE, text)
    with pytest.raises(today.DayError, match=today.VARIABLE) as refusal:
        today.today()
    assert refusal.value.fix == "correct or unset the variable"

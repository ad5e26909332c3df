"""Rules that a user's own package brings by an entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from hyperpod_ray.core import own_checks


@pytest.fixture(autouse=True)
def fresh() -> None:
    own_checks.load.cache_clear()


def entries(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    points = [EntryPoint(name="mine", value=value, group=own_checks.GROUP) for value in values]
    monkeypatch.setattr(own_checks, "entry_points", lambda *, group: points if group == own_checks.GROUP else [])


def test_modules_of_the_group_are_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entries(monkeypatch, "json", "string")
    assert own_checks.load() == ("json", "string")
    entries(monkeypatch)
    assert own_checks.load() == ("json", "string")


@pytest.mark.parametrize("value", ["nobody.has_this_module", "json:no_such_name"])
def test_one_that_fails_stops_the_command_because_its_rule_would_be_missing(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries(monkeypatch, value)
    with pytest.raises(own_checks.OwnCheckError, match=f"checks of '{value}' cannot be imported") as refusal:
        own_checks.load()
    assert "entry point 'mine'" in refusal.value.expected
    own_checks.load.cache_clear()

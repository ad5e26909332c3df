"""The data files: every figure and fact has its source, every word is one the code knows."""

from __future__ import annotations

from hyperpod_ray.review.facts import facts
from hyperpod_ray.review.schedule import load_durations


def test_durations_have_sources_and_spans() -> None:
    table = load_durations()
    for name, entry in {**table["types"], "default": table["default"]}.items():
        assert entry["source"], name
        for action in ("create", "update", "delete"):
            low, mid, high = entry[action]
            assert 0 <= low <= mid <= high, name
    for name, entry in table["nodes"].items():
        assert entry["source"] and entry["minutes"] == sorted(entry["minutes"]), name
        assert len(entry["minutes"]) == 3, name


def test_sources_are_addresses() -> None:
    assert [address for address in facts()["sources"].values() if not address.startswith("https://")] == []

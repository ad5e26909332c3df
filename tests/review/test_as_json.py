"""The report for other programs, and what a deploy accepts of a review."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hyperpod_ray.review.report import as_json
from hyperpod_ray.review.review import review
from tests.review.as_json_helpers import nodes
from tests.review.small import write

DAY = date(2026, 11, 21)


def test_every_key_and_what_it_says(tmp_path: Path) -> None:
    """Programs of others read these keys: `FORMAT_VERSION` is raised when one goes."""
    sides = [write(tmp_path / name, {"A": nodes(count)}) for name, count in (("base", 1), ("head", 2))]
    document = as_json.data(review(*sides, base_name="main", head_name="branch", day=DAY))
    assert set(document) == {"format", "base", "head", "verdict", "words", "seconds", "environments"}
    assert (document["format"], document["base"], document["head"], document["verdict"]) == (
        3,
        "main",
        "branch",
        "safe",
    )
    (environment,) = document["environments"]
    assert set(environment) == {
        "name", "verdict", "words", "rows", "security", "money", "time", "notes", "asset_only",
    }  # fmt: skip
    assert (environment["name"], environment["verdict"]) == ("env", "safe")
    (row,) = environment["rows"]
    assert set(row) == {"effect", "code", "what", "change", "consequence", "unavailable", "source", "where"}
    assert (row["effect"], row["what"], row["change"]) == ("safe", "group workers", "count 1 → 2")
    paid = environment["money"]
    assert set(paid) == {
        "currency", "unit", "region", "prices_read", "usd_per_month", "most_usd_per_month", "usd_per_month_after",
        "budget_usd_per_month", "above_budget", "unknown", "estimated", "lines",
    }  # fmt: skip
    # 66.0484 $ per hour in the price file, and 730 hours
    assert paid["usd_per_month"] == paid["most_usd_per_month"] == pytest.approx(66.05 * 730, rel=1e-3)
    assert paid["usd_per_month_after"] == pytest.approx(2 * paid["usd_per_month"])
    assert (paid["budget_usd_per_month"], paid["above_budget"]) == (50_000, True)
    assert (paid["unknown"], paid["estimated"], paid["currency"], paid["unit"]) == (
        [],
        ["group workers"],
        "USD",
        "hour",
    )
    (line,) = paid["lines"]
    assert set(line) == {"name", "before", "after", "before_usd", "after_usd", "estimate", "source"}
    assert line["after_usd"] == 2 * line["before_usd"]
    time = environment["time"]
    assert set(time) == {"stacks", "minutes", "minutes_side_by_side", "chain", "nodes", "path", "unavailable"}
    assert (time["stacks"], len(time["minutes"])) == (1, 3)
    assert [set(step) for step in time["path"]] == [{"title", "type", "action", "minutes", "source"}]

"""`data`: each set of facts with its age and source, and an exit code that CI can ask for."""

from __future__ import annotations

import json
from datetime import date

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.core import provenance
from hyperpod_ray.core.provenance import DataSet

CURRENT = DataSet(
    what="prices", file="prices.yaml", as_of=date(2026, 10, 1), age_days=52, stale_on=date(2027, 1, 1), state="current",
    source="https://example.com/prices", note="",
)  # fmt: skip
BEHIND = DataSet(
    what="torch", file="versions.yaml", as_of=date(2026, 9, 1), age_days=82, stale_on=date(2026, 12, 1), state="behind",
    source="https://example.com/torch", note="2.14.0 is out",
)  # fmt: skip


@pytest.mark.parametrize("state", ["stale", "expired", "behind"])
def test_the_exit_code_is_3_on_request_alone(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outdated = DataSet(**{**vars(BEHIND), "state": state})
    for rows, options, code in (
        ([CURRENT, outdated], [], 0),
        ([CURRENT], ["--fail-on-stale"], 0),
        ([CURRENT, outdated], ["--fail-on-stale"], 3),
    ):
        monkeypatch.setattr(provenance, "data_sets", lambda _, rows=rows: rows)
        assert main(["data", *options]) == code, options


def test_a_row_has_age_and_state_and_its_source_stands_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[date] = []

    def data_sets(day: date) -> list[DataSet]:
        asked.append(day)
        return [CURRENT, BEHIND]

    monkeypatch.setattr(provenance, "data_sets", data_sets)
    assert main(["data"]) == 0
    assert asked == [date(2026, 11, 22)], "the day that HYPERPOD_RAY_DATE names"
    printed = capsys.readouterr().out
    table, _, below = printed.partition("prices: ")
    rows = [line.split() for line in table.splitlines()]
    assert ["torch", "versions.yaml", "2026-09-01", "82", "d", "2026-12-01", "behind"] in rows
    assert "example.com" not in table
    assert f"prices: {below}".splitlines() == [
        "prices: https://example.com/prices", "torch: https://example.com/torch", "torch: 2.14.0 is out",
    ]  # fmt: skip


def test_in_markdown_the_source_is_a_column(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(provenance, "data_sets", lambda _: [BEHIND])
    assert main(["data", "-o", "markdown"]) == 0
    printed = capsys.readouterr().out
    header, row = (line for line in printed.splitlines() if line.startswith("| ") and "--" not in line)
    assert header.rstrip(" |").endswith("Source")
    assert row.rstrip(" |").endswith("https://example.com/torch")
    assert printed.rstrip().endswith("torch: 2.14.0 is out")


def test_the_document_has_every_field(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(provenance, "data_sets", lambda _: [BEHIND])
    assert main(["data", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["day"] == "2026-11-22"
    assert data["data"] == [{**vars(BEHIND), "as_of": "2026-09-01", "stale_on": "2026-12-01"}]

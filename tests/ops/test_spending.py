from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from hyperpod_ray.ops.money import spending
from hyperpod_ray.ops.money.spend import Idle, Item, Spend, UnusedQuota
from hyperpod_ray.ops.observe.snapshot import Unseen
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.pricing import price_file
from tests.ops.money_helpers import DAY, KNOWN, PERIOD, training, usage
from tests.support import pages


def rows(text: str) -> list[list[str]]:
    """A table as cells, with the lines around it: two spaces or more part cells, and rules are left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip("─ ")]
    return [re.split(r"\s{2,}", line) for line in lines]


def test_too_little_data_is_no_forecast_and_no_error(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str]
) -> None:
    target, stub = asked
    stub.add_response("get_cost_and_usage", usage())
    stub.add_client_error("get_cost_forecast", "DataUnavailableException", "Insufficient amount of historical data")
    data = spending.actual(target, form=Format.table, day=DAY)
    assert (data["usd"], data["forecast"], data["usd_month"], data["usd_for_asking"]) == (0, None, None, 0.02)
    out, err = capsys.readouterr()
    assert "too little data" in out
    assert "Cost Explorer charges $0.01 for each request" in err.splitlines()[0]
    assert "TagKey=hyperpod-ray:environment,Status=Active" in err


def test_environments_are_compared_with_one_request(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str]
) -> None:
    target, stub = asked
    tag = "hyperpod-ray:environment"
    stub.add_response(
        "get_cost_and_usage",
        usage((f"{tag}$demo", 12.345), (f"{tag}$", 999), (f"{tag}$gone", 1)),
        {"TimePeriod": PERIOD, "Granularity": "MONTHLY", "Metrics": ["UnblendedCost"],
         "GroupBy": [{"Type": "TAG", "Key": "hyperpod-ray:environment"}]},
    )  # fmt: skip
    assert target.folder is not None
    code = spending.compare(
        "", target=lambda name: target, folder=target.folder, every=True, form=Format.json, ask=True, day=DAY
    )
    document = json.loads(capsys.readouterr().out)
    assert code == 0 and document["kind"] == "cost-comparison"
    rows = {row["environment"]: row for row in document["environments"]}
    assert (rows["demo"]["billed_usd"], rows["other"]["billed_usd"]) == (12.35, 0)
    assert rows["demo"]["gpus"] == 40 and rows["demo"]["usd_per_gpu_hour"] == pytest.approx(
        rows["demo"]["usd_per_hour"] / 40, abs=1e-4
    )


def test_the_command_compares_without_credentials(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperpod_ray.cli.main import main

    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(asked[0].folder))
    assert main(["cost", "--all"]) == 0
    out = capsys.readouterr().out
    assert "demo" in out and "other" in out and "Billed" not in out
    assert main(["cost"]) == 2
    assert "no environment is given. Expected one of demo, other, or --all" in capsys.readouterr().err


def test_so_far_says_all_of_it(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = asked
    monkeypatch.setattr(gather, "snapshot", lambda target: training())
    data = spending.so_far(target, KNOWN, form=Format.table)
    out, err = capsys.readouterr()
    for words in (
        "idle: 8 GPUs in group workers, $80.00 an hour, at most $400.00 since 2026-11-21 07:00 UTC: no Ray "
        "worker on i-",
        "32 of 40 GPUs train: ~$",
    ):
        assert words in out, out
    assert "run llama-7b-first: $" in out and "goodput 9" in out and "it is no bill" in err
    (one,) = data["runs"]
    record = pages.record()
    assert one["usd_per_useful_gpu_hour"] == pytest.approx(10 / one["goodput"], rel=0.02), "80 $ an hour of 8 GPUs"
    assert sum(one["spent_seconds"].values()) == pytest.approx(record.whole_seconds, abs=0.01)


def test_so_far_lists_each_part_with_its_price_and_its_hours(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prices of `KNOWN`: heads 0.50 $ an hour, workers 80 $, storage 0.20 $ per GiB and month of 730 hours."""
    target, _ = asked
    snapshot = replace(training(), unseen=(Unseen(source="FSx metrics", why="not allowed"),))
    monkeypatch.setattr(gather, "snapshot", lambda target: snapshot)
    data = spending.so_far(target, KNOWN, form=Format.table)
    out, err = capsys.readouterr()
    table = rows(out)
    assert table[:9] == [
        ["Name", "What is there now", "$ per hour", "Hours", "$ this month"],
        ["head", "2 × ml.m5.2xlarge", "1.00", "96.6", "48.31"],
        ["workers", "5 × ml.p5.48xlarge", "400.00", "241.3", "19,300.00"],
        ["volumes of nodes", "3500 GiB of EBS", "~0.38", "48.3", "~18.51"],
        ["fs-0123456789abcdef0", "4800 GiB, 250 MB/s per TiB", "1.32", "51.7", "67.95"],
        ["EKS control plane", "1 × cluster", "0.10", "50.0", "5.00"],
        ["NAT gateways", "1 × NAT gateway", "0.05", "50.0", "2.50"],
        ["addresses of NAT gateways", "1 × public IPv4 address", "0.01", "50.0", "0.25"],
        ["sum", "~402.85", "~19,442.52"],
    ]
    assert table[10] == ["32 of 40 GPUs train: ~$13.80 per useful GPU-hour"]
    assert "redone 6 min, saving 5 s, recovering 5 min, lost by errors 10 min" in " ".join(out.split())
    assert "waiting" not in out, "no second of it was spent on that"
    assert err.splitlines() == [
        "list prices times hours since 2026-11-01 of what is there now; nodes that are gone are not counted, and it is "
        "no bill: --actual asks for that",
        "FSx metrics could not be asked: not allowed",
    ]
    assert {key: data[key] for key in ("usd", "usd_per_hour", "estimated", "gpus", "busy_gpus", "training_gpus")} == {
        "usd": 19442.52, "usd_per_hour": 402.85, "estimated": True, "gpus": 40, "busy_gpus": 32, "training_gpus": 32,
    }  # fmt: skip
    assert data["since"] == datetime(2026, 11, 1, tzinfo=UTC)
    assert [part["name"] for part in data["items"]] == [row[0] for row in table[1:8]]
    assert data["unseen"] == snapshot.unseen
    assert (data["unknown"], data["unknown_share"], data["unjudged"]) == ([], None, [])
    assert spending.so_far(target, KNOWN, form=Format.json) == data
    assert capsys.readouterr() == ("", ""), "as JSON, the document alone"


SINCE = datetime(2026, 11, 1, tzinfo=UTC)
EIGHT = Item(name="workers", what="1 × ml.p5.48xlarge", usd_per_hour=80.0, hours=2, usd=160.0)
NOTHING_KNOWN = Item(
    name="new", what="1 × ml.p6-b300.48xlarge", usd_per_hour=None, hours=2, usd=None, elsewhere_usd_per_hour=120.0
)
SPENT = Spend(since=SINCE, at=SINCE, items=(EIGHT,), idle=(), gpus=8, busy_gpus=8, training_gpus=8, useful_gpus=6.4)
IDLE = Idle(group="workers", nodes=("i-1",), gpus=8, usd_per_hour=80.0, why="no job on", since=SINCE, usd=160.0)
MANY = tuple(f"i-{number}" for number in range(10))
QUOTA = UnusedQuota(
    team="vision", type="ml.p5.48xlarge", gpus=4, of=16, usd_per_hour=40.0, earliest=None, usd_at_most=None
)
SPENDS: dict[str, tuple[Spend, list[str]]] = {
    "all of it works": (SPENT, ["sum 80.00 160.00", "8 of 8 GPUs train: $12.50 per useful GPU-hour"]),
    "without a price": (
        replace(SPENT, items=(EIGHT, NOTHING_KNOWN), gpus=16, unpriced_gpus=8),
        [
            "known sum 80.00 160.00",
            "without a known price: new, with 8 of 16 GPUs; at the dearest known price of a Region it is $120.00 an "
            "hour, about 60 % of the whole",
            "8 of 16 GPUs train",
        ],
    ),
    "an estimate": (
        replace(SPENT, items=(replace(EIGHT, estimate=True),)),
        ["sum ~80.00 ~160.00", "8 of 8 GPUs train: ~$12.50 per useful GPU-hour"],
    ),
    "no GPU works": (
        replace(SPENT, idle=(IDLE,), training_gpus=0, useful_gpus=0.0),
        [
            "sum 80.00 160.00",
            "idle: 8 GPUs in group workers, $80.00 an hour, $160.00 since 2026-11-01 00:00 UTC: no job on i-1",
            "0 of 8 GPUs train",
        ],
    ),
    "many nodes, since when is not known": (
        replace(SPENT, idle=(replace(IDLE, nodes=MANY, since=None),)),
        [
            "sum 80.00 160.00",
            "idle: 8 GPUs in group workers, $80.00 an hour: no job on i-0, i-1, i-2, i-3, i-4, i-5, i-6, i-7 "
            "and 2 more",
            "8 of 8 GPUs train: $12.50 per useful GPU-hour",
        ],
    ),
    "as many nodes as a line names": (
        replace(SPENT, idle=(replace(IDLE, nodes=MANY[:8], since=None, usd_per_hour=None),)),
        [
            "sum 80.00 160.00",
            "idle: 8 GPUs in group workers, unknown an hour: no job on i-0, i-1, i-2, i-3, i-4, i-5, i-6, i-7",
            "8 of 8 GPUs train: $12.50 per useful GPU-hour",
        ],
    ),
    "a team's quota": (
        replace(SPENT, quotas=(QUOTA, replace(QUOTA, earliest=SINCE, usd_at_most=160.0))),
        [
            "sum 80.00 160.00",
            "quota of team vision: 4 of 16 GPUs (ml.p5.48xlarge) without a job of the team, $40.00 an hour",
            "quota of team vision: 4 of 16 GPUs (ml.p5.48xlarge) without a job of the team, $40.00 an hour, at most "
            "$160.00 since 2026-11-01 00:00 UTC",
            "8 of 8 GPUs train: $12.50 per useful GPU-hour",
        ],
    ),
    "a job that publishes nothing": (
        replace(SPENT, unjudged=("j-1", "j-2"), useful_gpus=None),
        ["sum 80.00 160.00", "at least 8 of 8 GPUs train; j-1, j-2 published no steps"],
    ),
    "whether they train is not known": (
        replace(SPENT, training_gpus=None, useful_gpus=None, busy_gpus=4),
        ["sum 80.00 160.00", "4 of 8 GPUs have work; whether they train is not known"],
    ),
    "what runs is not known": (
        replace(SPENT, training_gpus=None, useful_gpus=None, busy_gpus=None),
        ["sum 80.00 160.00", "8 GPUs are there; what runs on them is not known"],
    ),
}


@pytest.mark.parametrize("case", SPENDS)
def test_what_is_said_below_the_table(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    spent, lines = SPENDS[case]
    spending._show_spend(spent, [], Format.table)
    below = [" ".join(row) for row in rows(capsys.readouterr().out)][1 + len(spent.items) :]
    joined = " ".join(below)
    assert joined == " ".join(lines)


RUN: dict[str, Any] = {
    "run": "first", "usd": 700.526, "goodput": 0.9123, "spent_seconds": {"training": 7187.2, "waiting": 0.99},
    "lost_by_cause": {"errors": 612.0, "saves": 0.5}, "usd_per_useful_gpu_hour": 10.97,
}  # fmt: skip
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "all of it": (
        {}, "$700.53, goodput 91.2 %, $10.97 per useful GPU-hour, training 1 h 59 min, lost by errors 10 min"
    ),
    "no price": (
        {"usd": None, "usd_per_useful_gpu_hour": None},
        "unknown, goodput 91.2 %, training 1 h 59 min, lost by errors 10 min",
    ),
    "no step yet": ({"goodput": None, "spent_seconds": {}, "lost_by_cause": {}, "usd_per_useful_gpu_hour": None},
                    "$700.53"),
    "goodput of nothing is a goodput": (
        {"goodput": 0.0, "usd_per_useful_gpu_hour": 0.0, "spent_seconds": {"recovering": 1}, "lost_by_cause": {"a": 1}},
        "$700.53, goodput 0.0 %, $0.00 per useful GPU-hour, recovering 1 s, lost by a 1 s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_what_is_said_of_a_run(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes, words = RUNS[case]
    spending._show_spend(SPENT, [{**RUN, **changes}], Format.table)
    assert " ".join(capsys.readouterr().out.split()).endswith(f"per useful GPU-hour run first: {words}")


BILLED: dict[str, tuple[dict[str, Any], str]] = {
    "with its bounds": (
        {"PredictionIntervalLowerBound": "500", "PredictionIntervalUpperBound": "620.4"},
        "1,600.50 $ (rest of the month 500 to 620, 80 %)",
    ),
    "without bounds": ({}, "1,600.50 $"),
    "with one bound": ({"PredictionIntervalLowerBound": "500"}, "1,600.50 $"),
}


@pytest.mark.parametrize("case", BILLED)
def test_the_bill_as_it_is_shown(case: str, asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str]) -> None:
    target, stub = asked
    bounds, forecast = BILLED[case]
    period = {"TimePeriod": {"Start": "2026-11-21", "End": "2026-12-01"}, "MeanValue": "560", **bounds}
    services = usage(("Amazon FSx", 40), ("Amazon SageMaker", 1000.5), ("Tax", 0.001), ("Credit", -0.004))
    stub.add_response("get_cost_and_usage", services)
    stub.add_response(
        "get_cost_forecast", {"Total": {"Amount": "560", "Unit": "USD"}, "ForecastResultsByTime": [period]}
    )
    data = spending.actual(target, form=Format.table, day=DAY)
    out, err = capsys.readouterr()
    assert rows(out) == [
        ["Service", "$ this month"], ["Amazon SageMaker", "1,000.50"], ["Amazon FSx", "40.00"], ["sum", "1,040.50"],
        [f"forecast of the whole month: {forecast}"],
    ]  # fmt: skip
    assert err.splitlines() == [
        "Cost Explorer charges $0.01 for each request; this takes two or more",
        "billed 2026-11-01 to 2026-11-21 by tag hyperpod-ray:environment=demo, up to 24 hours old, still an estimate; "
        "asking cost $0.02",
    ]
    assert (data["since"], data["until"]) == ("2026-11-01", "2026-11-22")
    assert (data["usd"], data["usd_month"], data["usd_for_asking"]) == (1040.5, 1600.5, 0.02)


def test_environments_are_compared_in_a_table(
    asked: tuple[Target, Stubber], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At full count: 2 x 0.50 $, 5 x 80 $, and what is there once; of a group without a price, the sum says so."""
    target, stub = asked
    folder = target.folder
    assert folder is not None
    unknown = (folder / "other.yaml").read_text().replace("000000000001", "000000000002")
    (folder / "other.yaml").write_text(unknown.replace("ml.p5.48xlarge, count: 5", "ml.g5.48xlarge, count: 5"))
    monkeypatch.setattr(price_file, "recorded", lambda _folder: KNOWN)
    stub.add_response("get_cost_and_usage", usage(("hyperpod-ray:environment$demo", 1234.567)))
    arguments: dict[str, Any] = {"folder": folder, "every": True, "form": Format.table, "day": DAY}
    assert spending.compare("", target=lambda name: target, ask=True, **arguments) == 0
    out, err = capsys.readouterr()
    head, demo, other = rows(out)
    assert head[:6] == ["Environment", "Region", "GPUs", "$ per hour", "$ per month", "$ per GPU-hour"]
    assert head[6] == "Billed this month"
    assert demo[:3] == ["demo", "us-west-2", "40"]
    assert demo[3:] == ["~401.87", "~293,363", "~10.05", "1,234.57"]
    assert other[:3] == ["other", "us-west-2", "40"] and other[-1] == "unknown", "another account's bill is not there"
    assert other[3].endswith(" and more") and other[4].endswith(" and more") and len(other) == 6
    assert err.splitlines() == [
        "Cost Explorer charges $0.01 for each request; this takes one or more",
        "prices of the dated file, at full count; ~: an estimate",
    ]
    assert spending.compare("", target=lambda name: target, ask=False, **{**arguments, "form": Format.json}) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = document["environments"]
    assert document["currency"] == "USD"
    assert (first["complete"], second["complete"]) == (True, False)
    assert (first["usd_per_gpu_hour"], second["usd_per_gpu_hour"]) == (pytest.approx(401.87 / 40, abs=1e-3), None)
    assert (first["account"], second["account"]) == ("000000000001", "000000000002")
    assert (first["billed_usd"], first["estimated"]) == (None, True)

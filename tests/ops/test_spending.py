from __future__ import annotations

import json

import pytest
from botocore.stub import Stubber

from hyperpod_ray.ops.money import spending
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.money_helpers import DAY, KNOWN, PERIOD, training, usage
from tests.support import pages


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

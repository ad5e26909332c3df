"""`cost` against a Pricing API that answers over HTTP as AWS's does: filters, pages, products in JSON within JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.money import cost
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.pricing.prices import Cost, Line, Price, Prices
from tests.ops.money_helpers import DAY, KNOWN
from tests.ops.price_list_helpers import PriceList, fill, run
from tests.ops.world import environment_text
from tests.support import pages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.yaml").write_text(environment_text())
    return tmp_path


def test_todays_prices_are_summed_and_no_estimate_is_among_them(
    folder: Path, price_list: tuple[PriceList, str]
) -> None:
    listed, endpoint = price_list
    fill(listed)
    result = run(folder, "-o", "json", endpoint=endpoint)
    assert result.code == 0, result.err
    lines = {line["name"]: line for line in result.json["lines"]}
    throughput = str(lines["storage"]["what"]).split(", ")[1].split()[0]
    storage = lines["storage"]["quantity"] * {"125": 0.1, "250": 0.2, "500": 0.4}[throughput] / 730
    assert lines["head"]["usd_per_hour"] == 1
    assert lines["workers"]["usd_per_hour"] == 9
    assert lines["storage"]["usd_per_hour"] == pytest.approx(storage)
    assert lines["EKS control plane"]["usd_per_hour"] == 0.1
    assert lines["NAT gateways"]["usd_per_hour"] == 0.04
    assert lines["addresses of NAT gateways"]["usd_per_hour"] == 0.005
    # HyperPod bills usage types of its own for volumes: the price of EBS is an estimate of theirs
    assert (result.json["complete"], result.json["estimated"]) == (True, ["volumes of nodes"])
    volumes = lines["volumes of nodes"]["usd_per_hour"]
    assert volumes == pytest.approx(lines["volumes of nodes"]["quantity"] * 0.073 / 730)
    assert "data through NAT gateways (0.04 $ per GB)" in result.json["not_counted"]
    later = lines.get("EKS extended support", {"usd_per_hour": 0})["usd_per_hour"]  # once the default is an old version
    assert later in (0, 0.5)
    assert result.json["usd_per_hour"] == pytest.approx(10 + volumes + storage + 0.145 + later, abs=1e-4)
    assert lines["workers"]["source"] == "AWS Price List, USW2-Cluster:ml.g5.8xlarge, SKU SKU1"
    assert any("NextToken" in request for request in listed.asked)


def test_update_keeps_todays_prices_beside_the_environments(folder: Path, price_list: tuple[PriceList, str]) -> None:
    listed, endpoint = price_list
    fill(listed)
    first = run(folder, "--update", endpoint=endpoint)
    assert first.code == 0, first.err
    assert "us-west-2 ml.g5.8xlarge: 3.0 (new)" in first.out
    assert str(folder / "prices_usd.yaml") in first.err
    offline = run(folder, "--offline", "-o", "json")
    assert offline.json["lines"][1]["usd_per_hour"] == 9
    assert offline.json["estimated"] == ["volumes of nodes"]
    listed.products = [
        (*product[:3], 4.0) if product[1]["usagetype"].endswith("Cluster:ml.g5.8xlarge") else product
        for product in listed.products
    ]
    second = run(folder, "--update", "-o", "json", endpoint=endpoint)
    changed = {price["of"]: (price["before"], price["usd"]) for price in second.json["prices"]}
    assert changed["ml.g5.8xlarge"] == (3, 4)
    assert changed["ml.m5.2xlarge"] == (0.5, 0.5)
    assert run(folder, "--offline", "-o", "json").json["lines"][1]["usd_per_hour"] == 12


def test_without_the_pricing_api_estimates_are_shown_as_such(folder: Path) -> None:
    result = run(folder, "--offline")
    assert result.code == 0
    rows = {line.split("  ")[0].strip(): line for line in result.out.splitlines()}
    assert "~9.18" in rows["workers"]  # three of us-east-1's 3.06, and us-west-2 has none on file
    assert "as in us-east-1" in rows["workers"]
    assert "~" not in rows["EKS control plane"]
    assert "~" in rows["sum"]
    assert "~ workers: an estimate, as in us-east-1 (AmazonSageMaker 20260916170501, SKU YQXD4PZ3BTQ5N2P4" in result.err


def test_what_nobody_knows_stays_unknown(folder: Path) -> None:
    (folder / "demo.yaml").write_text(environment_text().replace("us-west-2", "eu-north-1").replace("usw2", "eun1"))
    result = run(folder, "--offline", "-o", "json")
    lines = {line["name"]: line["usd_per_hour"] for line in result.json["lines"]}
    assert (lines["volumes of nodes"], lines["storage"]) == (None, None)
    assert result.json["complete"] is False
    assert set(result.json) - {"schema_version", "kind", "generated_at"} == {
        "environment", "region", "currency", "hours_per_month", "lines", "usd_per_hour", "usd_per_month",
        "most_usd_per_hour", "budget_usd_per_month", "complete", "without_price", "without_price_share", "estimated",
        "not_counted",
    }, "programs of others read these"  # fmt: skip
    assert (result.json["environment"], result.json["region"]) == ("demo", "eu-north-1")
    assert result.json["without_price"] == ["volumes of nodes", "storage", "NAT gateways"]
    said = run(folder, "--offline").err
    assert "no price is known for volumes of nodes, storage" in said
    assert "~ workers: an estimate, 1.06 times us-east-1, as EC2 asks (AmazonSageMaker 20260916170501" in said


def test_nothing_is_written_when_nobody_answers(folder: Path) -> None:
    result = run(folder, "--update")
    assert result.code == 1
    assert "nothing is written" in result.err
    assert not (folder / "prices_usd.yaml").exists()
    assert run(folder, "--update", "--offline").code == 2


def test_a_broken_price_file_ends_with_what_is_wrong(folder: Path) -> None:
    (folder / "prices_usd.yaml").write_text("instances: {us-west-2: {ml.m5.2xlarge: {usd: -1, as_of: 2026-01-01}}}")
    result = run(folder, "--offline")
    assert result.code == 2
    assert "ml.m5.2xlarge.usd: input should be greater than 0" in result.err
    assert "Traceback" not in result.err


# --- what is shown, in this process ----------------------------------------------------------------------------------


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    (tmp_path / "demo.yaml").write_text(pages.FILE)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(price_file, "recorded", lambda *_: KNOWN)
    return Target(load("demo", folder=tmp_path), folder=tmp_path)


def cells(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip("─ ")]


def test_the_price_of_each_part_at_full_count(demo: Target, capsys: pytest.CaptureFixture[str]) -> None:
    """`KNOWN`: 0.50 $ and 80 $ an hour for a node, 0.20 $ a month for a GiB, 0.08 $ of a volume; 730 hours a month."""
    assert cost.run(demo, form=Format.table, offline=True, update=False) == 0
    out, err = capsys.readouterr()
    assert cells(out) == [
        ["Group", "What", "$ per hour", "$ per month", "Price of"],
        ["head", "2 × ml.m5.2xlarge", "1.00", "730.00", "2026-11-21"],
        ["workers", "5 × ml.p5.48xlarge", "400.00", "292,000.00", "2026-11-21"],
        ["volumes of nodes", "3500 GiB of EBS", "~0.38", "~280.00", "2026-11-21; as EBS gp3"],
        ["storage", "1200 GiB, 250 MB/s per TiB", "0.33", "240.00", "2026-11-21"],
        ["EKS control plane", "1 × cluster", "0.10", "73.00", "2026-11-21"],
        ["NAT gateways", "1 × NAT gateway", "0.05", "36.50", "2026-11-21"],
        ["addresses of NAT gateways", "1 × public IPv4 address", "0.01", "3.65", "2026-11-21"],
        ["sum", "~401.87", "~293,363.15"],
    ]
    said = err.splitlines()
    assert said[0].startswith("on-demand in us-west-2, 730 hours a month; not counted: data through NAT gateways, ")
    assert said[1:] == [
        "~ volumes of nodes: an estimate, as EBS gp3 (a test)",
        "next: hyperpod-ray cost demo --update; it needs credentials and writes today's prices down",
    ]
    assert cost.run(demo, form=Format.json, offline=True, update=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert {key: document[key] for key in ("kind", "environment", "region", "currency", "hours_per_month")} == {
        "kind": "cost", "environment": "demo", "region": "us-west-2", "currency": "USD", "hours_per_month": 730,
    }  # fmt: skip
    assert [line["name"] for line in document["lines"]] == [row[0] for row in cells(out)[1:-1]]
    assert (document["usd_per_hour"], document["usd_per_month"]) == (401.8673, 293363.15)
    assert document["most_usd_per_hour"] == document["usd_per_hour"]
    assert (document["complete"], document["without_price"], document["without_price_share"]) == (True, [], None)
    assert (document["estimated"], document["budget_usd_per_month"]) == (["volumes of nodes"], None)
    assert document["lines"][0]["as_of"] == "2026-11-21"


LINE = Line(
    name="workers", what="4 × a", quantity=4, unit="hour", usd_per_unit=10.0, usd_per_hour=40.0, usd_per_month=29200.0,
    as_of=DAY, source="a test",
)  # fmt: skip
SHOWN: dict[str, tuple[list[Line], list[list[str]]]] = {
    "no price": (
        [LINE, replace(LINE, name="new", usd_per_unit=None, usd_per_hour=None, usd_per_month=None, as_of=None)],
        [["workers", "4 × a", "40.00", "29,200.00", "2026-11-21"],
         ["new", "4 × a", "unknown", "unknown", "no price known"], ["known sum", "40.00", "29,200.00"]],
    ),
    "no price at all": (
        [replace(LINE, usd_per_unit=None, usd_per_hour=None, usd_per_month=None, as_of=None)],
        [["workers", "4 × a", "unknown", "unknown", "no price known"], ["known sum", "unknown", "unknown"]],
    ),
    "up to the dearest type": (
        [replace(LINE, most_usd_per_hour=60.0)],
        [["workers", "4 × a", "40.00 to 60.00", "29,200.00 to 43,800.00", "2026-11-21"],
         ["sum, of the first types", "40.00", "29,200.00"], ["sum, at most", "60.00", "43,800.00"]],
    ),
    "an estimate up to the dearest type": (
        [replace(LINE, most_usd_per_hour=60.0, estimate="of us-east-1", note="by use")],
        [["workers", "4 × a", "40.00 to ~60.00", "29,200.00 to ~43,800.00", "by use; of us-east-1"],
         ["sum, of the first types", "~40.00", "~29,200.00"], ["sum, at most", "~60.00", "~43,800.00"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_sums_say_what_they_leave_out(case: str, demo: Target, capsys: pytest.CaptureFixture[str]) -> None:
    lines, rows = SHOWN[case]
    cost._show(demo, Cost(lines=lines, not_counted=["taxes"]), Format.table)
    out, err = capsys.readouterr()
    assert cells(out)[1:] == rows
    assert ("no price is known for " in err) is ("no price" in case)
    assert ("next: hyperpod-ray cost demo --update" in err) is (case != "up to the dearest type")


def test_nodes_without_a_limit_have_no_most() -> None:
    assert cost._ranged(None, replace(LINE, unbounded=True), mark="", hours=1) == "unknown: no limit"


WRONG: dict[str, tuple[dict[str, bool], str, str, str]] = {
    "both": (
        {"offline": True, "update": True}, "--update with --offline: both given",
        "one: --update calls the Pricing API", "remove --offline",
    ),
    "every Region without an update": (
        {"offline": False, "update": False, "every_region": True}, "--every-region without --update",
        "both: it writes prices down", "cost demo --update --every-region",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_options_that_exclude_each_other(case: str, demo: Target) -> None:
    options, what, expected, fix = WRONG[case]
    with pytest.raises(OpsError) as refused:
        cost.run(demo, form=Format.table, **options)
    assert (refused.value.what, refused.value.expected, refused.value.code) == (what, expected, 2)
    assert refused.value.fix.endswith(fix)


def test_what_an_update_writes_is_said_with_what_was_there(
    demo: Target, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Prices] = []

    def write(current: Prices, *, folder: Path | None) -> Path:
        assert folder == demo.folder
        written.append(current)
        return Path("prices.yaml")

    monkeypatch.setattr(price_file, "write", write)
    new = Price(usd=90, as_of=date(2026, 11, 27), source="AWS")
    current = Prices(
        instances={"us-west-2": {"ml.p5.48xlarge": new, "ml.new": new}}, storage={"us-west-2": {250: new}}
    )  # fmt: skip
    assert cost._update(demo, current, KNOWN, form=Format.table) == 0
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [
        "us-west-2 ml.new: 90.0 (new)", "us-west-2 ml.p5.48xlarge: 90.0 (was 80.0, of 2026-11-21)",
        "us-west-2 storage of 250 MB/s per TiB: 90.0 (was 0.2, of 2026-11-21)",
    ]  # fmt: skip
    assert err == "written to prices.yaml: look at it with git diff, and commit it\n"
    assert cost._update(demo, current, KNOWN, form=Format.json) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["environment"], document["file"]) == ("cost-update", "demo", "prices.yaml")
    assert len(document["prices"]) == 3 and written == [current, current]
    assert cost._update(demo, Prices(), KNOWN, form=Format.table) == 1
    assert capsys.readouterr().err == "the Pricing API gave no price; nothing is written\n"
    assert len(written) == 2 and prices.HOURS_PER_MONTH == 730

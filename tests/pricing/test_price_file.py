"""The dated price file: what ships, what a person keeps beside their own environments, and what is written."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.pricing.price_file import PriceFileError
from hyperpod_ray.pricing.prices import Price, Prices
from hyperpod_ray_rules import data_file

DAY = date(2026, 11, 21)


def price(usd: float) -> Price:
    return Price(usd=usd, as_of=DAY, source="test")


def test_what_ships_has_date_and_source_and_known_types_and_is_no_estimate() -> None:
    known = price_file.recorded()
    assert known.instances
    for types in known.instances.values():
        assert set(types) <= set(catalogue())
    entries = [price for *_, price in known.entries()]
    assert all(entry.source and entry.as_of <= date.today() and not entry.estimate for entry in entries)
    assert set(itertools.chain.from_iterable(known.storage.values())) <= {125, 250, 500, 1000}


def test_every_line_of_the_shipped_environments_has_a_price_or_an_estimate() -> None:
    known = price_file.recorded()
    for name, day in itertools.product(("dev", "prod"), (DAY, date(2028, 1, 1))):
        found = prices.cost(load(name).plan, known, day=day)
        assert found.unknown == [], name
        assert found.usd_per_hour > 1


def test_where_regions_are_said_to_be_alike_what_is_known_of_both_is_the_same() -> None:
    """The reason that the file gives for the estimates it allows."""
    known = price_file.recorded()
    usd = {(section, region, key): price.usd for section, region, key, price in known.entries()}
    compared = 0
    for (section, region, key), here in usd.items():
        alike = known.alike.get(region)
        if alike and (section, alike.region, key) in usd:
            assert here == usd[section, alike.region, key], (region, key)
            compared += 1
    assert compared >= 3


def test_the_file_is_as_it_is_written() -> None:
    """So that `--update` changes nothing but prices."""
    path = price_file.PACKAGE / price_file.FILE
    text = path.read_text(encoding="utf-8")
    header = text[: text.index("instances:")]
    assert header.startswith("#")
    assert price_file.rendered(price_file.recorded(), header=header) == text


def test_a_file_is_parsed_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, parse = list[str](), data_file.parse

    def counted(text: str) -> object:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(data_file, "parse", counted)
    for usd in (20.25, 20.75):
        text = f"instances: {{us-west-2: {{ml.p4d.24xlarge: {{usd: {usd}, as_of: 2026-11-21, source: {tmp_path}}}}}}}"
        (tmp_path / price_file.FILE).write_text(text)
        for _ in range(2):
            assert price_file.recorded(tmp_path).instances["us-west-2"]["ml.p4d.24xlarge"].usd == usd
        assert parsed.count(text) == 1


def test_ones_own_file_goes_before_the_projects(tmp_path: Path) -> None:
    assert price_file.recorded(tmp_path) == price_file.recorded()
    path = price_file.write(Prices(instances={"us-west-2": {"ml.p4d.24xlarge": price(20.5)}}), folder=tmp_path)
    assert path == tmp_path / "prices_usd.yaml"
    assert "ml.m5" not in path.read_text()
    own, shipped = price_file.recorded(tmp_path), price_file.recorded()
    assert own.instances["us-west-2"]["ml.p4d.24xlarge"] == price(20.5)
    assert own.instances["us-east-1"] == shipped.instances["us-east-1"]
    assert own.alike == shipped.alike


def test_writing_keeps_what_is_there_and_the_comments_on_top(tmp_path: Path) -> None:
    file = tmp_path / price_file.FILE
    file.write_text(
        "# negotiated, see contract 7\n"
        "instances:\n  us-west-2:\n"
        '    ml.p5.48xlarge: {usd: 41, as_of: 2026-11-01, source: "contract 7", estimate: "after our discount"}\n'
        'storage: {us-west-2: {250: {usd: 0.2, as_of: 2026-11-01, source: "contract \\"7\\""}}}\n'
    )
    price_file.write(
        Prices(
            instances={"us-west-2": {"ml.g5.12xlarge": price(7), "ml.g5.2xlarge": price(1.515)}},
            fixed={"us-west-2": {"nat_gateway": price(0.045)}, "eu-west-1": {}},
        ),
        folder=tmp_path,
    )
    assert file.read_text() == (
        "# negotiated, see contract 7\n"
        'instances:  # HyperPod "cluster usage", per instance-hour: region, then type\n'
        "  us-west-2:\n"
        '    ml.g5.2xlarge: {usd: 1.515, as_of: 2026-11-21, source: "test"}\n'
        '    ml.g5.12xlarge: {usd: 7, as_of: 2026-11-21, source: "test"}\n'
        '    ml.p5.48xlarge: {usd: 41, as_of: 2026-11-01, source: "contract 7", estimate: "after our discount"}\n'
        "storage:  # FSx for Lustre PERSISTENT_2 SSD, per GB-month: region, then MB/s per TiB\n"
        "  us-west-2:\n"
        '    250: {usd: 0.2, as_of: 2026-11-01, source: "contract \\"7\\""}\n'
        "fixed:  # per hour; `any`: the same in every region\n"
        "  us-west-2:\n"
        '    nat_gateway: {usd: 0.045, as_of: 2026-11-21, source: "test"}\n'
    )
    assert price_file.recorded(tmp_path).instances["us-west-2"]["ml.p5.48xlarge"].estimate == "after our discount"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# a\ninstances: }", "prices_usd.yaml:2: not YAML"),
        ("instance: {}", "prices_usd.yaml: instance: extra inputs are not permitted"),
        (
            "instances: {us-west-2: {ml.p5.48xlarge: {usd: 0, as_of: 2026-01-01, source: x}}}",
            "instances.us-west-2.ml.p5.48xlarge.usd: input should be greater than 0",
        ),
        ("fixed: {any: {tea: {usd: 1, as_of: 2026-01-01, source: x}}}", "fixed.any.tea"),
        ("- 1", "input should be"),
    ],
)
def test_a_broken_file_says_where_and_what(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / price_file.FILE).write_text(text)
    with pytest.raises(PriceFileError) as caught:
        price_file.recorded(tmp_path)
    assert said in str(caught.value)

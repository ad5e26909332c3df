"""Prices: what is known, from where, and what follows from it."""

from __future__ import annotations

import json
from datetime import date

import pytest

from environments import load, prices
from environments.plan import catalogue
from environments.prices import Price, Prices

DAY = date(2026, 11, 21)


def price(usd: float) -> Price:
    return Price(usd=usd, read=DAY, source="test")


def product(usagetype: str, usd: float, unit: str = "Hrs", **attributes: str) -> str:
    """One entry of GetProducts' PriceList, in the form of the AWS Price List: a JSON document as a string."""
    term = {"priceDimensions": {"d": {"unit": unit, "pricePerUnit": {"USD": str(usd)}}}}
    return json.dumps(
        {
            "product": {"sku": "S", "attributes": {"usagetype": usagetype, **attributes}},
            "terms": {"OnDemand": {"t": term}},
        }
    )


def test_recorded_prices_have_date_and_source_and_known_types() -> None:
    known = prices.recorded()
    assert known.instances
    for region in known.instances.values():
        assert set(region) <= set(catalogue())
        assert all(item.source and item.read <= date.today() for item in region.values())


def test_cost_by_group_and_storage() -> None:
    plan = load("prod").plan
    known = Prices(
        instances={"us-west-2": {"ml.m5.2xlarge": price(0.5), "ml.p5.48xlarge": price(60)}},
        storage={"us-west-2": {1000: price(0.6)}},
    )
    found = prices.cost(plan, known)
    assert [line.name for line in found.lines] == ["head", "workers", "storage"]
    assert found.usd_per_hour == pytest.approx(3 * 0.5 + 9 * 60 + 9600 * 0.6 / 730)
    assert found.usd_per_month == pytest.approx((3 * 0.5 + 9 * 60) * 730 + 9600 * 0.6)
    assert found.unknown == []


def test_unknown_is_unknown_and_left_out() -> None:
    found = prices.cost(load("prod").plan, Prices(instances={"us-west-2": {"ml.m5.2xlarge": price(1)}}))
    assert [line.name for line in found.unknown] == ["workers", "storage"]
    assert found.usd_per_hour == 3
    elsewhere = Prices(instances={"us-east-1": {"ml.m5.2xlarge": price(1)}})
    assert prices.cost(load("prod").plan, elsewhere).usd_per_hour == 0


def test_only_the_clusters_own_usage_type_counts() -> None:
    listed = [
        product("USW2-Cluster:ml.g5.8xlarge", 3.06),
        product("USW2-Studio:ml.g5.8xlarge", 1.11),
        product("USW2-ReservedCluster:ml.g5.8xlarge", 2.22),
    ]
    found = prices.instance_price(listed, instance_type="ml.g5.8xlarge", read=DAY)
    assert found == Price(usd=3.06, read=DAY, source="AWS Price List, USW2-Cluster:ml.g5.8xlarge, SKU S")


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [product("USW2-Cluster:ml.g5.8xlarge", 3), product("USW2-Cluster:ml.g5.8xlarge", 4)],
        [product("USW2-Cluster:ml.g5.8xlarge", 3, unit="Month")],
    ],
)
def test_an_ambiguous_answer_is_no_price(listed: list[str]) -> None:
    assert prices.instance_price(listed, instance_type="ml.g5.8xlarge", read=DAY) is None


def test_storage_is_chosen_by_throughput() -> None:
    listed = [
        product("a", 0.145, "GB-Mo", throughputCapacity="125 MB/s/TiB"),
        product("b", 0.21, "GB-Mo", throughputCapacity="250 MB/s/TiB"),
    ]
    found = prices.storage_price(listed, throughput_mbs_per_tib=250, read=DAY)
    assert found is not None
    assert found.usd == 0.21


def test_todays_price_goes_before_the_recorded_one() -> None:
    today = Prices(instances={"us-west-2": {"ml.g5.8xlarge": price(3)}})
    old = Prices(instances={"us-west-2": {"ml.g5.8xlarge": price(9), "ml.m5.2xlarge": price(1)}})
    both = today.over(old).instances["us-west-2"]
    assert {kind: item.usd for kind, item in both.items()} == {"ml.g5.8xlarge": 3, "ml.m5.2xlarge": 1}

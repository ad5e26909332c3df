"""The AWS Price List: which of its products is the one that is paid."""

from __future__ import annotations

import json
from datetime import date

import pytest

from hyperpod_ray.pricing import price_list
from hyperpod_ray.pricing.prices import HourlyCharge, Price, Usage

DAY = date(2026, 11, 21)


def product(usagetype: str, usd: float, unit: str = "Hrs", **attributes: str) -> str:
    """One entry of GetProducts' PriceList, in the form of the AWS Price List: a JSON document as a string."""
    term = {"priceDimensions": {"d": {"unit": unit, "pricePerUnit": {"USD": str(usd)}}}}
    return json.dumps(
        {
            "product": {"sku": "S", "attributes": {"usagetype": usagetype, **attributes}},
            "terms": {"OnDemand": {"t": term}},
        }
    )


def test_only_the_clusters_own_usage_type_counts() -> None:
    listed = [
        product("USW2-Cluster:ml.g5.8xlarge", 3.06),
        product("USW2-Studio:ml.g5.8xlarge", 1.11),
        product("USW2-ReservedCluster:ml.g5.8xlarge", 2.22),
        product("USW2-Cluster:ml.g5.8xlarge-Reserved", 2.33),
    ]
    found = price_list.instance_price(listed, instance_type="ml.g5.8xlarge", as_of=DAY)
    assert found == Price(usd=3.06, as_of=DAY, source="AWS Price List, USW2-Cluster:ml.g5.8xlarge, SKU S")


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [product("USW2-Cluster:ml.g5.8xlarge", 3), product("USW2-Cluster:ml.g5.8xlarge", 4)],
        [product("USW2-Cluster:ml.g5.8xlarge", 3, unit="Month")],
        [product("USW2-Cluster:ml.g5.8xlarge", 0)],
    ],
)
def test_an_ambiguous_answer_is_no_price(listed: list[str]) -> None:
    assert price_list.instance_price(listed, instance_type="ml.g5.8xlarge", as_of=DAY) is None


def test_storage_is_chosen_by_throughput() -> None:
    listed = [
        product("a", 0.145, "GB-Mo", throughputCapacity="125 MB/s/TiB"),
        product("b", 0.21, "GB-Mo", throughputCapacity="250 MB/s/TiB"),
        product("c", 0.6, "GB-Mo", throughputCapacity="1000"),
    ]
    for throughput, usd in ((250, 0.21), (1000, 0.6)):
        found = price_list.storage_price(listed, throughput_mbs_per_tib=throughput, as_of=DAY)
        assert found is not None
        assert found.usd == usd


@pytest.mark.parametrize("prefix", ["", "USE1-", "USW2-", "EU-", "APN1-"])
@pytest.mark.parametrize(
    ("what", "usage", "others"),
    [
        ("eks_cluster", "AmazonEKS-Hours:perCluster", ["AmazonEKS-Hours:extendedSupport", "AmazonEKS-Local-Outposts"]),
        ("eks_extended_support", "AmazonEKS-Hours:extendedSupport", ["AmazonEKS-Hours:perCluster"]),
        ("nat_gateway", "NatGateway-Hours", ["RegionalNatGateway-Hours", "NatGateway-Prvd-Bytes"]),
        ("public_ipv4", "PublicIPv4:InUseAddress", ["PublicIPv4:IdleAddress"]),
        ("interface_endpoint", "VpcEndpoint-Hours", ["VpcEndpoint-GWLBE-Hours", "VpcEndpoint-Service-Hours"]),
    ],
)
def test_what_is_always_paid_is_chosen_by_usage_type(
    what: HourlyCharge, usage: str, others: list[str], prefix: str
) -> None:
    listed = [product(f"{prefix}{usage}", 0.1, "Hours"), *(product(f"{prefix}{other}", 9) for other in others)]
    found = price_list.fixed_price(listed, charge=what, as_of=DAY)
    assert found is not None
    assert found.usd == 0.1
    assert price_list.fixed_price(listed[1:], charge=what, as_of=DAY) is None


@pytest.mark.parametrize("prefix", ["", "USE1-", "USW2-", "EU-", "APN1-"])
@pytest.mark.parametrize(
    ("used", "usage", "unit", "others"),
    [
        ("ebs_gp3", "EBS:VolumeUsage.gp3", "GB-Mo", ["EBS:VolumeUsage.gp2", "EBS:VolumeUsage", "EBS:SnapshotUsage"]),
        ("nat_data", "NatGateway-Bytes", "GB", ["NatGateway-Prvd-Bytes", "RegionalNatGateway-Bytes"]),
    ],
)
def test_what_is_paid_by_use_is_chosen_by_usage_type_and_unit(
    used: Usage, usage: str, unit: str, others: list[str], prefix: str
) -> None:
    listed = [product(f"{prefix}{usage}", 0.08, unit), product(f"{prefix}{usage}", 9, "IOPS-Mo"),
              *(product(f"{prefix}{other}", 9, unit) for other in others)]  # fmt: skip
    price = price_list.used_price(listed, usage=used, as_of=DAY)
    assert price is not None and price.usd == 0.08
    assert price_list.used_price(listed[1:], usage=used, as_of=DAY) is None
    twice = [*listed, product(f"{prefix}{usage}", 0.09, unit)]
    assert price_list.used_price(twice, usage=used, as_of=DAY) is None, "two prices are none"

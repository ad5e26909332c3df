"""The AWS Price List: what to ask `pricing.get_products`, and which of its products is it; this module asks nobody.

A price is taken only where exactly one fits: an ambiguous answer is no price.
https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from hyperpod_ray.pricing.prices import HourlyCharge, Price, Usage

CLUSTER = "Cluster:"
"""In the usage types of HyperPod's instances: `USW2-Cluster:ml.p5.48xlarge`."""
_HOURS = {"hrs", "hours", "hour"}
_FIXED: Mapping[HourlyCharge, tuple[str, dict[str, str], str]] = {
    "eks_cluster": ("AmazonEKS", {}, "AmazonEKS-Hours:perCluster"),
    "eks_extended_support": ("AmazonEKS", {}, "AmazonEKS-Hours:extendedSupport"),
    "nat_gateway": ("AmazonEC2", {"productFamily": "NAT Gateway"}, "NatGateway-Hours"),
    "public_ipv4": ("AmazonVPC", {}, "PublicIPv4:InUseAddress"),
    "interface_endpoint": ("AmazonVPC", {}, "VpcEndpoint-Hours"),
}
"""Service, further filters, usage type without its region's prefix."""
_GB_MONTHS = {"gb-mo", "gb-month"}
_USED: Mapping[Usage, tuple[str, dict[str, str], str, set[str]]] = {
    "ebs_gp3": ("AmazonEC2", {"productFamily": "Storage", "volumeApiName": "gp3"}, "EBS:VolumeUsage.gp3", _GB_MONTHS),
    "nat_data": ("AmazonEC2", {"productFamily": "NAT Gateway"}, "NatGateway-Bytes", {"gb", "gigabytes"}),
}
"""The same of what is paid by use and has one price, and its units."""
USED: tuple[Usage, ...] = tuple(_USED)
"""What is paid by use and can be asked for."""


def instance_query(region: str, instance_type: str) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for one instance type of HyperPod."""
    return _query("AmazonSageMaker", regionCode=region, instanceType=f"{instance_type}-Cluster")


def clusters_query(region: str) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for all instance types of HyperPod in a Region."""
    query = _query("AmazonSageMaker", regionCode=region)
    usage = {"Type": "CONTAINS", "Field": "usagetype", "Value": CLUSTER}
    return {**query, "Filters": [*query["Filters"], usage]}


def by_instance_type(products: Iterable[str]) -> dict[str, list[str]]:
    """Products of `clusters_query` by the instance type that their usage type names."""
    listed: dict[str, list[str]] = {}
    for text in products:
        usage = json.loads(text).get("product", {}).get("attributes", {}).get("usagetype", "")
        name = usage.partition(CLUSTER)[2]
        listed.setdefault(name, []).append(text)
    return listed


def storage_query(region: str) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for FSx for Lustre."""
    return _query("AmazonFSx", regionCode=region, fileSystemType="Lustre", storageType="SSD")


def fixed_query(region: str, charge: HourlyCharge) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for what is always paid."""
    service, filters, _ = _FIXED[charge]
    return _query(service, regionCode=region, **filters)


def used_query(region: str, usage: Usage) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for what is paid by use, one of `USED`."""
    service, filters, *_ = _USED[usage]
    return _query(service, regionCode=region, **filters)


def _query(service: str, **filters: str) -> dict[str, Any]:
    return {
        "ServiceCode": service,
        "Filters": [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()],
    }


def instance_price(products: Iterable[str], *, instance_type: str, as_of: date) -> Price | None:
    """The on-demand price in what `get_products` answered; None unless exactly one fits.

    Studio, training and reserved usage of the same type have products of their own: their usage types differ.
    """
    return _only(products, fits=_usage(f"Cluster:{instance_type}"), units=_HOURS, as_of=as_of)


def fixed_price(products: Iterable[str], *, charge: HourlyCharge, as_of: date) -> Price | None:
    """The price per hour of what is always paid; None unless exactly one fits."""
    return _only(products, fits=_usage(_FIXED[charge][2]), units=_HOURS, as_of=as_of)


def used_price(products: Iterable[str], *, usage: Usage, as_of: date) -> Price | None:
    """The price of what is paid by use, one of `USED`; None unless exactly one fits."""
    *_, usage_type, units = _USED[usage]
    return _only(products, fits=_usage(usage_type), units=units, as_of=as_of)


def storage_price(products: Iterable[str], *, throughput_mbs_per_tib: int, as_of: date) -> Price | None:
    """The storage price of PERSISTENT_2 SSD at that throughput; None unless exactly one fits."""

    def fits(attributes: Mapping[str, str]) -> bool:
        digits = "".join(c for c in attributes.get("throughputCapacity", "").partition("M")[0] if c.isdigit())
        return digits == str(throughput_mbs_per_tib)

    return _only(products, fits=fits, units=_GB_MONTHS, as_of=as_of)


def _usage(usage_type: str) -> Callable[[Mapping[str, str]], bool]:
    """Usage types carry a region's prefix (`USW2-`), in us-east-1 sometimes none."""
    pattern = re.compile(rf"([A-Z]+[0-9]*-)?{re.escape(usage_type)}")
    return lambda attributes: bool(pattern.fullmatch(attributes.get("usagetype", "")))


def _only(
    products: Iterable[str], *, fits: Callable[[Mapping[str, str]], bool], units: set[str], as_of: date
) -> Price | None:
    by_usd: dict[float, str] = {}
    for text in products:
        product = json.loads(text)
        attributes = product.get("product", {}).get("attributes", {})
        if not fits(attributes):
            continue
        for term in product.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                usd = float(dimension.get("pricePerUnit", {}).get("USD", 0))
                if usd > 0 and dimension.get("unit", "").lower() in units:
                    by_usd[usd] = (
                        f"AWS Price List, {attributes.get('usagetype', '')}, SKU {product['product'].get('sku', '')}"
                    )
    if len(by_usd) != 1:
        return None
    usd, source = next(iter(by_usd.items()))
    return Price(usd=usd, as_of=as_of, source=source)

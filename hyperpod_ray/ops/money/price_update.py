"""Prices of every Region that has HyperPod clusters, of the Pricing API: one listing of a service for each Region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, get_args

from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.model.storage import SsdSize
from hyperpod_ray.ops import output
from hyperpod_ray.pricing import price_list
from hyperpod_ray.pricing.prices import HourlyCharge, Price, Prices, Usage

THROUGHPUTS: tuple[int, ...] = get_args(SsdSize.model_fields["throughput_mbs_per_tib"].annotation)
"""MB/s per TiB of FSx for Lustre PERSISTENT_2."""

Products = Callable[[dict[str, Any]], list[str]]
"""All products of a query."""


def every_region(products: Products, regions: Sequence[str], *, as_of: date) -> Prices:
    """Prices of all instance types, of storage, volumes, and of what is always paid; what has no price is missing.

    Args:
        products: Asks `pricing.get_products`, page by page.
        regions: Regions.
        as_of: The day.
    """
    instances: dict[str, dict[str, Price]] = {}
    storage: dict[str, dict[int, Price]] = {}
    fixed: dict[str, dict[HourlyCharge, Price]] = {}
    usage: dict[str, dict[Usage, Price]] = {}
    for number, region in enumerate(regions, 1):
        of_clusters = products(price_list.clusters_query(region))
        by_type = price_list.by_instance_type(of_clusters)
        instances[region] = _priced(
            (name, price_list.instance_price(by_type.get(name, []), instance_type=name, as_of=as_of))
            for name in sorted(catalogue())
        )
        of_storage = products(price_list.storage_query(region))
        storage[region] = _priced(
            (throughput, price_list.storage_price(of_storage, throughput_mbs_per_tib=throughput, as_of=as_of))
            for throughput in THROUGHPUTS
        )
        fixed[region] = _priced(
            (
                charge,
                price_list.fixed_price(products(price_list.fixed_query(region, charge)), charge=charge, as_of=as_of),
            )
            for charge in get_args(HourlyCharge)
        )
        usage[region] = _priced(
            (used, price_list.used_price(products(price_list.used_query(region, used)), usage=used, as_of=as_of))
            for used in price_list.USED
        )
        output.log(
            f"{region}: {len(instances[region])} instance types, {len(storage[region])} of {len(THROUGHPUTS)} storage, "
            f"{len(fixed[region])} of {len(get_args(HourlyCharge))} hourly charges, "
            f"{len(usage[region])} of {len(price_list.USED)} by use ({number} of {len(regions)})"
        )
    return Prices(instances=instances, storage=storage, fixed=fixed, usage=usage)


def _priced(pairs: Iterable[tuple[Any, Price | None]]) -> dict[Any, Price]:
    return {key: price for key, price in pairs if price is not None}

"""What an environment costs: pure arithmetic over prices that are given, dated and sourced; an unknown one stays so.

Prices come from the AWS Price List (`ops cost` asks for them) or from `prices_usd.yaml`; this module asks nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from environments.plan import Plan, read_data

HOURS_PER_MONTH = 730
"""As AWS's own calculator counts."""
FILE = "prices_usd.yaml"

Unit = Literal["hour", "GB-month"]


class Price(BaseModel):
    """One price, with its origin."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    usd: Annotated[float, Field(gt=0)]
    """US dollars per unit."""
    read: date
    """The day it was read."""
    source: Annotated[str, Field(min_length=1)]
    """Where from."""


class Prices(BaseModel):
    """Known prices by region."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    instances: dict[str, dict[str, Price]] = {}
    """Region, then instance type: per instance-hour of HyperPod ("cluster usage"), on-demand."""
    storage: dict[str, dict[int, Price]] = {}
    """Region, then MB/s per TiB: FSx for Lustre PERSISTENT_2 SSD, per GB-month."""

    def instance(self, region: str, instance_type: str) -> Price | None:
        """Per hour; None where unknown."""
        return self.instances.get(region, {}).get(instance_type)

    def file_system(self, region: str, throughput_mbs_per_tib: int) -> Price | None:
        """Per GB-month; None where unknown."""
        return self.storage.get(region, {}).get(throughput_mbs_per_tib)

    def over(self, other: Prices) -> Prices:
        """These prices, and the other's where these have none."""
        return Prices(
            instances={
                r: {**other.instances.get(r, {}), **self.instances.get(r, {})}
                for r in {*other.instances, *self.instances}
            },
            storage={
                r: {**other.storage.get(r, {}), **self.storage.get(r, {})} for r in {*other.storage, *self.storage}
            },
        )


def recorded() -> Prices:
    """The dated price file of this project."""
    return Prices.model_validate(read_data(FILE))


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that costs money."""

    name: str
    what: str
    quantity: float
    unit: Unit
    usd_per_unit: float | None = None
    usd_per_hour: float | None = None
    """None where the price is unknown."""
    usd_per_month: float | None = None
    read: date | None = None
    source: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The sum of what is known, and what is not."""

    lines: list[Line]
    not_counted: list[str] = field(default_factory=list)

    @property
    def unknown(self) -> list[Line]:
        """Lines without a price: the sums leave them out."""
        return [line for line in self.lines if line.usd_per_hour is None]

    @property
    def usd_per_hour(self) -> float:
        """Of what is known."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def usd_per_month(self) -> float:
        """Of what is known."""
        return sum(line.usd_per_month or 0.0 for line in self.lines)


NOT_COUNTED = [
    "EKS control plane",
    "NAT gateways or interface endpoints", "EBS volumes of nodes", "backups", "logs", "data transfer",
    "taxes", "savings plans and discounts",
]  # fmt: skip


def cost(plan: Plan, prices: Prices) -> Cost:
    """Cost of an environment at full count: instance groups and the shared file system."""
    region = plan.settings.region
    lines = []
    for group in plan.settings.hyperpod.instance_groups:
        price = prices.instance(region, group.type)
        note = "paid with the training plan, not by the hour" if group.training_plan_arn else ""
        note = note or ("spot costs less than this on-demand price" if group.capacity == "spot" else "")
        known = None if price is None or group.training_plan_arn else price.usd * group.count
        lines.append(
            Line(
                name=group.name,
                what=f"{group.count} × {group.type}",
                quantity=group.count,
                unit="hour",
                usd_per_unit=price.usd if price else None,
                usd_per_hour=known,
                usd_per_month=None if known is None else known * HOURS_PER_MONTH,
                read=price.read if price else None,
                source=price.source if price else "",
                note=note,
            )
        )
    storage = plan.settings.storage
    if storage.mode != "existing":
        price = prices.file_system(region, storage.throughput_mbs_per_tib)
        # FSx sells by the decimal-looking GB that its console calls GiB
        month = price.usd * storage.capacity_gib if price else None
        lines.append(
            Line(
                name="storage",
                what=f"{storage.capacity_gib} GiB, {storage.throughput_mbs_per_tib} MB/s per TiB",
                quantity=storage.capacity_gib,
                unit="GB-month",
                usd_per_unit=price.usd if price else None,
                usd_per_hour=None if month is None else month / HOURS_PER_MONTH,
                usd_per_month=month,
                read=price.read if price else None,
                source=price.source if price else "",
            )
        )
    return Cost(lines=lines, not_counted=list(NOT_COUNTED))


# --- the AWS Price List ----------------------------------------------------------------------------------------------


def instance_query(region: str, instance_type: str) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for one instance type of HyperPod."""
    return {
        "ServiceCode": "AmazonSageMaker",
        "Filters": [_is("regionCode", region), _is("instanceType", f"{instance_type}-Cluster")],
    }


def storage_query(region: str) -> dict[str, Any]:
    """Arguments of `pricing.get_products` for FSx for Lustre."""
    return {
        "ServiceCode": "AmazonFSx",
        "Filters": [_is("regionCode", region), _is("fileSystemType", "Lustre"), _is("storageType", "SSD")],
    }


def _is(name: str, value: str) -> dict[str, str]:
    return {"Type": "TERM_MATCH", "Field": name, "Value": value}


def instance_price(products: Iterable[str], *, instance_type: str, read: date) -> Price | None:
    """The on-demand price in what `get_products` answered; None unless exactly one fits.

    Studio, training and reserved usage of the same type have products of their own: their usage types differ.
    """
    return _only(
        products,
        fits=lambda attributes: attributes.get("usagetype", "").endswith(f"-Cluster:{instance_type}"),
        units={"hrs", "hours", "hour"},
        read=read,
    )


def storage_price(products: Iterable[str], *, throughput_mbs_per_tib: int, read: date) -> Price | None:
    """The storage price of PERSISTENT_2 SSD at that throughput; None unless exactly one fits."""

    def fits(attributes: Mapping[str, str]) -> bool:
        digits = "".join(c for c in attributes.get("throughputCapacity", "").partition("M")[0] if c.isdigit())
        return digits == str(throughput_mbs_per_tib)

    return _only(products, fits=fits, units={"gb-mo", "gb-month"}, read=read)


def _only(products: Iterable[str], *, fits: Any, units: set[str], read: date) -> Price | None:
    found: dict[float, str] = {}
    for text in products:
        item = json.loads(text)
        attributes = item.get("product", {}).get("attributes", {})
        if not fits(attributes):
            continue
        for term in item.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                usd = float(dimension.get("pricePerUnit", {}).get("USD", 0))
                if usd > 0 and dimension.get("unit", "").lower() in units:
                    found[usd] = (
                        f"AWS Price List, {attributes.get('usagetype', '')}, SKU {item['product'].get('sku', '')}"
                    )
    if len(found) != 1:
        return None
    usd, source = next(iter(found.items()))
    return Price(usd=usd, read=read, source=source)

"""What else could be bought for the same run: other types, Regions, spot and training plans, in one table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.planner import PlanError, data
from hyperpod_ray.planner.cluster import Bill
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.planner.ranges import DAY, Range
from hyperpod_ray.pricing import ec2
from hyperpod_ray.pricing.prices import Prices

Sort = Literal["days", "dollars", "goodput"]
REGIONS = 4
"""Cheapest other Regions that are shown."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One way to run the same training."""

    name: str
    own: bool = False
    """Whether the environment is as it is."""
    fits: str = ""
    days: Range | None = None
    dollars: Range | None = None
    goodput: float | None = None
    note: str = ""

    def key(self, sort: Sort) -> tuple[bool, float]:
        """Place in the order; what is not known comes last."""
        values = {
            "days": self.days.central if self.days else None,
            "dollars": self.dollars.central if self.dollars else None,
            "goodput": None if self.goodput is None else -self.goodput,
        }
        value = values[sort]
        return value is None or not math.isfinite(value), value if value is not None else 0.0


def table(outlook: Outlook, bill: Bill, plan: CommonPlan, prices: Prices, *, sort: Sort) -> list[Alternative]:
    """The environment as it is, and what else the same number of nodes could be, in the order that is asked for."""
    region, instance_type = outlook.cluster.region, outlook.cluster.instance_type
    rows = [_row(f"{outlook.cluster.name}, {region}", outlook, bill, is_own=True)]
    rows += _types(outlook, bill, plan, prices)
    rows += _regions(outlook, bill, prices)
    if not outlook.cluster.spot:
        spot = _row(f"{instance_type} on spot", outlook, replace(bill, node=None))
        rows.append(replace(spot, days=None, goodput=None, note="no price and no rate of interruptions is public"))
    if not outlook.cluster.on_plan:
        paid = _row(f"{instance_type} on a training plan", outlook, replace(bill, node=None))
        rows.append(replace(paid, note="SearchTrainingPlanOfferings has the price; the nodes are sure"))
    return sorted(rows, key=lambda row: row.key(sort))


def _row(name: str, outlook: Outlook, bill: Bill, *, is_own: bool = False, note: str = "") -> Alternative:
    fit = outlook.fit
    words = {"yes": "yes", "probably": "probably", "fused": "with a fused loss", "no": "no"}[fit.verdict]
    days = outlook.finish_seconds.map(lambda seconds: seconds / DAY) if outlook.finish_seconds and fit.fits else None
    price = bill.per_hour(nodes=outlook.cluster.nodes + outlook.cluster.spares)
    return Alternative(
        name=name,
        own=is_own,
        fits=words,
        days=days,
        dollars=None if days is None or price is None else days.map(lambda day: day * 24 * price),
        goodput=outlook.goodput() if fit.fits else None,
        note=note or ("" if days or not fit.fits else f"no published speed of {outlook.cluster.gpu}"),
    )


def _types(outlook: Outlook, bill: Bill, plan: CommonPlan, prices: Prices) -> Iterator[Alternative]:
    """Other types with as many accelerators a node or more, the same number of nodes."""
    current = outlook.cluster
    # a measured speed is of one type only
    job = replace(outlook.job, tokens_per_second=None, save_every_seconds=None)
    for instance_type, node in data.node_types().items():
        if instance_type == current.instance_type or not plan.known(instance_type):
            continue
        per_node = plan.type_spec(instance_type).accelerators
        if per_node < 8:
            continue
        part = replace(
            current, instance_type=instance_type, gpu=node.gpu, per_node=per_node, network_gbps=node.network_gbps,
            world=current.nodes * per_node,
        )  # fmt: skip
        price = prices.instance(current.region, instance_type)
        about = f"an estimate: {price.estimate}" if price and price.estimate else ""
        try:
            alternative = Outlook(cluster=part, job=job, rates=outlook.rates, rehearsed=outlook.rehearsed)
            yield _row(
                f"{current.nodes} × {instance_type}, {current.region}",
                alternative,
                replace(bill, node=price.usd if price else None),
                note=about,
            )
        except PlanError as error:
            yield Alternative(name=f"{current.nodes} × {instance_type}, {current.region}", note=error.what)


def _regions(outlook: Outlook, bill: Bill, prices: Prices) -> Iterator[Alternative]:
    """The same in the cheapest other Regions; everything but the nodes is taken to cost what it costs here."""
    current = outlook.cluster
    priced = []
    for region in ec2.regions(current.instance_type):
        price = prices.instance(region, current.instance_type) if region != current.region else None
        if price is not None:
            priced.append((price.usd, region, price.estimate))
    for usd, region, estimate in sorted(priced)[:REGIONS]:
        note = "nodes at that Region's price, the rest as here" + (f"; an estimate: {estimate}" if estimate else "")
        yield _row(f"{current.nodes} × {current.instance_type}, {region}", outlook, replace(bill, node=usd), note=note)

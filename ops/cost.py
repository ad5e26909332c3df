"""`cost`: dollars per hour and month by group and storage, from the Pricing API or the dated price file."""

from __future__ import annotations

from datetime import date
from typing import Any

from environments import prices
from environments.prices import Cost, Line, Price, Prices
from ops import output
from ops.clients import Target
from ops.errors import OK, explain
from ops.output import Format

PRICING_REGION = "us-east-1"
"""The Pricing API is served in few regions and answers for all."""


def run(target: Target, *, form: Format, offline: bool, update: bool) -> int:
    """Show the cost at full count. Unknown prices are named and left out of the sums."""
    known = prices.recorded()
    asked = Prices()
    if not offline:
        asked = _online(target)
        known = asked.over(known)
    if update:
        _print_entries(asked)
        return OK
    found = prices.cost(target.plan, known)
    if form is Format.json:
        data: dict[str, Any] = {
            "environment": target.name,
            "region": target.plan.settings.region,
            "currency": "USD",
            "hours_per_month": prices.HOURS_PER_MONTH,
            "lines": [{**output.plain(line), "read": str(line.read) if line.read else None} for line in found.lines],
            "usd_per_hour": round(found.usd_per_hour, 4),
            "usd_per_month": round(found.usd_per_month, 2),
            "complete": not found.unknown,
            "not_counted": found.not_counted,
        }
        output.write_json("cost", data)
    else:
        _show(target, found)
    return OK


def _online(target: Target) -> Prices:
    """Today's prices of what the environment uses; empty, with the reason on stderr, where they cannot be had."""
    settings = target.plan.settings
    region = settings.region
    instances: dict[str, Price] = {}
    storage: dict[int, Price] = {}
    try:
        client = target.aws.client("pricing", region=PRICING_REGION)

        def products(query: dict[str, Any]) -> list[str]:
            return [
                item for page in client.get_paginator("get_products").paginate(**query) for item in page["PriceList"]
            ]

        today = output.now().date()
        for kind in sorted({group.type for group in settings.hyperpod.instance_groups}):
            price = prices.instance_price(products(prices.instance_query(region, kind)), instance_type=kind, read=today)
            if price:
                instances[kind] = price
        if settings.storage.mode != "existing":
            throughput = settings.storage.throughput_mbs_per_tib
            found = prices.storage_price(
                products(prices.storage_query(region)), throughput_mbs_per_tib=throughput, read=today
            )
            if found:
                storage[throughput] = found
    except Exception as error:
        known = explain(error, environment=target.name)
        if known is None:
            raise
        output.say(f"the Pricing API could not be asked ({known.message}); prices are those of the dated file")
    return Prices(instances={region: instances}, storage={region: storage})


def _show(target: Target, found: Cost) -> None:
    table = output.table("Group", "What", ">$ per hour", ">$ per month", "Price of")
    for line in found.lines:
        table.add_row(line.name, line.what, _dollars(line.usd_per_hour), _dollars(line.usd_per_month), _origin(line))
    table.add_section()
    some = len(found.unknown) < len(found.lines)
    sums = (found.usd_per_hour, found.usd_per_month) if some else (None, None)
    table.add_row("known sum" if found.unknown else "sum", "", *(_dollars(value) for value in sums), "")
    output.console().print(table)
    settings = target.plan.settings
    output.say(
        f"on-demand in {settings.region}, {prices.HOURS_PER_MONTH} hours a month; "
        f"not counted: {', '.join(found.not_counted)}"
    )
    if found.unknown:
        unknown = ", ".join(line.name for line in found.unknown)
        output.say(
            f"no price is known for {unknown}: the sum leaves it out. "
            f"next: python -m ops cost {target.name} with credentials"
        )


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _origin(line: Line) -> str:
    if line.note:
        return line.note
    return str(line.read) if isinstance(line.read, date) else "no price known"


def _print_entries(asked: Prices) -> None:
    """Entries for the price file."""
    for section, regions in (("instances", asked.instances), ("storage", asked.storage)):
        output.write_line(f"{section}:")
        for region, entries in regions.items():
            output.write_line(f"  {region}:")
            for key, price in sorted(entries.items(), key=lambda item: str(item[0])):
                output.write_line(f'    {key}: {{usd: {price.usd}, read: {price.read}, source: "{price.source}"}}')

"""`cost`: dollars per hour and month by group, storage and what is always paid, from the Pricing API or the dated file.

`--update` keeps that file: it asks the Pricing API for what the environment uses, and writes the answers into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from hyperpod_ray.core import regions
from hyperpod_ray.core.amounts import dollars
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, ERROR, OK, OpsError, explain, guarded
from hyperpod_ray.ops.money import price_update, spending
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.pricing import price_file, price_list, prices
from hyperpod_ray.pricing.budget import findings as budget_findings
from hyperpod_ray.pricing.price_file import PriceFileError
from hyperpod_ray.pricing.prices import Cost, Line, Price, Prices

PRICING_REGION = "us-east-1"
"""The Pricing API is served in few regions and answers for all."""


def run(
    target: AnyTarget,
    *,
    form: Format,
    offline: bool,
    update: bool,
    every_region: bool = False,
    so_far: bool = False,
    actual: bool = False,
) -> int:
    """Show the cost at full count. Unknown prices are named and not summed; estimates carry a `~`.

    Args:
        target: The environment.
        form: Of the output.
        offline: Use the dated price file only.
        update: Write what the Pricing API answers into that file.
        every_region: With `update`, ask for every instance type in every Region that has HyperPod clusters.
        so_far: Show what is there now since the beginning of the month instead.
        actual: Show what AWS billed instead; costs money.
    """
    if offline and update:
        raise OpsError(
            "--update with --offline: both given",
            expected="one: --update calls the Pricing API",
            fix="remove --offline",
            code=BAD_USE,
        )
    if every_region and not update:
        raise OpsError(
            "--every-region without --update",
            expected="both: it writes prices down",
            fix=target.command("cost", "--update", "--every-region"),
            code=BAD_USE,
        )
    try:
        recorded = price_file.recorded(target.folder)
        current = Prices() if offline else _everywhere(target) if every_region else _online(target)
        if update:
            return _update(target, current, recorded, form=form)
    except PriceFileError as error:
        raise OpsError.of(error, fix="correct the file, or delete it", code=BAD_USE) from error
    today = output.now().date()
    spent: dict[str, Any] = {}
    if so_far:
        spent["so_far"] = spending.so_far(target, current.over(recorded), form=form)
    if actual:
        spent["actual"] = spending.actual(target, form=form, day=today)
    if spent and form is not Format.json:
        return OK
    estimate = prices.cost(target.plan, current.over(recorded), day=today)
    if form is Format.json:
        data: dict[str, Any] = {
            "environment": target.name,
            "region": target.plan.settings.region,
            "currency": "USD",
            "hours_per_month": prices.HOURS_PER_MONTH,
            "lines": [
                {**output.plain(line), "as_of": str(line.as_of) if line.as_of else None} for line in estimate.lines
            ],
            "usd_per_hour": round(estimate.usd_per_hour, 4),
            "usd_per_month": round(estimate.usd_per_month, 2),
            "most_usd_per_hour": None if estimate.unbounded else round(estimate.most_usd_per_hour, 4),
            "budget_usd_per_month": budget.usd_per_month if (budget := target.plan.settings.budget) else None,
            "complete": not estimate.unknown,
            "without_price": [line.name for line in estimate.unknown if line.usd_per_unit is None],
            "without_price_share": estimate.unpriced_share or None,
            "estimated": [line.name for line in estimate.estimated],
            "not_counted": estimate.not_counted,
            **spent,
        }
        output.write_json("cost", data)
    else:
        _show(target, estimate, form)
    return OK


def _online(target: AnyTarget) -> Prices:
    """Today's prices of what the environment uses; empty, with the reason on stderr, where they cannot be had."""
    settings = target.plan.settings
    region = settings.region
    instances: dict[str, Price] = {}
    storage: dict[int, Price] = {}
    fixed: dict[prices.HourlyCharge, Price] = {}
    usage: dict[prices.Usage, Price] = {}
    try:
        client = target.aws.client("pricing", region=PRICING_REGION)

        def products(query: dict[str, Any]) -> list[str]:
            return [
                product
                for page in client.get_paginator("get_products").paginate(**query)
                for product in page["PriceList"]
            ]

        today = output.now().date()
        for instance_type in sorted({name for group in target.plan.groups for name in group.types}):
            price = price_list.instance_price(
                products(price_list.instance_query(region, instance_type)), instance_type=instance_type, as_of=today
            )
            if price:
                instances[instance_type] = price
        if target.plan.ssd_file_system is not None:
            throughput = target.plan.ssd_file_system.throughput_mbs_per_tib
            storage_price = price_list.storage_price(
                products(price_list.storage_query(region)), throughput_mbs_per_tib=throughput, as_of=today
            )
            if storage_price:
                storage[throughput] = storage_price
        for charge, _ in prices.always_paid(target.plan, day=today):
            hourly = price_list.fixed_price(
                products(price_list.fixed_query(region, charge)), charge=charge, as_of=today
            )
            if hourly:
                fixed[charge] = hourly
        for used in price_list.USED:
            price = price_list.used_price(products(price_list.used_query(region, used)), usage=used, as_of=today)
            if price:
                usage[used] = price
    except Exception as error:
        explained = explain(error, environment=target.name)
        if explained is None:
            raise
        output.log(f"the Pricing API could not be asked ({explained.message}); prices are those of the dated file")
    return Prices(
        instances={region: instances}, storage={region: storage}, fixed={region: fixed}, usage={region: usage}
    )


def _everywhere(target: AnyTarget) -> Prices:
    """Today's prices of every Region; a refusal is an error, for nothing else was asked for."""
    client = target.aws.client("pricing", region=PRICING_REGION)

    def products(query: dict[str, Any]) -> list[str]:
        return [
            product for page in client.get_paginator("get_products").paginate(**query) for product in page["PriceList"]
        ]

    with guarded(target.name):
        return price_update.every_region(products, regions.regions(), as_of=output.now().date())


def _update(target: AnyTarget, current: Prices, recorded: Prices, *, form: Format) -> int:
    """Write what the Pricing API answered into the price file, and say what is new."""
    changes = list(_changes(current, recorded))
    if not changes:
        output.log("the Pricing API gave no price; nothing is written")
        return ERROR
    path = price_file.write(current, folder=target.folder)
    if form is Format.json:
        output.write_json("cost-update", {"environment": target.name, "file": str(path), "prices": changes})
        return OK
    for change in changes:
        before = "new" if change["before"] is None else f"was {change['before']}, of {change['before_as_of']}"
        output.write_line(f"{change['region']} {change['of']}: {change['usd']} ({before})")
    output.log(f"written to {path}: look at it with git diff, and commit it")
    return OK


def _changes(current: Prices, recorded: Prices) -> Iterator[dict[str, Any]]:
    """Each price that was asked for, with the one that was on file for exactly that."""
    on_file = {(section, region, key): price for section, region, key, price in recorded.entries()}
    for section, region, key, price in current.entries():
        before = on_file.get((section, region, key))
        yield {
            "region": region,
            "of": f"storage of {key} MB/s per TiB" if section == "storage" else key,
            "usd": price.usd,
            "before": before.usd if before else None,
            "before_as_of": str(before.as_of) if before else None,
        }


def _show(target: AnyTarget, cost: Cost, form: Format) -> None:
    table = output.table("Group", "What", ">$ per hour", ">$ per month", "Price of")
    for line in cost.lines:
        mark = "~" if line.estimate else ""
        amounts = (
            _ranged(value, line, mark=mark, hours=hours)
            for value, hours in ((line.usd_per_hour, 1), (line.usd_per_month, prices.HOURS_PER_MONTH))
        )
        table.add_row(line.name, line.what, *amounts, _origin(line))
    table.add_section()
    some = len(cost.unknown) < len(cost.lines)
    sums = (cost.usd_per_hour, cost.usd_per_month) if some else (None, None)
    mark = "~" if cost.estimated else ""
    grows = cost.unbounded or cost.most_usd_per_hour > cost.usd_per_hour
    name = "known sum" if cost.unknown else "sum"
    least = "without autoscaling" if target.plan.scaled_groups else "of the first types"
    table.add_row(f"{name}, {least}" if grows else name, "", *(dollars(v, mark=mark, sign="") for v in sums), "")
    if grows and not cost.unbounded:
        highest = (cost.most_usd_per_hour, cost.most_usd_per_hour * prices.HOURS_PER_MONTH)
        table.add_row(f"{name}, at most", "", *(dollars(v, mark=mark, sign="") for v in highest), "")
    output.console(form).print(table)
    settings = target.plan.settings
    output.log(
        f"on-demand in {settings.region}, {prices.HOURS_PER_MONTH} hours a month; "
        f"not counted: {', '.join(cost.not_counted)}"
    )
    for finding in budget_findings(target.plan, cost):
        output.log(f"{finding.what}. Fix: {finding.fix}")
    for line in cost.estimated:
        output.log(f"~ {line.name}: an estimate, {line.estimate} ({line.source})")
    unknown = [line.name for line in cost.unknown if line.usd_per_unit is None]
    if unknown:
        share = prices.unpriced_gpus(target.plan, unknown)
        output.log(f"no price is known for {', '.join(unknown)}: the sum leaves it out{share}; {cost.unpriced_share}")
    if unknown or cost.estimated:
        output.log(
            f"next: hyperpod-ray cost {target.name} --update; it needs credentials and writes today's prices down"
        )


def _ranged(value: float | None, line: Line, *, mark: str, hours: int) -> str:
    """A price; of what autoscaling adds and of nodes of several types, up to the most."""
    if line.unbounded:
        return "unknown: no limit"
    if value is None or line.most_usd_per_hour is None:
        return dollars(value, mark=mark, sign="")
    return f"{value:,.2f} to {dollars(line.most_usd_per_hour * hours, mark=mark, sign='')}"


def _origin(line: Line) -> str:
    dated = str(line.as_of) if isinstance(line.as_of, date) else "no price known"
    return "; ".join(part for part in (line.note or dated, line.estimate) if part)

"""`cost --so-far`, `cost --actual` and `cost --all`: what is spent, beside what the environment file costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from hyperpod_ray import core
from hyperpod_ray.core import AnyFile, names
from hyperpod_ray.core.amounts import dollars, duration
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.money import bill
from hyperpod_ray.ops.money.bill import Bill
from hyperpod_ray.ops.money.spend import Spend, run_usd, run_usd_per_useful_gpu_hour, spend
from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.pricing import price_file, prices
from hyperpod_ray.pricing.prices import Prices

NAMED = 8
"""Most nodes that one line names."""


def so_far(target: AnyTarget, rates: Prices, *, form: Format) -> dict[str, Any]:
    """Show what is there now since the beginning of the month; the JSON of it."""
    snapshot = gather.snapshot(target)
    spent = spend(target.plan, snapshot, rates)
    runs = [
        {
            "run": run.name,
            "usd": _cents(run_usd(target.plan, rates, run.record)),
            "goodput": run.goodput,
            "spent_seconds": run.spent_seconds,
            "lost_by_cause": run.lost_by_cause,
            "usd_per_useful_gpu_hour": _cents(run_usd_per_useful_gpu_hour(target.plan, rates, run)),
        }
        for run in snapshot.runs
        if run.record is not None
    ]
    if form is not Format.json:
        _show_spend(spent, runs, form)
        for line in snapshot.unseen:
            output.log(f"{line.source} could not be asked: {line.why}")
    return {
        "since": spent.since,
        "usd": _cents(spent.usd),
        "usd_per_hour": _cents(spent.usd_per_hour),
        "estimated": spent.estimate,
        "items": [asdict(line) for line in spent.items],
        "idle": [asdict(idle_group) for idle_group in spent.idle],
        "unused_quotas": [asdict(quota) for quota in spent.quotas],
        "gpus": spent.gpus,
        "busy_gpus": spent.busy_gpus,
        "training_gpus": spent.training_gpus,
        "unjudged": list(spent.unjudged),
        "usd_per_useful_gpu_hour": _cents(spent.usd_per_useful_gpu_hour),
        "runs": runs,
        "unknown": list(spent.unknown),
        "unpriced_gpus": spent.unpriced_gpus,
        "unknown_share": spent.unpriced_share or None,
        "unseen": snapshot.unseen,
    }


def actual(target: AnyTarget, *, form: Format, day: date) -> dict[str, Any]:
    """Show what AWS billed this month, and its forecast; the JSON of it."""
    target.aws.require_account()
    output.log(f"Cost Explorer charges ${bill.USD_PER_REQUEST} for each request; this takes two or more")
    month_bill = bill.bill(target, day=day)
    if form is not Format.json:
        _show_bill(target, month_bill, form)
    data: dict[str, Any] = {**output.plain(month_bill), "since": str(month_bill.since), "until": str(month_bill.until)}
    return {
        **data,
        "usd": round(month_bill.usd, 2),
        "usd_month": _cents(month_bill.usd_month),
        "usd_for_asking": round(month_bill.requests * bill.USD_PER_REQUEST, 2),
    }


def compare(
    env: str, *, target: Callable[[str], AnyTarget], folder: Path, every: bool, form: Format, ask: bool, day: date
) -> int:
    """Show every environment of a folder side by side.

    Args:
        env: An environment whose account answers for the bill. Default: the first.
        target: Makes one by its name.
        folder: Of environment files.
        every: Whether that was asked for.
        form: Of the output.
        ask: Whether to ask Cost Explorer what each was billed this month.
        day: Today, in UTC.

    Raises:
        OpsError: Neither an environment nor all of them; there is none.
    """
    environments = core.environment_names(folder=folder)
    if not every or not environments:
        raise OpsError(
            "no environment is given" if environments else f"no environment file in {folder}",
            expected=f"one of {', '.join(environments)}, or --all" if environments else "one or more",
            fix="hyperpod-ray cost ENV",
            code=BAD_USE,
        )
    files = [core.load_any(name, folder=folder) for name in environments]
    return _comparison(target(env or environments[0]), files, form=form, ask=ask, day=day)


def _comparison(target: AnyTarget, files: list[AnyFile], *, form: Format, ask: bool, day: date) -> int:
    rates = price_file.recorded(target.folder)
    billed: dict[str, float] = {}
    if ask:
        target.aws.require_account()
        output.log(f"Cost Explorer charges ${bill.USD_PER_REQUEST} for each request; this takes one or more")
        billed, _ = bill.by_environment(target, day=day)
    rows = [_compared(file, rates, billed, target, ask=ask, day=day) for file in files]
    if form is Format.json:
        output.write_json("cost-comparison", {"currency": "USD", "environments": rows})
        return OK
    table = output.table("=Environment", "Region", ">GPUs", ">$ per hour", ">$ per month", ">$ per GPU-hour",
                         *([">Billed this month"] if ask else []))  # fmt: skip
    for row in rows:
        mark = "~" if row["estimated"] else ""
        note = "" if row["complete"] else " and more"
        cells = [f"{mark}{row['usd_per_hour']:,.2f}{note}", f"{mark}{row['usd_per_month']:,.0f}{note}"]
        per_gpu = row["usd_per_gpu_hour"]
        cells.append("" if per_gpu is None else f"{mark}{per_gpu:,.2f}")
        if ask:
            cells.append("unknown" if row["billed_usd"] is None else f"{row['billed_usd']:,.2f}")
        table.add_row(row["environment"], row["region"], str(row["gpus"]), *cells)
    output.console(form).print(table)
    output.log("prices of the dated file, at full count; ~: an estimate")
    return OK


def _compared(
    file: AnyFile, rates: Prices, billed: dict[str, float], target: AnyTarget, *, ask: bool, day: date
) -> dict[str, Any]:
    plan = file.plan
    estimate = prices.cost(plan, rates, day=day)
    groups = plan.groups
    gpus = sum(plan.type_spec(group.type).accelerators * group.count for group in groups)
    complete = not estimate.unknown
    same_account = ask and plan.settings.account == target.plan.settings.account
    return {
        "environment": plan.name,
        "region": plan.settings.region,
        "account": plan.settings.account,
        "gpus": gpus,
        "usd_per_hour": round(estimate.usd_per_hour, 4),
        "usd_per_month": round(estimate.usd_per_month, 2),
        "usd_per_gpu_hour": round(estimate.usd_per_hour / gpus, 4) if gpus and complete else None,
        "complete": complete,
        "estimated": bool(estimate.estimated),
        # another account's bill is not in the answer
        "billed_usd": round(billed.get(plan.name, 0.0), 2) if same_account else None,
    }


def _cents(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _show_spend(spent: Spend, runs: list[dict[str, Any]], form: Format) -> None:
    table = output.table("Name", "What is there now", ">$ per hour", ">Hours", ">$ this month")
    for line in spent.items:
        amounts = [
            dollars(value, mark="~" if line.estimate else "", sign="") for value in (line.usd_per_hour, line.usd)
        ]
        table.add_row(line.name, line.what, amounts[0], f"{line.hours:,.1f}", amounts[1])
    table.add_section()
    sums = [dollars(value, mark="~" if spent.estimate else "", sign="") for value in (spent.usd_per_hour, spent.usd)]
    table.add_row("known sum" if spent.unknown else "sum", "", sums[0], "", sums[1])
    console = output.console(form)
    console.print(table)
    if spent.unknown:
        share = f", with {spent.unpriced_gpus} of {spent.gpus} GPUs" if spent.unpriced_gpus else ""
        console.print(f"without a known price: {', '.join(spent.unknown)}{share}; {spent.unpriced_share}")
    for idle in spent.idle:
        console.print(
            f"idle: {idle.gpus} GPUs in group {idle.group}, {dollars(idle.usd_per_hour)} an hour{idle.cost}: "
            f"{idle.why} {_nodes(idle.nodes)}"
        )
    for quota in spent.quotas:
        console.print(quota.text)
    useful = spent.usd_per_useful_gpu_hour
    mark = "~" if spent.estimate else ""
    console.print(spent.at_work + ("" if useful is None else f": {mark}{dollars(useful)} per useful GPU-hour"))
    for run in runs:
        console.print(": ".join([f"run {run['run']}", ", ".join(filter(None, _of_run(run)))]))
    output.log(
        f"list prices times hours since {spent.since:%Y-%m-%d} of what is there now; nodes that are gone are not "
        "counted, and it is no bill: --actual asks for that"
    )


def _nodes(ids: tuple[str, ...]) -> str:
    """Nodes by name; of many, the first."""
    more = len(ids) - NAMED
    return ", ".join(ids[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _of_run(run: dict[str, Any]) -> Iterator[str]:
    """What a run has cost, and where its time went."""
    yield dollars(run["usd"])
    if run["goodput"] is not None:
        yield f"goodput {100 * run['goodput']:.1f} %"
    if run["usd_per_useful_gpu_hour"] is not None:
        yield f"{dollars(run['usd_per_useful_gpu_hour'])} per useful GPU-hour"
    yield from (f"{share} {duration(spent)}" for share, spent in run["spent_seconds"].items() if spent >= 1)
    if lost := ", ".join(f"{cause} {duration(spent)}" for cause, spent in run["lost_by_cause"].items() if spent >= 1):
        yield f"lost by {lost}"


def _show_bill(target: AnyTarget, billed: Bill, form: Format) -> None:
    table = output.table("Service", ">$ this month")
    for service in billed.services:
        table.add_row(service.name, f"{service.usd:,.2f}")
    table.add_section()
    table.add_row("sum", f"{billed.usd:,.2f}")
    console = output.console(form)
    console.print(table)
    if billed.forecast is None:
        console.print("forecast: Cost Explorer has too little data for one")
    else:
        low, high = billed.forecast.low, billed.forecast.high
        span = f" (rest of the month {low:,.0f} to {high:,.0f}, 80 %)" if low is not None and high is not None else ""
        console.print(f"forecast of the whole month: {billed.usd_month or 0.0:,.2f} ${span}")
    output.log(
        f"billed {billed.since} to {billed.until - date.resolution} by tag {names.ENVIRONMENT_TAG}={target.name}, "
        f"up to 24 hours old{', still an estimate' if billed.estimated else ''}; "
        f"asking cost ${billed.requests * bill.USD_PER_REQUEST:.2f}"
    )
    if not billed.services:
        output.log(
            "nothing is billed under the tag. The payer account activates it once, and figures follow a day later"
        )
        output.log(f"next: {bill.ACTIVATE}")

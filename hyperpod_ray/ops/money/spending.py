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


def so_far(target: AnyTarget, known: Prices, *, form: Format) -> dict[str, Any]:
    """Show what is there now since the beginning of the month; the JSON of it."""
    seen = gather.snapshot(target)
    found = spend(target.plan, seen, known)
    runs = [
        {
            "run": run.name,
            "usd": _cents(run_usd(target.plan, known, run.record)),
            "goodput": run.goodput,
            "spent_seconds": run.spent_seconds,
            "usd_per_useful_gpu_hour": _cents(run_usd_per_useful_gpu_hour(target.plan, known, run)),
        }
        for run in seen.runs
        if run.record is not None
    ]
    if form is not Format.json:
        _show_spend(found, runs, form)
        for item in seen.unseen:
            output.log(f"{item.source} could not be asked: {item.why}")
    return {
        "since": found.since,
        "usd": _cents(found.usd),
        "usd_per_hour": _cents(found.usd_per_hour),
        "estimated": found.estimate,
        "items": [asdict(item) for item in found.items],
        "idle": [asdict(one) for one in found.idle],
        "gpus": found.gpus,
        "busy_gpus": found.busy_gpus,
        "training_gpus": found.training_gpus,
        "unjudged": list(found.unjudged),
        "usd_per_useful_gpu_hour": _cents(found.usd_per_useful_gpu_hour),
        "runs": runs,
        "unknown": list(found.unknown),
        "unseen": seen.unseen,
    }


def actual(target: AnyTarget, *, form: Format, day: date) -> dict[str, Any]:
    """Show what AWS billed this month, and its forecast; the JSON of it."""
    target.aws.require_account()
    output.log(f"Cost Explorer charges ${bill.USD_PER_REQUEST} for each request; this takes two or more")
    found = bill.bill(target, day=day)
    if form is not Format.json:
        _show_bill(target, found, form)
    data: dict[str, Any] = {**output.plain(found), "since": str(found.since), "until": str(found.until)}
    return {
        **data,
        "usd": round(found.usd, 2),
        "usd_month": _cents(found.usd_month),
        "usd_for_asking": round(found.requests * bill.USD_PER_REQUEST, 2),
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
    known = core.environment_names(folder=folder)
    if not every or not known:
        raise OpsError(
            "no environment is given" if known else f"no environment file in {folder}",
            expected=f"one of {', '.join(known)}, or --all" if known else "one or more",
            fix="hyperpod-ray cost ENV",
            code=BAD_USE,
        )
    files = [core.load_any(name, folder=folder) for name in known]
    return _comparison(target(env or known[0]), files, form=form, ask=ask, day=day)


def _comparison(target: AnyTarget, files: list[AnyFile], *, form: Format, ask: bool, day: date) -> int:
    known = price_file.recorded(target.folder)
    billed: dict[str, float] = {}
    if ask:
        target.aws.require_account()
        output.log(f"Cost Explorer charges ${bill.USD_PER_REQUEST} for each request; this takes one or more")
        billed, _ = bill.by_environment(target, day=day)
    rows = [_compared(file, known, billed, target, ask=ask, day=day) for file in files]
    if form is Format.json:
        output.write_json("cost-comparison", {"currency": "USD", "environments": rows})
        return OK
    table = output.table("=Environment", "Region", ">GPUs", ">$ per hour", ">$ per month", ">$ per GPU-hour",
                         *([">Billed this month"] if ask else []))  # fmt: skip
    for row in rows:
        mark = "~" if row["estimated"] else ""
        note = "" if row["complete"] else " and more"
        cells = [f"{mark}{row['usd_per_hour']:,.2f}{note}", f"{mark}{row['usd_per_month']:,.0f}{note}"]
        each = row["usd_per_gpu_hour"]
        cells.append("" if each is None else f"{mark}{each:,.2f}")
        if ask:
            cells.append("unknown" if row["billed_usd"] is None else f"{row['billed_usd']:,.2f}")
        table.add_row(row["environment"], row["region"], str(row["gpus"]), *cells)
    output.console(form).print(table)
    output.log("prices of the dated file, at full count; ~: an estimate")
    return OK


def _compared(
    file: AnyFile, known: Prices, billed: dict[str, float], target: AnyTarget, *, ask: bool, day: date
) -> dict[str, Any]:
    plan = file.plan
    found = prices.cost(plan, known, day=day)
    groups = plan.groups
    gpus = sum(plan.type_spec(group.type).accelerators * group.count for group in groups)
    whole = not found.unknown
    mine = ask and plan.settings.account == target.plan.settings.account
    return {
        "environment": plan.name,
        "region": plan.settings.region,
        "account": plan.settings.account,
        "gpus": gpus,
        "usd_per_hour": round(found.usd_per_hour, 4),
        "usd_per_month": round(found.usd_per_month, 2),
        "usd_per_gpu_hour": round(found.usd_per_hour / gpus, 4) if gpus and whole else None,
        "complete": whole,
        "estimated": bool(found.estimated),
        # another account's bill is not in the answer
        "billed_usd": round(billed.get(plan.name, 0.0), 2) if mine else None,
    }


def _cents(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _show_spend(found: Spend, runs: list[dict[str, Any]], form: Format) -> None:
    table = output.table("Name", "What is there now", ">$ per hour", ">Hours", ">$ this month")
    for item in found.items:
        amounts = [
            dollars(value, mark="~" if item.estimate else "", sign="") for value in (item.usd_per_hour, item.usd)
        ]
        table.add_row(item.name, item.what, amounts[0], f"{item.hours:,.1f}", amounts[1])
    table.add_section()
    sums = [dollars(value, mark="~" if found.estimate else "", sign="") for value in (found.usd_per_hour, found.usd)]
    table.add_row("known sum" if found.unknown else "sum", "", sums[0], "", sums[1])
    console = output.console(form)
    console.print(table)
    for one in found.idle:
        since = f", {dollars(one.usd)} since {output.clock(one.since)}" if one.since else ""
        console.print(
            f"idle: {one.gpus} GPUs in group {one.group}, {dollars(one.usd_per_hour)} an hour{since}: {one.why} "
            f"{', '.join(one.nodes)}"
        )
    useful = found.usd_per_useful_gpu_hour
    mark = "~" if found.estimate else ""
    console.print(found.at_work + ("" if useful is None else f": {mark}{dollars(useful)} per useful GPU-hour"))
    for run in runs:
        console.print(": ".join([f"run {run['run']}", ", ".join(filter(None, _of_run(run)))]))
    output.log(
        f"list prices times hours since {found.since:%Y-%m-%d} of what is there now; nodes that are gone are not "
        "counted, and it is no bill: --actual asks for that"
    )


def _of_run(run: dict[str, Any]) -> Iterator[str]:
    """What a run has cost, and where its time went."""
    yield dollars(run["usd"])
    if run["goodput"] is not None:
        yield f"goodput {100 * run['goodput']:.1f} %"
    if run["usd_per_useful_gpu_hour"] is not None:
        yield f"{dollars(run['usd_per_useful_gpu_hour'])} per useful GPU-hour"
    yield from (f"{share} {duration(spent)}" for share, spent in run["spent_seconds"].items() if spent >= 1)


def _show_bill(target: AnyTarget, found: Bill, form: Format) -> None:
    table = output.table("Service", ">$ this month")
    for service in found.services:
        table.add_row(service.name, f"{service.usd:,.2f}")
    table.add_section()
    table.add_row("sum", f"{found.usd:,.2f}")
    console = output.console(form)
    console.print(table)
    if found.forecast is None:
        console.print("forecast: Cost Explorer has too little data for one")
    else:
        low, high = found.forecast.low, found.forecast.high
        span = f" (rest of the month {low:,.0f} to {high:,.0f}, 80 %)" if low is not None and high is not None else ""
        console.print(f"forecast of the whole month: {found.usd_month or 0.0:,.2f} ${span}")
    output.log(
        f"billed {found.since} to {found.until - date.resolution} by tag {names.ENVIRONMENT_TAG}={target.name}, "
        f"up to 24 hours old{', still an estimate' if found.estimated else ''}; "
        f"asking cost ${found.requests * bill.USD_PER_REQUEST:.2f}"
    )
    if not found.services:
        output.log(
            "nothing is billed under the tag. The payer account activates it once, and figures follow a day later"
        )
        output.log(f"next: {bill.ACTIVATE}")

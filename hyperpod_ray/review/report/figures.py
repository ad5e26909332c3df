"""Money and time in words, the same in every form of the report."""

from __future__ import annotations

from hyperpod_ray.core.amounts import dollars
from hyperpod_ray.review.money import Line, Money
from hyperpod_ray.review.review import EnvironmentReview
from hyperpod_ray.review.schedule import Schedule


def change(line: Line) -> str:
    """`12.30 → 24.60 (+12.30)`, with `~` where it is an estimate, or what is unknown; of autoscaling a range."""
    ranges = [_most(usd, top) for usd, top in ((line.before_usd, line.before_most), (line.after_usd, line.after_most))]
    if any(ranges):
        sides = [
            text or dollars(usd, sign="") for text, usd in zip(ranges, (line.before_usd, line.after_usd), strict=True)
        ]
        return " → ".join(sides)
    mark = "~" if line.estimate else ""
    pair = (dollars(line.before_usd, mark=mark, sign=""), dollars(line.after_usd, mark=mark, sign=""))
    text = " → ".join(pair)
    return text if line.difference is None else f"{text} ({line.difference:+,.2f})"


def _most(usd: float | None, maximum: float | None) -> str:
    """What autoscaling may add; empty where it adds nothing."""
    if usd is None:
        return ""
    if maximum is None:
        return f"{usd:,.2f} and more, without a limit"
    return f"{usd:,.2f} to {maximum:,.2f}" if maximum > usd else ""


def _sides(paid: Money) -> str:
    """Before and after."""
    mark = "~" if paid.estimated else ""
    return " → ".join(dollars(usd, mark=mark, sign="") for usd in (paid.before, paid.after))


def price_note(paid: Money) -> str:
    """The sum, the day of the prices and what they omit."""
    if len(paid.unknown) == len(paid.lines):
        return (
            f"No price of {paid.region} in hyperpod_ray/pricing/prices_usd.yaml covers this: `hyperpod-ray cost ENV "
            "--update` asks for them, with "
            "credentials."
        )
    dates = ", ".join(str(day) for day in paid.dates)
    sums = f"{_sides(paid)} $ per hour"
    text = f"On-demand in {paid.region}, prices read {dates}: {sums}"
    unknown = f", without {', '.join(paid.unknown)}, whose price is unknown" if paid.unknown else ""
    return f"{text}{unknown}.{_estimates(paid)} Not counted: {', '.join(paid.not_counted)}."


def sums(paid: Money) -> str:
    """Dollars per hour before and after, in one line."""
    if len(paid.unknown) == len(paid.lines):
        return "unknown: no price is on file"
    text = f"{_sides(paid)} $ per hour ({paid.after - paid.before:+,.2f}); {_month(paid)}"
    return text + (f", without {', '.join(paid.unknown)}: price unknown" if paid.unknown else "")


def _month(paid: Money) -> str:
    """The same per month, beside the budget."""
    text = f"{paid.per_month:+,.0f} $ per month, {paid.month_after:,.0f} in all"
    if paid.budget is None:
        return text
    return text + f", {'above' if paid.above_budget else 'within'} the budget of {paid.budget:,.0f}"


def _estimates(paid: Money) -> str:
    if not paid.estimated:
        return ""
    taken: dict[str, list[str]] = {}
    for line in paid.estimated:
        taken.setdefault(line.estimate, []).append(line.name)
    words = "; ".join(f"{estimate}: {', '.join(names)}" for estimate, names in taken.items())
    return f" ~ is an estimate, {words} (why, and sources: hyperpod_ray/pricing/prices_usd.yaml)."


def duration(timing: Schedule) -> str:
    """How long the deploy takes."""
    if timing.side_by_side == timing.in_turn:
        text = f"Usually {timing.in_turn.usual} ({timing.in_turn})"
    else:
        text = (
            f"Usually {timing.side_by_side.usual} ({timing.side_by_side}) with `hyperpod-ray deploy`, which works on "
            f"several stacks at once and waits longest for {' → '.join(timing.chain)}; {timing.in_turn.usual} "
            f"({timing.in_turn}) with `cdk deploy`, which works on {timing.stacks} stacks one after another"
        )
    text += ". A rollback takes as long again."
    for group in timing.nodes:
        text += f" Group {group.group} takes work after {group.minutes.usual} ({group.minutes}): {group.why}."
    return text


def unavailable(environment: EnvironmentReview) -> list[str]:
    """What cannot be used during the change, worst first, each once."""
    return list(dict.fromkeys(row.unavailable for row in environment.rows if row.unavailable))


def notes(environment: EnvironmentReview) -> list[str]:
    """What was not compared, and what was omitted as noise."""
    texts = list(environment.notes)
    if environment.changes is not None and environment.changes.asset_only:
        titles = ", ".join(change.title for change in environment.changes.asset_only)
        count = len(environment.changes.asset_only)
        texts.append(f"omitted: {count} resources that differ only in the hash of an uploaded file ({titles})")
    return texts

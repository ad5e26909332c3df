"""Money and time in words, the same in every form of the report."""

from __future__ import annotations

from review.money import Line, Money
from review.review import EnvironmentReview
from review.schedule import Schedule


def change(line: Line) -> str:
    """`12.30 → 24.60 (+12.30)`, or what is unknown."""
    if line.difference is None:
        known = [f"{value:,.2f}" if value is not None else "unknown" for value in (line.before_usd, line.after_usd)]
        return " → ".join(known)
    return f"{line.before_usd or 0:,.2f} → {line.after_usd or 0:,.2f} ({line.difference:+,.2f})"


def price_note(paid: Money) -> str:
    """The sum, the day of the prices and what they leave out."""
    if len(paid.unknown) == len(paid.lines):
        return (
            f"No price of {paid.region} in environments/prices_usd.yaml covers this: `python -m ops cost ENV "
            "--update` prints them, with "
            "credentials."
        )
    dates = ", ".join(str(day) for day in paid.dates)
    text = f"On-demand in {paid.region}, prices read {dates}: {paid.before:,.2f} → {paid.after:,.2f} $ per hour"
    unknown = f", without {', '.join(paid.unknown)}, whose price is unknown" if paid.unknown else ""
    return f"{text}{unknown}. Not counted: EKS, NAT or endpoints, EBS volumes, backups, logs, transfer, discounts."


def duration(made: Schedule) -> str:
    """How long the deploy takes."""
    plural = "stacks" if made.stacks != 1 else "stack"
    text = f"About {made.in_turn} with `cdk deploy`, which updates {made.stacks} {plural} one after another"
    if made.side_by_side != made.in_turn:
        text += f"; {made.side_by_side} with `--concurrency {made.stacks}`"
    return text + ". A rollback takes as long again."


def unavailable(one: EnvironmentReview) -> list[str]:
    """What cannot be used meanwhile, worst first, each once."""
    return list(dict.fromkeys(row.unavailable for row in one.rows if row.unavailable))


def notes(one: EnvironmentReview) -> list[str]:
    """What was not compared, and what was left out as noise."""
    found = list(one.notes)
    if one.changes is not None and one.changes.asset_only:
        titles = ", ".join(change.title for change in one.changes.asset_only)
        count = len(one.changes.asset_only)
        found.append(f"left out: {count} resources that differ only in the hash of an uploaded file ({titles})")
    return found

"""The first line of every report."""

from __future__ import annotations

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.report import grouping
from hyperpod_ray.review.review import EnvironmentReview, Review

MARKS = {
    Effect.SAFE: "🟢",
    Effect.WEAKENS: "🔵",
    Effect.INTERRUPTS: "🟡",
    Effect.REJECTED: "🟠",
    Effect.LOSES_NODES: "🔴",
    Effect.LOSES_DATA: "⛔",
}


def verdict(review: Review | EnvironmentReview) -> str:
    """The worst effect first, each with the count of what is lost: `loses nodes (9 ml.p5.48xlarge nodes)`."""
    if review.empty:
        return "no change"
    environments = review.environments if isinstance(review, Review) else [review]
    counted: dict[Effect, list[str]] = {}
    for one in environments:
        for effect, text in grouping.lost(one).items():
            counted.setdefault(effect, []).append(text)
    effects = sorted(set(counted) - {Effect.SAFE}, reverse=True)
    words = ", ".join(f"{effect.words} ({_sum(counted[effect])})" for effect in effects) or Effect.SAFE.words
    return words + _costs(environments)


def _costs(environments: list[EnvironmentReview]) -> str:
    """What the change costs per month, and beside which budget; empty where it changes nothing that is paid for."""
    paid = [one for one in environments if one.money is not None and one.money.changed]
    if not paid:
        return ""
    sums = [one.money for one in paid if one.money is not None]
    difference, most = sum(one.per_month for one in sums), [one.most_per_month for one in sums]
    mark = "~" if any(one.estimated for one in sums) else ""
    text = f"; {mark}{difference:+,.0f} $ per month"
    if None in most:
        text += " and what autoscaling adds or nobody knows"
    elif (grown := sum(one for one in most if one is not None)) - difference > 1:
        text += f", with autoscaling up to {grown:+,.0f}"
    above = [one for one in paid if one.money is not None and one.money.above_budget]
    for one in above:
        assert one.money is not None  # noqa: S101  (chosen so)
        assert one.money.budget is not None  # noqa: S101  (chosen so)
        of = f" of {one.name}" if len(environments) > 1 else ""
        text += f", {mark}{one.money.month_after:,.0f} in all: above the budget{of} of {one.money.budget:,.0f}"
    return text


def _sum(texts: list[str]) -> str:
    if all(text.isdigit() for text in texts):
        return str(sum(int(text) for text in texts))
    return "; ".join(texts)


def mark(effect: Effect) -> str:
    """A coloured sign for an effect."""
    return MARKS[effect]

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
    for environment in environments:
        for effect, text in grouping.lost(environment).items():
            counted.setdefault(effect, []).append(text)
    effects = sorted(set(counted) - {Effect.SAFE}, reverse=True)
    words = ", ".join(f"{effect.words} ({_sum(counted[effect])})" for effect in effects) or Effect.SAFE.words
    return words + _costs(environments)


def _costs(environments: list[EnvironmentReview]) -> str:
    """What the change costs per month, and beside which budget; empty where it changes nothing that is paid for."""
    paid = [
        priced
        for priced in environments
        if priced.money is not None and (priced.money.changed or priced.money.newly_above_budget)
    ]
    if not paid:
        return ""
    sums = [priced.money for priced in paid if priced.money is not None]
    difference, maxima = sum(priced.per_month for priced in sums), [priced.most_per_month for priced in sums]
    mark = "~" if any(priced.estimated for priced in sums) else ""
    text = f"; {mark}{difference:+,.0f} $ per month"
    unknown = list(dict.fromkeys(name for priced in sums for name in priced.changed_unknown))
    if unknown:
        text += f" without {', '.join(unknown)}, whose price nobody knows"
    elif None in maxima:
        text += " and what autoscaling adds, without a limit"
    elif (grown := sum(priced for priced in maxima if priced is not None)) - difference > 1:
        text += f", with autoscaling up to {grown:+,.0f}"
    above = [priced for priced in paid if priced.money is not None and priced.money.above_budget]
    for priced in above:
        assert priced.money is not None  # noqa: S101  (chosen so)
        assert priced.money.budget is not None  # noqa: S101  (chosen so)
        of = f" of {priced.name}" if len(environments) > 1 else ""
        text += f", {mark}{priced.money.month_after:,.0f} in all: above the budget{of} of {priced.money.budget:,.0f}"
    return text


def _sum(texts: list[str]) -> str:
    if all(text.isdigit() for text in texts):
        return str(sum(int(text) for text in texts))
    return "; ".join(texts)


def mark(effect: Effect) -> str:
    """A coloured sign for an effect."""
    return MARKS[effect]

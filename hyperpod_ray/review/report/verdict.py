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
    return ", ".join(f"{effect.words} ({_sum(counted[effect])})" for effect in effects) or Effect.SAFE.words


def _sum(texts: list[str]) -> str:
    if all(text.isdigit() for text in texts):
        return str(sum(int(text) for text in texts))
    return "; ".join(texts)


def mark(effect: Effect) -> str:
    """A coloured sign for an effect."""
    return MARKS[effect]

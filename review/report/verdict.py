"""The first line of every report."""

from __future__ import annotations

from review.findings import Effect
from review.review import EnvironmentReview, Review

MARKS = {
    Effect.SAFE: "🟢",
    Effect.INTERRUPTS: "🟡",
    Effect.REJECTED: "🟠",
    Effect.LOSES_NODES: "🔴",
    Effect.LOSES_DATA: "⛔",
}


def verdict(review: Review | EnvironmentReview) -> str:
    """The worst effect first, then the others: `loses nodes, will be rejected by the service, interrupts training`."""
    if review.empty:
        return "no change"
    rows = [row for one in _environments(review) for row in one.rows]
    effects = sorted({row.effect for row in rows} - {Effect.SAFE}, reverse=True)
    words = ", ".join(effect.words for effect in effects) or Effect.SAFE.words
    weakened = [remark for one in _environments(review) for remark in one.remarks if remark.weakens]
    if weakened:
        words += f"; weakens security or recovery ({len(weakened)})"
    return words


def mark(effect: Effect) -> str:
    """A coloured sign for an effect."""
    return MARKS[effect]


def _environments(review: Review | EnvironmentReview) -> list[EnvironmentReview]:
    return review.environments if isinstance(review, Review) else [review]

"""The report as JSON, for other programs."""

from __future__ import annotations

import json
from typing import Any

from hyperpod_ray.review.findings import Row
from hyperpod_ray.review.report import figures
from hyperpod_ray.review.report.verdict import verdict
from hyperpod_ray.review.review import EnvironmentReview, Review

FORMAT_VERSION = 3
"""Raised when a key goes or changes its meaning."""


def render(review: Review) -> str:
    """The whole review as one JSON object."""
    return json.dumps(data(review), indent=2, ensure_ascii=False)


def data(review: Review) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "format": FORMAT_VERSION,
        "base": review.base_name,
        "head": review.head_name,
        "verdict": review.effect.code if not review.empty else "no-change",
        "words": verdict(review),
        "seconds": round(review.seconds, 2),
        "environments": [_environment(one) for one in review.environments],
    }


def _environment(one: EnvironmentReview) -> dict[str, Any]:
    return {
        "name": one.name,
        "verdict": one.effect.code if not one.empty else "no-change",
        "words": verdict(one),
        "rows": [_row(row) for row in one.rows],
        "security": [
            {"direction": remark.direction, "what": remark.what, "detail": remark.detail} for remark in one.remarks
        ],
        "money": _money(one),
        "time": _time(one),
        "notes": one.notes,
        "asset_only": [change.title for change in one.changes.asset_only] if one.changes else [],
    }


def _money(one: EnvironmentReview) -> dict[str, Any] | None:
    if one.money is None:
        return None
    return {
        "currency": "USD",
        "unit": "hour",
        "region": one.money.region,
        "prices_read": [str(day) for day in one.money.dates],
        "usd_per_month": round(one.money.per_month, 2),
        "most_usd_per_month": None if one.money.most_per_month is None else round(one.money.most_per_month, 2),
        "usd_per_month_after": round(one.money.month_after, 2),
        "budget_usd_per_month": one.money.budget,
        "above_budget": one.money.above_budget,
        "unknown": one.money.unknown,
        "estimated": [line.name for line in one.money.estimated],
        "lines": [
            {
                "name": line.name,
                "before": line.before,
                "after": line.after,
                "before_usd": line.before_usd,
                "after_usd": line.after_usd,
                "estimate": line.estimate,
                "source": line.source,
            }
            for line in one.money.lines
        ],
    }


def _time(one: EnvironmentReview) -> dict[str, Any] | None:
    if one.schedule is None:
        return None
    return {
        "stacks": one.schedule.stacks,
        "minutes": list(one.schedule.in_turn),
        "minutes_side_by_side": list(one.schedule.side_by_side),
        "chain": one.schedule.chain,
        "nodes": [
            {"group": later.group, "minutes": list(later.minutes), "why": later.why} for later in one.schedule.nodes
        ],
        "path": [
            {
                "title": step.title,
                "type": step.type,
                "action": step.action,
                "minutes": list(step.minutes),
                "source": step.source,
            }
            for step in one.schedule.path
        ],
        "unavailable": figures.unavailable(one),
    }


def _row(row: Row) -> dict[str, str]:
    return {
        "effect": row.effect.code,
        "code": row.code,
        "what": row.what,
        "change": row.change,
        "consequence": row.consequence,
        "unavailable": row.unavailable,
        "source": row.source,
        "where": row.where,
    }

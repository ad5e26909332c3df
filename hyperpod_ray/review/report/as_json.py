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
        "environments": [_environment(environment) for environment in review.environments],
    }


def _environment(environment: EnvironmentReview) -> dict[str, Any]:
    return {
        "name": environment.name,
        "verdict": environment.effect.code if not environment.empty else "no-change",
        "words": verdict(environment),
        "rows": [_row(row) for row in environment.rows],
        "security": [
            {"direction": remark.direction, "what": remark.what, "detail": remark.detail}
            for remark in environment.remarks
        ],
        "money": _money(environment),
        "time": _time(environment),
        "notes": environment.notes,
        "asset_only": [change.title for change in environment.changes.asset_only] if environment.changes else [],
    }


def _money(environment: EnvironmentReview) -> dict[str, Any] | None:
    if environment.money is None:
        return None
    return {
        "currency": "USD",
        "unit": "hour",
        "region": environment.money.region,
        "prices_read": [str(day) for day in environment.money.dates],
        "usd_per_month": round(environment.money.per_month, 2),
        "most_usd_per_month": None
        if environment.money.most_per_month is None
        else round(environment.money.most_per_month, 2),
        "usd_per_month_after": round(environment.money.month_after, 2),
        "budget_usd_per_month": environment.money.budget,
        "above_budget": environment.money.above_budget,
        "unknown": environment.money.unknown,
        "estimated": [line.name for line in environment.money.estimated],
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
            for line in environment.money.lines
        ],
    }


def _time(environment: EnvironmentReview) -> dict[str, Any] | None:
    if environment.schedule is None:
        return None
    return {
        "stacks": environment.schedule.stacks,
        "minutes": list(environment.schedule.in_turn),
        "minutes_side_by_side": list(environment.schedule.side_by_side),
        "chain": environment.schedule.chain,
        "nodes": [
            {"group": later.group, "minutes": list(later.minutes), "why": later.why}
            for later in environment.schedule.nodes
        ],
        "path": [
            {
                "title": step.title,
                "type": step.type,
                "action": step.action,
                "minutes": list(step.minutes),
                "source": step.source,
            }
            for step in environment.schedule.path
        ],
        "unavailable": figures.unavailable(environment),
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

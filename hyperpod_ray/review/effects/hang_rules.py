"""What a change of the rules of hung job detection does: a run reads them when it starts, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.review import severity
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Remark, Row
from hyperpod_ray.review.kubernetes import KubernetesObject

_LATER_RUNS = "Nothing is interrupted. Runs that start from then on, or resume in new processes, send these rules."
_DEFAULT_AGAIN = (
    "Nothing is interrupted. Runs that start from then on send no rules, and HyperPod's default detection watches them."
)
_DEFAULT: dict[str, Any] = {"enabled": True, "rules": None, "action": "notify"}
"""The service's own detection, which holds where no rules are sent."""
_TIMES = ("timeout_minutes", "start_timeout_minutes", "metric_evaluation_data_points")
Rules = dict[str, Any]


def find(before: KubernetesObject | None, now: KubernetesObject | None, findings: Findings) -> None:
    """The row of rules that come, go or change."""
    item = now or before
    assert item is not None  # noqa: S101  (one of the two is there)
    old, new = _rules(before), _rules(now)
    less = weaker(old, new)
    row: dict[str, Any] = {
        "what": str(item.id),
        "change": "; ".join(less) or ("new" if before is None else "left the manifests" if now is None else "changed"),
        "where": item.where,
    }
    if not less:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="object-added" if before is None else "configmap-deleted" if now is None else "object-changed",
                consequence=_DEFAULT_AGAIN if now is None else _LATER_RUNS,
                source=source("hung-jobs"),
                **row,
            )
        )
        return
    findings.add(
        Row(
            code="hang-detection-weaker",
            consequence="Runs that start from then on, or resume in new processes, can hang for longer before anybody "
            "knows or anything acts.",
            **severity.of_class("hang-detection-off"),
            **row,
        )
    )
    findings.remark(Remark(direction="switched off", what="hung job detection", detail="; ".join(less)))


def weaker(old: Rules, new: Rules) -> list[str]:
    """What the new rules no longer find, find later, or no longer act on; empty when they find at least as much."""
    if old["enabled"] and not new["enabled"]:
        return ["detection switched off"]
    if not new["enabled"]:
        return []
    less = []
    if old["action"] == "cancel" and new["action"] != "cancel":
        less.append(f"action cancel → {new['action']}")
    before, now = _active(old), _active(new)
    if new["rules"] is not None and not now and (before or old["rules"] is None):
        return [*less, "no rule is enabled"]
    if new["rules"] is None:
        return less  # the service's default detection takes their place
    for name, rule in before.items():
        if name not in now:
            less.append(f"rule {name} {'removed' if name not in _all(new) else 'disabled'}")
            continue
        less += [f"rule {name}: {words}" for words in _later(rule, now[name])]
    return less


def _later(old: Rules, new: Rules) -> list[str]:
    words = []
    for key in _TIMES:
        had, has = old.get(key), new.get(key)
        if had is not None and (has is None or has > had):
            words.append(f"{key} {had:g} → {'none' if has is None else f'{has:g}'}")
    if old.get("fault_on_match") and not new.get("fault_on_match"):
        words.append("a match is no fault any more")
    if new.get("stop_pattern") and not old.get("stop_pattern"):
        words.append(f"ends at {new['stop_pattern']!r}")
    return words


def _all(rules: Rules) -> dict[str, Rules]:
    return {str(rule.get("name")): rule for rule in rules["rules"] or []}


def _active(rules: Rules) -> dict[str, Rules]:
    return {name: rule for name, rule in _all(rules).items() if rule.get("enabled")}


def _rules(item: KubernetesObject | None) -> Rules:
    try:
        text = (item.data.get("data") or {})[names.HANG_RULES_FILE] if item else "{}"
        parsed = json.loads(text)
    except (KeyError, ValueError):
        parsed = {}
    return {**_DEFAULT, **(parsed if isinstance(parsed, dict) else {})}

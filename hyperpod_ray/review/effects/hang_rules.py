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


def find(before: KubernetesObject | None, after: KubernetesObject | None, findings: Findings) -> None:
    """The row of rules that come, go or change."""
    k8s_object = after or before
    assert k8s_object is not None  # noqa: S101  (one of the two is there)
    rules_before, rules_after = _rules(before), _rules(after)
    less = weaker(rules_before, rules_after)
    row: dict[str, Any] = {
        "what": str(k8s_object.id),
        "change": "; ".join(less)
        or ("new" if before is None else "left the manifests" if after is None else "changed"),
        "where": k8s_object.where,
    }
    if not less:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="object-added" if before is None else "configmap-deleted" if after is None else "object-changed",
                consequence=_DEFAULT_AGAIN if after is None else _LATER_RUNS,
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


def weaker(rules_before: Rules, rules_after: Rules) -> list[str]:
    """What the new rules no longer find, find later, or no longer act on; empty when they find at least as much."""
    if rules_before["enabled"] and not rules_after["enabled"]:
        return ["detection switched off"]
    if not rules_after["enabled"]:
        return []
    less = []
    if rules_before["action"] == "cancel" and rules_after["action"] != "cancel":
        less.append(f"action cancel → {rules_after['action']}")
    before, after = _active(rules_before), _active(rules_after)
    if rules_after["rules"] is not None and not after and (before or rules_before["rules"] is None):
        return [*less, "no rule is enabled"]
    if rules_after["rules"] is None:  # the service's default detection takes their place
        return less + ([f"rule {', '.join(before)} removed: the default detection is left"] if before else [])
    renamed = [{**rule, "name": ""} for rule in after.values()]
    for name, rule in before.items():
        if name not in after and {**rule, "name": ""} in renamed:
            continue
        if name not in after:
            less.append(f"rule {name} {'removed' if name not in _all(rules_after) else 'disabled'}")
            continue
        less += [f"rule {name}: {words}" for words in _later(rule, after[name])]
    return less


def _later(rule_before: Rules, rule_after: Rules) -> list[str]:
    words = []
    for key in _TIMES:
        had, has = rule_before.get(key), rule_after.get(key)
        if had is not None and (has is None or has > had):
            words.append(f"{key} {had:g} → {'none' if has is None else f'{has:g}'}")
    if rule_before.get("log_pattern") != rule_after.get("log_pattern"):
        words.append(f"looks for {rule_after.get('log_pattern')!r} in place of {rule_before.get('log_pattern')!r}")
    if rule_before.get("fault_on_match") and not rule_after.get("fault_on_match"):
        words.append("a match is no fault any more")
    if rule_after.get("stop_pattern") not in {None, "", rule_before.get("stop_pattern")}:
        words.append(f"ends at {rule_after['stop_pattern']!r}")
    return words


def _all(rules: Rules) -> dict[str, Rules]:
    return {str(rule.get("name")): rule for rule in rules["rules"] or []}


def _active(rules: Rules) -> dict[str, Rules]:
    return {name: rule for name, rule in _all(rules).items() if rule.get("enabled")}


def _rules(k8s_object: KubernetesObject | None) -> Rules:
    try:
        text = (k8s_object.data.get("data") or {})[names.HANG_RULES_FILE] if k8s_object else "{}"
        parsed = json.loads(text)
    except (KeyError, ValueError):
        parsed = {}
    return {**_DEFAULT, **(parsed if isinstance(parsed, dict) else {})}

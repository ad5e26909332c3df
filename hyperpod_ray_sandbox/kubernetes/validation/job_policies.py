"""When a Job has failed or succeeded before its time.

Source: validatePodFailurePolicy and validateSuccessPolicy of pkg/apis/batch/validation.
"""

from __future__ import annotations

import itertools
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_MOST_RULES = 20
_MOST_CODES = 255
_MOST_PARALLEL = 100_000
_MANY = 100_000
_FEW = 10_000


def failure(causes: Causes, path: str, spec: Json) -> None:
    """Judge what the failure of a pod means for its Job."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or []
    if len(rules) > _MOST_RULES:
        causes.too_many(f"{path}.rules", len(rules), _MOST_RULES)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = [c.get("name") for c in [*(pod.get("containers") or []), *(pod.get("initContainers") or [])]]
    for index, rule in enumerate(rules):
        at, action = f"{path}.rules[{index}]", rule.get("action") or ""
        if not action:
            causes.required(f"{at}.action", f"valid values: {list(_ACTIONS)}")
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            causes.invalid(f"{at}.action", action, "requires the backoffLimitPerIndex to be set")
        causes.one_of(f"{at}.action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            _codes(causes, f"{at}.onExitCodes", codes, containers)
        _conditions(causes, f"{at}.onPodConditions", conditions)
        if codes is not None and conditions:
            causes.invalid(at, None, "specifying both OnExitCodes and OnPodConditions is not supported")
        elif codes is None and not conditions:
            causes.invalid(at, None, "specifying one of OnExitCodes and OnPodConditions is required")


def _conditions(causes: Causes, path: str, conditions: list[Json]) -> None:
    if len(conditions) > _MOST_RULES:
        causes.too_many(path, len(conditions), _MOST_RULES)
    for index, pattern in enumerate(conditions):
        names.key(causes, f"{path}[{index}].type", pattern.get("type") or "")
        if not pattern.get("status"):
            causes.required(f"{path}[{index}].status", 'valid values: ["False" "True" "Unknown"]')
        causes.one_of(f"{path}[{index}].status", pattern.get("status"), ("False", "True", "Unknown"))


def _codes(causes: Causes, path: str, codes: Json, containers: list[Any]) -> None:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        causes.required(f"{path}.operator", 'valid values: ["In" "NotIn"]')
    causes.one_of(f"{path}.operator", operator, ("In", "NotIn"))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        causes.invalid(f"{path}.containerName", name, why)
    if not values:
        causes.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        causes.too_many(f"{path}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.invalid(f"{path}.values[{index}]", 0, "must not be 0 for the In operator")
        if value in values[:index]:
            causes.duplicate(f"{path}.values[{index}]", value)
    if any(low > high for low, high in itertools.pairwise(values)):
        causes.invalid(f"{path}.values", values, "must be ordered")


def success(causes: Causes, path: str, spec: Json) -> None:
    """Judge when enough indexes of a Job have succeeded."""
    rules, completions = (spec.get("successPolicy") or {}).get("rules") or [], spec.get("completions") or 0
    if not rules:
        causes.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    elif len(rules) > _MOST_RULES:
        causes.too_many(f"{path}.rules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        at, count, indexes = f"{path}.rules[{index}]", rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            causes.required(at, "at least one of succeededCount or succeededIndexes must be specified")
        total = None
        if indexes is not None:
            total, fault = indexed(indexes, completions)
            if fault:
                causes.invalid(f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {fault}")
        if count is not None:
            causes.natural(f"{at}.succeededCount", count)
            for limit, what_limits in ((completions, "the number of specified completions"), (total, "the indexes")):
                if limit is not None and count > limit:
                    why = f"must be less than or equal to {limit} ({what_limits})"
                    causes.invalid(f"{at}.succeededCount", count, why)


def indexed(text: str, completions: int) -> tuple[int, str]:
    """How many indexes a text such as `1,3-5` names, and what is wrong with it."""
    total, highest = 0, -1
    for part in text.split(",") if text else []:
        bounds = part.split("-")
        if len(bounds) > 2 or not all(bound.isdigit() for bound in bounds):
            return total, f"cannot convert string to integer for index: {part!r}"
        low, high = int(bounds[0]), int(bounds[-1])
        if low >= completions or high >= completions:
            return total, f"too large index: {part!r}"
        if low <= highest or (len(bounds) == 2 and low >= high):
            return total, f"non-increasing order: {part!r}"
        total, highest = total + high - low + 1, high
    return total, ""


def limits(causes: Causes, path: str, spec: Json) -> None:
    """Judge how big a Job by index may be, and how many of its indexes may fail."""
    failed, completions, parallelism = (spec.get(f) for f in ("maxFailedIndexes", "completions", "parallelism"))
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        causes.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        causes.natural(f"{path}.{field}", spec.get(field))
    if spec.get("completionMode") != "Indexed":
        return
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > _MOST_PARALLEL:
            causes.invalid(f"{path}.{field}", value, f"must be less than or equal to {_MOST_PARALLEL}")
    if failed is not None and completions is not None and failed > completions:
        causes.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if (completions or 0) > _MANY and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            causes.required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY}")
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > _FEW:
                causes.invalid(f"{path}.{field}", value, f"must be less than or equal to {_FEW}")

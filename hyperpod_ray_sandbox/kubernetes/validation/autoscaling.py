"""Autoscalers: what they scale, by which metrics, and how fast.

Source: pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_WINDOW_SECONDS, _PERIOD_SECONDS = 3600, 1800
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
# source -> the targets of which there must be one, and those that exclude each other
_TARGETS = {
    "containerResource": (("averageUtilization", "averageValue"), ("averageUtilization", "averageValue")),
    "external": (("value", "averageValue"), ("value", "averageValue")),
    "object": (("value", "averageValue"), ()),
    "pods": (("averageValue",), ()),
    "resource": (("averageUtilization", "averageValue"), ("averageUtilization", "averageValue")),
}


def autoscaler(obj: Json) -> Causes:
    """Judge a HorizontalPodAutoscaler."""
    causes, spec = Causes(), obj.get("spec") or {}
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        causes.invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        causes.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        causes.invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        causes.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    _reference(causes, "spec.scaleTargetRef", spec.get("scaleTargetRef") or {}, grouped=True)
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            _scaling(causes, f"spec.behavior.{direction}", rules)
    for index, metric in enumerate(spec.get("metrics") or []):
        _metric(causes, f"spec.metrics[{index}]", metric)
    return causes


def _reference(causes: Causes, path: str, reference: Json, *, grouped: bool = False) -> None:
    for field in ("kind", "name"):
        if not reference.get(field):
            causes.required(f"{path}.{field}")
        else:
            names.path_segment(causes, f"{path}.{field}", reference[field])
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        causes.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif grouped and "/" not in version and reference.get("kind") != "ReplicationController":
        causes.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric(causes: Causes, path: str, metric: Json) -> None:
    type_name = metric.get("type") or ""
    if not type_name:
        causes.required(f"{path}.type", "must specify a metric source type")
    causes.one_of(f"{path}.type", type_name or " ", _METRICS)
    present = [source for source in ("object", "external", "pods", "resource", "containerResource")
               if metric.get(source) is not None]  # fmt: skip
    if present:
        _source(causes, f"{path}.{present[0]}", present[0], metric[present[0]])
    expected = _METRICS.get(type_name)
    if expected and expected not in present:
        causes.required(f"{path}.{expected}", "must populate information for the given metric source")
    for source in present if len(present) != 1 else ():
        if source != expected:
            causes.forbidden(f"{path}.{source}", "must populate the given metric source only")


def _source(causes: Causes, path: str, type_name: str, source: Json) -> None:  # noqa: PLR0912  (a list of rules)
    if type_name == "object":
        _reference(causes, f"{path}.describedObject", source.get("describedObject") or {})
    if type_name in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name") or ""
        if not name:
            causes.required(f"{path}.metric.name", "must specify a metric name")
        else:
            names.path_segment(causes, f"{path}.metric.name", name)
    else:
        for field in ("name", "container") if type_name == "containerResource" else ("name",):
            if not source.get(field):
                causes.required(f"{path}.{field}", f"must specify a {field}")
    target, (needed, alone) = source.get("target") or {}, _TARGETS[type_name]
    if target.get("type") not in ("AverageValue", "Utilization", "Value"):
        causes.invalid(
            f"{path}.target.type", target.get("type") or "", "must be either Utilization, Value, or AverageValue"
        )
    for field in ("value", "averageValue"):
        if target.get(field) is not None and number(target[field]) <= 0:
            causes.invalid(f"{path}.target.{field}", target[field], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.invalid(f"{path}.target.averageUtilization", utilization, "must be greater than 0")
    if all(target.get(field) is None for field in needed):
        causes.required(f"{path}.target.{needed[0]}", "must set a target")
    if alone and all(target.get(field) is not None for field in alone):
        causes.forbidden(f"{path}.target.{alone[-1]}", "may not set both targets")


def _scaling(causes: Causes, path: str, rules: Json) -> None:
    """Judge how fast an autoscaler may scale in one direction."""
    window = rules.get("stabilizationWindowSeconds")
    causes.natural(f"{path}.stabilizationWindowSeconds", window)
    if isinstance(window, int) and window > _WINDOW_SECONDS:
        causes.invalid(f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {_WINDOW_SECONDS}")
    if rules.get("selectPolicy") is not None:
        causes.one_of(f"{path}.selectPolicy", rules["selectPolicy"] or " ", ("Disabled", "Max", "Min"))
    causes.quantity(f"{path}.tolerance", rules.get("tolerance"))
    if rules.get("policies") == []:
        causes.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or []):
        at = f"{path}.policies[{index}]"
        causes.one_of(f"{at}.type", policy.get("type") or " ", ("Percent", "Pods"))
        if (policy.get("value") or 0) <= 0:
            causes.invalid(f"{at}.value", policy.get("value") or 0, "must be greater than zero")
        period = policy.get("periodSeconds") or 0
        if period <= 0:
            causes.invalid(f"{at}.periodSeconds", period, "must be greater than zero")
        elif period > _PERIOD_SECONDS:
            causes.invalid(f"{at}.periodSeconds", period, f"must be less than or equal to {_PERIOD_SECONDS}")

"""Disruption budgets, priority classes, quotas, limit ranges, autoscalers.

Source: pkg/apis/{policy,scheduling,autoscaling}/validation; resource_quotas.go and limit_ranges.go of core/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.validation import names, quantities
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes
from hyperpod_ray_sandbox.kubernetes.validation.workloads import share

Json = dict[str, Any]

_HIGHEST = 1_000_000_000
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PODS = ("pods",)
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_SCOPED = (*_PODS, *_COMPUTE)
"""What a scope of pods can limit; `BestEffort` has nothing but their number."""
_COUNTED = {"BestEffort": _PODS}
_SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip


def _beyond(scope: str, hard: Json) -> bool:
    """Whether a quota limits what a scope of pods has not."""
    return any(quantities.is_standard(name) and name not in _COUNTED.get(scope, _SCOPED) for name in hard)


def disruption_budget(obj: Json) -> Causes:
    """Judge a PodDisruptionBudget."""
    causes, spec = Causes(), obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        share(causes, f"spec.{field}", spec.get(field))
    names.selector(causes, "spec.selector", spec.get("selector"))
    causes.choice(
        "spec.unhealthyPodEvictionPolicy", spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    )
    return causes


def priority_class(obj: Json) -> Causes:
    """Judge a PriorityClass."""
    causes, name, value = Causes(), obj["metadata"].get("name", ""), obj.get("value")
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            causes.forbidden(
                "metadata.name", "priority class names with 'system-' prefix are reserved for system use only"
            )
    elif isinstance(value, int) and value > _HIGHEST:
        causes.forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    causes.choice("preemptionPolicy", obj.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))
    return causes


def resource_quota(obj: Json) -> Causes:
    """Judge a ResourceQuota."""
    causes, spec = Causes(), obj.get("spec") or {}
    quantities.quota(causes, "spec.hard", spec.get("hard"))
    scopes = spec.get("scopes") or []
    if any(scope not in _SCOPES for scope in scopes):
        causes.invalid("spec.scopes", scopes, "unsupported scope")
    elif any(_beyond(scope, spec.get("hard") or {}) for scope in scopes if scope != "VolumeAttributesClass"):
        causes.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            causes.invalid("spec.scopes", scopes, "conflicting scopes")
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    for index, requirement in enumerate(selected):
        scope = requirement.get("scopeName")
        if scope in _SCOPES and scope != "VolumeAttributesClass" and _beyond(scope, spec.get("hard") or {}):
            path = "spec.scopeSelector.matchExpressions"
            causes.invalid(path, spec["scopeSelector"], "unsupported scope applied to resource")
        field_path = f"spec.scopeSelector.matchExpressions[{index}]"
        causes.one_of(f"{field_path}.scopeName", requirement.get("scopeName") or " ", _SCOPES)
        causes.one_of(
            f"{field_path}.operator", requirement.get("operator") or " ", ("In", "NotIn", "Exists", "DoesNotExist")
        )
        if requirement.get("scopeName") in _EXISTING and requirement.get("operator") != "Exists":
            words = ", ".join(f"ResourceQuotaScope{scope}" for scope in _EXISTING[:-1])
            causes.invalid(
                "spec.scopeSelector.matchExpressions.operator",
                requirement.get("operator"),
                f"must be 'Exists' when scope is any of {words} or ResourceQuotaScope{_EXISTING[-1]}",
            )
        if requirement.get("operator") in ("In", "NotIn") and not requirement.get("values"):
            causes.required(
                f"{field_path}.values",
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )
    return causes


_EXISTING = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
"""Scopes that a quota may only ask for."""


def _ratios(causes: Causes, field_path: str, limit: Json) -> None:
    """Judge the ratios between limits and requests."""
    for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        if number(ratio) < 1:
            causes.invalid(f"{field_path}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1")
        least, most = (limit.get("min") or {}).get(name), (limit.get("max") or {}).get(name)
        if least and most and number(least) and number(ratio) > number(most) / number(least):
            span = float(number(most) / number(least))
            causes.invalid(
                f"{field_path}.maxLimitRequestRatio[{name}]",
                ratio,
                f"ratio {ratio} is greater than max/min = {span:f}",
            )


def limit_range(obj: Json) -> Causes:  # noqa: PLR0912  (a list of fields)
    """Judge a LimitRange."""
    causes = Causes()
    limit_types: set[str] = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or []):
        field_path, limit_type = f"spec.limits[{index}]", limit.get("type") or ""
        if limit_type in limit_types:
            causes.duplicate(f"{field_path}.type", limit_type)
        limit_types.add(limit_type)
        if not limit_type:
            causes.required(f"{field_path}.type")
        elif "/" not in limit_type:
            causes.one_of(f"{field_path}.type", limit_type, ("Container", "PersistentVolumeClaim", "Pod"))
        else:
            names.key(causes, f"{field_path}.type", limit_type)
        for field in ("default", "defaultRequest", "max", "maxLimitRequestRatio", "min"):
            for name in limit.get(field) or {}:
                quantities.limited(
                    causes, f"{field_path}.{field}[{name}]", name, pods=limit_type in ("Container", "Pod")
                )
        if limit_type == "Pod":
            for field in ("default", "defaultRequest"):
                if limit.get(field):
                    causes.forbidden(f"{field_path}.{field}", "may not be specified when `type` is 'Pod'")
        ordered = ("min", "defaultRequest", "default", "max")
        for name in {n for f in ordered for n in limit.get(f) or {}}:
            present = [(f, limit[f][name]) for f in ordered if name in (limit.get(f) or {})]
            for at, (low, small) in enumerate(present):
                for high, big in present[at + 1 :]:
                    if number(small) > number(big):
                        causes.invalid(
                            f"{field_path}.{low}[{name}]",
                            small,
                            f"{low} value {small} is greater than {high} value {big}",
                        )
        for name, usual in (limit.get("default") or {}).items():
            asked = (limit.get("defaultRequest") or {}).get(name, usual)
            if quantities.is_extended(name) and number(asked) != number(usual):
                causes.invalid(
                    f"{field_path}.defaultRequest[{name}]",
                    asked,
                    f"default value {usual} must equal to defaultRequest value {asked} in {name}",
                )
        _ratios(causes, field_path, limit)
        if limit_type == "PersistentVolumeClaim" and not ({**(limit.get("min") or {}), **(limit.get("max") or {})}).get(
            "storage"
        ):
            causes.required(
                f"{field_path}.limits", "either minimum or maximum storage value is required, but neither was provided"
            )
    return causes

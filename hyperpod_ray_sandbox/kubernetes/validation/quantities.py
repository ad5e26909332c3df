"""Names and amounts of resources: requests, limits, quotas.

Source: ValidateResourceRequirements and ValidateResourceQuotaResourceName of pkg/apis/core/validation.
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_POD = ("cpu", "memory")
_OBJECTS = (
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "persistentvolumeclaims", "configmaps",
    "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_STANDARD = (
    *_CONTAINER, *_OBJECTS, "storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
)  # fmt: skip


def is_standard(name: str) -> bool:
    """Whether a name without a domain is one that Kubernetes knows."""
    return name in _STANDARD or name.startswith(("hugepages-", "requests.hugepages-"))


def is_extended(name: str) -> bool:
    """Whether a resource is one of a device plugin: with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.") and name_forms.is_key(name)


def _fixed(name: str) -> bool:
    """Whether a resource is not lent twice: its request is its limit."""
    return is_extended(name) or name.startswith("hugepages-")


def requirements(causes: Causes, path: str, resources: Json | None, *, of_pod: bool = False) -> None:
    """Judge requests and limits of a container, or of a whole pod."""
    resources = resources or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _amount(causes, f"{path}.{field}[{name}]", name, amount, of_pod=of_pod)
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and number(amount) > number(limit):
            causes.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")
        elif _fixed(name) and limit is None:
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif _fixed(name) and number(amount) != number(limit):
            causes.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
    every = {*limits, *requests}
    if any(n.startswith("hugepages-") for n in every) and not every & {"cpu", "memory"}:
        causes.forbidden(path, "HugePages require cpu or memory")


def _amount(causes: Causes, path: str, name: str, amount: Any, *, of_pod: bool) -> None:
    if not name_forms.is_key(name):
        names.key(causes, path, name)
    elif of_pod and name not in _POD and not name.startswith("hugepages-"):
        if "/" not in name and not is_standard(name):
            causes.invalid(path, name, "must be a standard resource type or fully qualified")
        else:
            causes.unsupported(path, name, _POD)
    elif "/" not in name:
        if not is_standard(name):
            causes.invalid(path, name, "must be a standard resource type or fully qualified")
        if name not in _CONTAINER and not name.startswith("hugepages-"):
            causes.invalid(path, name, "must be a standard resource for containers")
    elif "kubernetes.io/" not in name and not is_extended(name):
        causes.invalid(path, name, "doesn't follow extended resource name standard")
    value = number(amount)
    if value < 0:
        causes.invalid(path, amount, "must be greater than or equal to 0")
    if is_extended(name) and value != int(value):
        causes.invalid(path, amount, "must be an integer")
    if name.startswith("hugepages-"):
        size = number(name.removeprefix("hugepages-"))
        if size <= 0 or value % size:
            causes.invalid(path, amount, f"{amount} is not positive integer multiple of {name}")


def limited(causes: Causes, path: str, name: str, *, pods: bool) -> None:
    """Judge the name of a resource that a LimitRange limits."""
    if not name_forms.is_key(name):
        names.key(causes, path, name)
    elif "/" in name:
        return
    elif not is_standard(name):
        causes.invalid(path, name, "must be a standard resource type or fully qualified")
    elif pods and name not in _CONTAINER and not name.startswith("hugepages-"):
        causes.invalid(path, name, "must be a standard resource for containers")


def quota(causes: Causes, path: str, hard: Json | None) -> None:
    """Judge what a ResourceQuota limits."""
    for name, amount in (hard or {}).items():
        field_path = f"{path}[{name}]"
        plain = name.removeprefix("requests.")
        if name.startswith("count/"):
            if not name_forms.is_key(name):
                names.key(causes, field_path, name)
        elif "/" in plain:
            if not name_forms.is_key(plain):
                names.key(causes, field_path, name)
        elif not is_standard(name):
            causes.invalid(field_path, name, "must be a standard resource type or fully qualified")
            causes.invalid(field_path, name, "must be a standard resource for quota")
        causes.quantity(field_path, amount)
        if (name in _OBJECTS or name.startswith("count/") or "/" in plain) and number(amount) != int(number(amount)):
            causes.invalid(field_path, amount, "must be an integer")

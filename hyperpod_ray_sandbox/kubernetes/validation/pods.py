"""Pod specifications: their containers, their volumes, and where they may run.

Source: ValidatePodSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import containers, names, volumes
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")


def pod_spec(causes: Causes, path: str, spec: Json) -> None:
    """Judge a pod's specification."""
    known = volumes.volumes(causes, f"{path}.volumes", spec.get("volumes"))
    _containers(causes, path, spec, known)
    causes.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    causes.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        causes.required(
            f"{path}.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )
    names.labels(causes, f"{path}.nodeSelector", spec.get("nodeSelector"))
    tolerations(causes, f"{path}.tolerations", spec.get("tolerations"))
    _affinity(causes, f"{path}.affinity", spec.get("affinity") or {})
    _spread(causes, f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints"))
    _security(causes, path, spec)
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(field):
            names.subdomain(causes, f"{path}.{field}", spec[field])
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            names.label(causes, f"{path}.{field}", spec[field])
    if isinstance(spec.get("activeDeadlineSeconds"), int):
        causes.within(f"{path}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], 1, 2147483647)
    causes.one_of(f"{path}.preemptionPolicy", spec.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))
    causes.one_of(f"{path}.os.name", (spec.get("os") or {}).get("name"), ("linux", "windows"))
    for index, alias in enumerate(spec.get("hostAliases") or []):
        if not _address(alias.get("ip")):
            causes.invalid(
                f"{path}.hostAliases[{index}].ip", alias.get("ip"), "must be a valid IP address, (e.g. 10.9.8.7)"
            )
    for index, gate in enumerate(spec.get("readinessGates") or []):
        names.key(causes, f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType") or "")
    for index, secret in enumerate(spec.get("imagePullSecrets") or []):
        if not secret.get("name"):
            causes.required(f"{path}.imagePullSecrets[{index}].name")


def _address(text: Any) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def _containers(causes: Causes, path: str, spec: Json, known: set[str]) -> None:
    if not spec.get("containers"):
        causes.required(f"{path}.containers")
    seen: set[str] = set()
    taken: set[tuple[Any, ...]] = set()
    for field in ("initContainers", "containers"):
        for index, one in enumerate(spec.get(field) or []):
            here, name = f"{path}.{field}[{index}]", one.get("name") or ""
            if name and name in seen:
                causes.duplicate(f"{here}.name", name)
            seen.add(name)
            containers.container(causes, here, one, known, init=field == "initContainers")
            for at, port in enumerate(one.get("ports") or []):
                number = port.get("hostPort")
                if not number:
                    continue
                if spec.get("hostNetwork") and number != port.get("containerPort"):
                    causes.invalid(
                        f"{here}.ports[{at}].containerPort",
                        port.get("containerPort"),
                        "must match `hostPort` when `hostNetwork` is true",
                    )
                mark = (port.get("protocol"), port.get("hostIP"), number)
                if field == "containers" and mark in taken:
                    causes.duplicate(f"{here}.ports[{at}].hostPort", f"{port.get('protocol')}//{number}")
                taken.add(mark)


def tolerations(causes: Causes, path: str, given: list[Json] | None) -> None:
    """Judge tolerations."""
    for index, one in enumerate(given or []):
        here = f"{path}[{index}]"
        operator, effect, value = one.get("operator") or "", one.get("effect") or "", one.get("value") or ""
        if one.get("key"):
            names.key(causes, f"{here}.key", one["key"])
        elif operator != "Exists":
            causes.invalid(
                f"{here}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            causes.invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator == "Exists":
            if value:
                causes.invalid(f"{here}.operator", one, "value must be empty when `operator` is 'Exists'")
        elif operator in ("", "Equal"):
            if not names.is_value(value):
                causes.invalid(f"{here}.operator", value, "a valid label must be an empty string or consist of …")
        else:
            causes.one_of(f"{here}.operator", operator, ("Equal", "Exists"))
        causes.one_of(f"{here}.effect", effect, EFFECTS)


def _requirement(causes: Causes, here: str, one: Json) -> None:
    operator, values = one.get("operator"), one.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            causes.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            causes.forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            causes.required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        causes.invalid(f"{here}.operator", operator, "not a valid selector operator")
    names.key(causes, f"{here}.key", one.get("key") or "")
    for at, value in enumerate(values):
        if not names.is_value(value):
            causes.invalid(f"{here}.values[{at}]", value, "a valid label must be an empty string or consist of …")


def _term(causes: Causes, here: str, term: Json) -> None:
    for index, one in enumerate(term.get("matchExpressions") or []):
        _requirement(causes, f"{here}.matchExpressions[{index}]", one)
    for index, one in enumerate(term.get("matchFields") or []):
        at = f"{here}.matchFields[{index}]"
        if one.get("key") != "metadata.name":
            causes.invalid(f"{at}.key", one.get("key"), "not a valid field selector key")
        if one.get("operator") not in ("In", "NotIn"):
            causes.invalid(f"{at}.operator", one.get("operator"), "not a valid selector operator")
        elif len(one.get("values") or []) != 1:
            causes.required(
                f"{at}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )


def node_selector(causes: Causes, path: str, given: Json) -> None:
    """Judge a selector of nodes by terms."""
    terms = given.get("nodeSelectorTerms") or []
    if not terms:
        causes.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        _term(causes, f"{path}.nodeSelectorTerms[{index}]", term)


def _affinity(causes: Causes, path: str, given: Json) -> None:
    node = given.get("nodeAffinity") or {}
    if node.get("requiredDuringSchedulingIgnoredDuringExecution") is not None:
        here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        node_selector(causes, here, node["requiredDuringSchedulingIgnoredDuringExecution"])
    for index, one in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        here = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _weight(causes, here, one)
        _term(causes, f"{here}.preference", one.get("preference") or {})
    for kind in ("podAffinity", "podAntiAffinity"):
        pod = given.get(kind) or {}
        for index, one in enumerate(pod.get("requiredDuringSchedulingIgnoredDuringExecution") or []):
            _pod_term(causes, f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", one)
        for index, one in enumerate(pod.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
            here = f"{path}.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            _weight(causes, here, one)
            _pod_term(causes, f"{here}.podAffinityTerm", one.get("podAffinityTerm") or {})


def _weight(causes: Causes, here: str, one: Json) -> None:
    if not 1 <= int(one.get("weight") or 0) <= 100:
        causes.invalid(f"{here}.weight", one.get("weight") or 0, "must be in the range 1-100")


def _pod_term(causes: Causes, here: str, term: Json) -> None:
    names.selector(causes, f"{here}.labelSelector", term.get("labelSelector"))
    names.selector(causes, f"{here}.namespaceSelector", term.get("namespaceSelector"))
    for index, name in enumerate(term.get("namespaces") or []):
        names.label(causes, f"{here}.namespaces[{index}]", name)
    if not term.get("topologyKey"):
        causes.required(f"{here}.topologyKey", "can not be empty")
    else:
        names.key(causes, f"{here}.topologyKey", term["topologyKey"])


def _spread(causes: Causes, path: str, given: list[Json] | None) -> None:
    seen: set[tuple[str, str]] = set()
    for index, one in enumerate(given or []):
        here = f"{path}[{index}]"
        if int(one.get("maxSkew") or 0) <= 0:
            causes.invalid(f"{here}.maxSkew", one.get("maxSkew") or 0, "must be greater than zero")
        if not one.get("topologyKey"):
            causes.required(f"{here}.topologyKey", "can not be empty")
        what = one.get("whenUnsatisfiable") or ""
        if not what:
            causes.required(f"{here}.whenUnsatisfiable")
        causes.one_of(f"{here}.whenUnsatisfiable", what, ("DoNotSchedule", "ScheduleAnyway"))
        mark = (str(one.get("topologyKey")), what)
        if mark in seen:
            causes.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{mark[0]}, {mark[1]}}}")
        seen.add(mark)
        least = one.get("minDomains")
        if isinstance(least, int) and least <= 0:
            causes.invalid(f"{here}.minDomains", least, "must be greater than zero")
        names.selector(causes, f"{here}.labelSelector", one.get("labelSelector"))


def _security(causes: Causes, path: str, spec: Json) -> None:
    context, here = spec.get("securityContext") or {}, f"{path}.securityContext"
    containers.identity(causes, here, context)
    containers.profile(causes, f"{here}.seccompProfile", context.get("seccompProfile"))
    containers.profile(causes, f"{here}.appArmorProfile", context.get("appArmorProfile"))
    causes.one_of(f"{here}.fsGroupChangePolicy", context.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch"))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        causes.invalid(
            f"{path}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled"
        )
    for index, entry in enumerate(context.get("sysctls") or []):
        if not _SYSCTL.fullmatch(entry.get("name") or ""):
            causes.invalid(f"{here}.sysctls[{index}].name", entry.get("name"), "must match the form of a sysctl")

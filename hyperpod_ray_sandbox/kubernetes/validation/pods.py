"""Pod specifications: their containers, their volumes, and where they may run.

Source: ValidatePodSpec of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.validation import containers, names, pod_parts, quantities, volumes
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_SYSCTL_RULE = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_IPC_PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")


def pod_spec(causes: Causes, path: str, spec: Json) -> None:
    """Judge a pod's specification."""
    volume_names = volumes.volumes(causes, f"{path}.volumes", spec.get("volumes"))
    _containers(causes, path, spec, volume_names)
    if spec.get("overhead"):
        quantities.requirements(causes, f"{path}.overhead", {"limits": spec["overhead"]})
    causes.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    causes.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    pod_parts.resolver(causes, path, spec)
    pod_parts.host_name(causes, path, spec)
    pod_parts.host_process(causes, path, spec)
    pod_parts.operating_system(causes, path, spec)
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
        if not names.is_address(alias.get("ip")):
            causes.invalid(
                f"{path}.hostAliases[{index}].ip", alias.get("ip"), "must be a valid IP address, (e.g. 10.9.8.7)"
            )
        for at, name in enumerate(alias.get("hostnames") or []):
            names.subdomain(causes, f"{path}.hostAliases[{index}].hostnames[{at}]", name)
    for index, gate in enumerate(spec.get("readinessGates") or []):
        names.key(causes, f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType") or "")
    _gates(causes, path, spec)


def _gates(causes: Causes, path: str, spec: Json) -> None:
    """Judge the gates that hold a pod back from its node."""
    gates = [str(gate.get("name") or "") for gate in spec.get("schedulingGates") or []]
    for index, gate in enumerate(gates):
        names.key(causes, f"{path}.schedulingGates[{index}].name", gate)
        if gate in gates[:index]:
            causes.duplicate(f"{path}.schedulingGates[{index}]", gate)
    if gates and spec.get("nodeName"):
        causes.forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _containers(causes: Causes, path: str, spec: Json, volume_names: set[str]) -> None:
    if not spec.get("containers"):
        causes.required(f"{path}.containers")
    container_names: set[str] = set()
    claimed = pod_parts.claims(causes, path, spec)
    pod_resources(causes, f"{path}.resources", spec)
    taken: set[tuple[Any, ...]] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            field_path, name = f"{path}.{field}[{index}]", container.get("name") or ""
            if name and name in container_names:
                causes.duplicate(f"{field_path}.name", name)
            container_names.add(name)
            containers.container(
                causes,
                field_path,
                container,
                volume_names,
                init=field == "initContainers",
                grace_seconds=int(spec.get("terminationGracePeriodSeconds") or 0),
            )
            pod_parts.used_claims(causes, f"{field_path}.resources", container.get("resources"), claimed)
            pod_parts.devices(causes, f"{field_path}.volumeDevices", container, spec.get("volumes"))
            restart = spec.get("restartPolicy") or "Always"
            pod_parts.resizing(causes, f"{field_path}.resizePolicy", container.get("resizePolicy"), restart)
            for at, port in enumerate(container.get("ports") or []):
                number = port.get("hostPort")
                if not number:
                    continue
                if spec.get("hostNetwork") and number != port.get("containerPort"):
                    causes.invalid(
                        f"{field_path}.ports[{at}].hostPort",
                        number,
                        "must match `containerPort` when `hostNetwork` is true",
                    )
                mark = (port.get("protocol"), port.get("hostIP"), number)
                if field == "containers" and mark in taken:
                    causes.duplicate(f"{field_path}.ports[{at}].hostPort", f"{port.get('protocol')}//{number}")
                taken.add(mark)


def tolerations(causes: Causes, path: str, declared: list[Json] | None) -> None:
    """Judge tolerations."""
    for index, toleration in enumerate(declared or []):
        field_path = f"{path}[{index}]"
        operator, effect, value = (
            toleration.get("operator") or "",
            toleration.get("effect") or "",
            toleration.get("value") or "",
        )
        if toleration.get("key"):
            names.key(causes, f"{field_path}.key", toleration["key"])
        elif operator != "Exists":
            causes.invalid(
                f"{field_path}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            causes.invalid(f"{field_path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator == "Exists":
            if value:
                causes.invalid(f"{field_path}.operator", toleration, "value must be empty when `operator` is 'Exists'")
        elif operator in ("", "Equal"):
            if not name_forms.is_value(value):
                causes.invalid(f"{field_path}.operator", value, name_forms.value_rule(value))
        else:
            causes.one_of(f"{field_path}.operator", operator, ("Equal", "Exists"))
        causes.one_of(f"{field_path}.effect", effect, EFFECTS)


def _requirement(causes: Causes, path: str, requirement: Json) -> None:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            causes.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            causes.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        causes.invalid(f"{path}.operator", operator, "not a valid selector operator")
    names.key(causes, f"{path}.key", requirement.get("key") or "")
    for at, value in enumerate(values):
        if not name_forms.is_value(value):
            causes.invalid(f"{path}.values[{at}]", value, name_forms.value_rule(value))


def _term(causes: Causes, path: str, term: Json) -> None:
    for index, requirement in enumerate(term.get("matchExpressions") or []):
        _requirement(causes, f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.get("matchFields") or []):
        at = f"{path}.matchFields[{index}]"
        if requirement.get("key") != "metadata.name":
            causes.invalid(f"{at}.key", requirement.get("key"), "not a valid field selector key")
        if requirement.get("operator") not in ("In", "NotIn"):
            causes.invalid(f"{at}.operator", requirement.get("operator"), "not a valid selector operator")
        elif len(requirement.get("values") or []) != 1:
            causes.required(
                f"{at}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )


def node_selector(causes: Causes, path: str, selector: Json) -> None:
    """Judge a selector of nodes by terms."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        causes.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        _term(causes, f"{path}.nodeSelectorTerms[{index}]", term)


def _affinity(causes: Causes, path: str, affinity: Json) -> None:
    node = affinity.get("nodeAffinity") or {}
    if node.get("requiredDuringSchedulingIgnoredDuringExecution") is not None:
        term_path = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        node_selector(causes, term_path, node["requiredDuringSchedulingIgnoredDuringExecution"])
    for index, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        term_path = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _weight(causes, term_path, term)
        _term(causes, f"{term_path}.preference", term.get("preference") or {})
    for affinity_type in ("podAffinity", "podAntiAffinity"):
        pod = affinity.get(affinity_type) or {}
        for index, term in enumerate(pod.get("requiredDuringSchedulingIgnoredDuringExecution") or []):
            _pod_term(causes, f"{path}.{affinity_type}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term)
        for index, term in enumerate(pod.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
            term_path = f"{path}.{affinity_type}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            _weight(causes, term_path, term)
            _pod_term(causes, f"{term_path}.podAffinityTerm", term.get("podAffinityTerm") or {})


def _weight(causes: Causes, path: str, term: Json) -> None:
    if not 1 <= int(term.get("weight") or 0) <= 100:
        causes.invalid(f"{path}.weight", term.get("weight") or 0, "must be in the range 1-100")


def _pod_term(causes: Causes, path: str, term: Json) -> None:
    names.selector(causes, f"{path}.labelSelector", term.get("labelSelector"))
    names.selector(causes, f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for index, name in enumerate(term.get("namespaces") or []):
        names.label(causes, f"{path}.namespaces[{index}]", name)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        _label_keys(causes, f"{path}.{field}", term.get(field), term.get("labelSelector"))
    for index, key in enumerate(term.get("matchLabelKeys") or []):
        if key in (term.get("mismatchLabelKeys") or []):
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.invalid(f"{path}.matchLabelKeys[{index}]", key, why)
    if not term.get("topologyKey"):
        causes.required(f"{path}.topologyKey", "can not be empty")
    else:
        names.key(causes, f"{path}.topologyKey", term["topologyKey"])


def _label_keys(causes: Causes, path: str, keys: list[str] | None, selector: Json | None) -> None:
    """Judge keys whose values are looked up in the pod that comes, and join a selector."""
    if keys and selector is None:
        causes.forbidden(path, "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys or []):
        names.key(causes, f"{path}[{index}]", key)


def _spread(causes: Causes, path: str, constraints: list[Json] | None) -> None:
    constraints = constraints or []
    every = [(str(c.get("topologyKey")), c.get("whenUnsatisfiable") or "") for c in constraints]
    for index, constraint in enumerate(constraints):
        field_path = f"{path}[{index}]"
        if int(constraint.get("maxSkew") or 0) <= 0:
            causes.invalid(f"{field_path}.maxSkew", constraint.get("maxSkew") or 0, "must be greater than zero")
        if not constraint.get("topologyKey"):
            causes.required(f"{field_path}.topologyKey", "can not be empty")
        action = constraint.get("whenUnsatisfiable") or ""
        if not action:
            causes.required(f"{field_path}.whenUnsatisfiable")
        causes.one_of(f"{field_path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        mark = every[index]
        if mark in every[index + 1 :]:
            causes.duplicate(f"{field_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{mark[0]}, {mark[1]}}}")
        min_domains = constraint.get("minDomains")
        if isinstance(min_domains, int) and min_domains <= 0:
            causes.invalid(f"{field_path}.minDomains", min_domains, "must be greater than zero")
        if min_domains is not None and action == "ScheduleAnyway":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            causes.invalid(f"{field_path}.minDomains", min_domains, why)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            causes.choice(f"{field_path}.{field}", constraint.get(field), ("Honor", "Ignore"))
        keys, selector = constraint.get("matchLabelKeys"), constraint.get("labelSelector")
        _label_keys(causes, f"{field_path}.matchLabelKeys", keys, selector)
        names.selector(causes, f"{field_path}.labelSelector", constraint.get("labelSelector"))


def _security(causes: Causes, path: str, spec: Json) -> None:
    context, context_path = spec.get("securityContext") or {}, f"{path}.securityContext"
    containers.identity(causes, context_path, context)
    containers.profile(causes, f"{context_path}.seccompProfile", context.get("seccompProfile"))
    containers.profile(causes, f"{context_path}.appArmorProfile", context.get("appArmorProfile"))
    pod_parts.windows(causes, f"{context_path}.windowsOptions", context.get("windowsOptions"))
    causes.one_of(
        f"{context_path}.seLinuxChangePolicy", context.get("seLinuxChangePolicy"), ("MountOption", "Recursive")
    )
    causes.one_of(
        f"{context_path}.supplementalGroupsPolicy", context.get("supplementalGroupsPolicy"), ("Merge", "Strict")
    )
    causes.one_of(
        f"{context_path}.fsGroupChangePolicy", context.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch")
    )
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        causes.invalid(
            f"{path}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled"
        )
    _sysctls(causes, f"{context_path}.sysctls", spec, context.get("sysctls") or [])
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            mount = (container.get("securityContext") or {}).get("procMount")
            if mount == "Unmasked" and spec.get("hostUsers") is not False:
                at = f"{path}.{field}[{index}].securityContext.procMount"
                causes.invalid(at, mount, "`hostUsers` must be false to use `Unmasked`")
    if spec.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(field):
                causes.forbidden(f"{path}.{field}", "when `hostUsers` is false")


def _sysctls(causes: Causes, path: str, spec: Json, sysctls: list[Json]) -> None:
    """Judge parameters of the kernel: none that the pod shares with its node."""
    every = [str(sysctl.get("name") or "") for sysctl in sysctls]
    for index, name in enumerate(every):
        at = f"{path}[{index}].name"
        if not name:
            causes.required(at)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            causes.invalid(at, name, f"must have at most 253 characters and match regex {_SYSCTL_RULE}")
        elif name in every[:index]:
            causes.duplicate(at, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            causes.invalid(at, name, "may not be specified when 'hostNetwork' is true")
        if spec.get("hostIPC") and (dotted.startswith(_IPC_PREFIXES) or dotted == "kernel.sem"):
            causes.invalid(at, name, "may not be specified when 'hostIPC' is true")


def pod_resources(causes: Causes, path: str, spec: Json) -> None:
    """Judge requests and limits of the whole pod: at least those of its containers together."""
    resources = spec.get("resources")
    if resources is None:
        return
    if resources.get("claims") is not None:
        causes.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    quantities.requirements(causes, path, resources, of_pod=True)
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        total = sum(number(_requested(c, name)) for c in spec.get("containers") or [])
        if total > number(amount):
            why = f"must be greater than or equal to aggregate container requests of {total}"
            causes.invalid(f"{path}.requests[{name}]", amount, why)
    for index, container in enumerate(spec.get("containers") or []):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and number(amount) > number(limits[name]):
                why = f"must be less than or equal to pod limits of {limits[name]}"
                causes.invalid(f"{path}.containers[{index}][{name}].limits", amount, why)


def _requested(container: Json, name: str) -> Any:
    """What a container requests of a resource; its limit where it names no request."""
    resources = container.get("resources") or {}
    asked = (resources.get("requests") or {}).get(name)
    return (resources.get("limits") or {}).get(name, 0) if asked is None else asked

"""Pod Security admission: the checks of the levels baseline and restricted.

Source: k8s.io/pod-security-admission/policy; https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Json = dict[str, Any]

PREFIX = "pod-security.kubernetes.io/"
_PODS_OF = {
    "Pod": (),
    "Deployment": ("template",),
    "DaemonSet": ("template",),
    "StatefulSet": ("template",),
    "ReplicaSet": ("template",),
    "ReplicationController": ("template",),
    "Job": ("template",),
    "CronJob": ("jobTemplate", "spec", "template"),
}
_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
}  # fmt: skip
_SELINUX = {None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_VOLUMES = {
    "configMap",
    "downwardAPI",
    "emptyDir",
    "projected",
    "secret",
    "csi",
    "persistentVolumeClaim",
    "ephemeral",
    "image",
}
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"

# a check returns what is wrong: a reason and its detail, or nothing
Check = Callable[[Json, Json], tuple[str, str] | None]


def _every(spec: Json) -> list[Json]:
    return [c for f in ("initContainers", "containers", "ephemeralContainers") for c in spec.get(f) or []]


def _context(container: Json) -> Json:
    context: Json = container.get("securityContext") or {}
    return context


def _quoted(names: Iterable[Any]) -> str:
    return ", ".join(f'"{n}"' for n in names)


def _named(word: str, names: list[str]) -> str:
    return f"{word}{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _containers(spec: Json, violates: Callable[[Json], Any], demand: str) -> str:
    names = [c["name"] for c in _every(spec) if violates(c)]
    return f"{_named('container', names)} {demand}" if names else ""


def _found(reason: str, *details: str) -> tuple[str, str] | None:
    detail = "; ".join(d for d in details if d)
    return (reason, detail) if detail else None


def _host_namespaces(_: Json, spec: Json) -> tuple[str, str] | None:
    used = [f for f in ("hostNetwork", "hostPID", "hostIPC") if spec.get(f)]
    return _found("host namespaces", ", ".join(f"{f}=true" for f in used))


def _host_paths(_: Json, spec: Json) -> tuple[str, str] | None:
    names = [v["name"] for v in spec.get("volumes") or [] if v.get("hostPath") is not None]
    return _found("hostPath volumes", _named("volume", names) if names else "")


def _host_ports(_: Json, spec: Json) -> tuple[str, str] | None:
    used = [(c["name"], p["hostPort"]) for c in _every(spec) for p in c.get("ports") or [] if p.get("hostPort")]
    names = list(dict.fromkeys(n for n, _ in used))
    ports = sorted({str(p) for _, p in used})
    word = "hostPort" if len(ports) == 1 else "hostPorts"
    verb = "use" if len(names) > 1 else "uses"
    return _found("hostPort", f"{_named('container', names)} {verb} {word} {', '.join(ports)}" if used else "")


def _host_probes(_: Json, spec: Json) -> tuple[str, str] | None:
    def wrong(container: Json) -> bool:
        handlers = [container.get(p) or {} for p in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [h or {} for h in (container.get("lifecycle") or {}).values() if isinstance(h, dict)]
        return any((h.get(k) or {}).get("host") for h in handlers for k in ("httpGet", "tcpSocket"))

    return _found("probe or lifecycle host", _containers(spec, wrong, "must not set probe or lifecycle host"))


def _privileged(_: Json, spec: Json) -> tuple[str, str] | None:
    detail = _containers(spec, lambda c: _context(c).get("privileged"), "must not set securityContext.privileged=true")
    return _found("privileged", detail)


def _added(spec: Json, allowed: set[str]) -> str:
    capabilities = {c["name"]: (_context(c).get("capabilities") or {}).get("add") or [] for c in _every(spec)}
    capabilities = {name: [a for a in added if a not in allowed] for name, added in capabilities.items()}
    names = [name for name, added in capabilities.items() if added]
    forbidden = sorted({a for added in capabilities.values() for a in added})
    text = f"{_named('container', names)} must not include {_quoted(forbidden)} in securityContext.capabilities.add"
    return text if names else ""


def _capabilities(_: Json, spec: Json) -> tuple[str, str] | None:
    return _found("non-default capabilities", _added(spec, _CAPABILITIES))


def _proc_mount(_: Json, spec: Json) -> tuple[str, str] | None:
    mounts = {c["name"]: _context(c).get("procMount") for c in _every(spec)}
    names = [n for n, v in mounts.items() if v not in (None, "", "Default")]
    kinds = _quoted(sorted({str(mounts[n]) for n in names}))
    detail = f"{_named('container', names)} must not set securityContext.procMount to {kinds}"
    return _found("procMount", detail if names and spec.get("hostUsers") is not False else "")


def _selinux(_: Json, spec: Json) -> tuple[str, str] | None:
    def wrong(options: Json | None) -> bool:
        options = options or {}
        return options.get("type") not in _SELINUX or bool(options.get("user")) or bool(options.get("role"))

    pod = "pod" if wrong((spec.get("securityContext") or {}).get("seLinuxOptions")) else ""
    inner = [c["name"] for c in _every(spec) if wrong(_context(c).get("seLinuxOptions"))]
    subject = " and ".join(x for x in (pod, _named("container", inner) if inner else "") if x)
    return _found("seLinuxOptions", f"{subject} set forbidden securityContext.seLinuxOptions" if subject else "")


def _profile(context: Json, name: str) -> Any:
    return (context.get(name) or {}).get("type")


def _seccomp(_: Json, spec: Json) -> tuple[str, str] | None:
    demand = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    pod = _profile(spec.get("securityContext") or {}, "seccompProfile") == "Unconfined"
    detail = _containers(spec, lambda c: _profile(_context(c), "seccompProfile") == "Unconfined", demand)
    return _found("seccompProfile", f"pod {demand}" if pod else "", detail)


def _sysctls(_: Json, spec: Json) -> tuple[str, str] | None:
    sysctls = [s["name"].replace("/", ".") for s in (spec.get("securityContext") or {}).get("sysctls") or []]
    return _found("forbidden sysctls", ", ".join(n for n in sysctls if n not in _SYSCTLS))


def _apparmor(meta: Json, spec: Json) -> tuple[str, str] | None:
    forbidden = [
        f"{k}={v}"
        for k, v in (meta.get("annotations") or {}).items()
        if k.startswith(_APPARMOR) and v not in ("", "runtime/default") and not v.startswith("localhost/")
    ]
    demand = 'must not set AppArmor profile type to "Unconfined"'
    pod = _profile(spec.get("securityContext") or {}, "appArmorProfile") == "Unconfined"
    detail = _containers(spec, lambda c: _profile(_context(c), "appArmorProfile") == "Unconfined", demand)
    return _found("forbidden AppArmor profiles", f"pod {demand}" if pod else "", detail, ", ".join(sorted(forbidden)))


def _host_process(_: Json, spec: Json) -> tuple[str, str] | None:
    demand = "must not set securityContext.windowsOptions.hostProcess=true"
    pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    detail = _containers(spec, lambda c: (_context(c).get("windowsOptions") or {}).get("hostProcess"), demand)
    return _found("hostProcess", f"pod {demand}" if pod else "", detail)


def _escalation(_: Json, spec: Json) -> tuple[str, str] | None:
    demand = "must set securityContext.allowPrivilegeEscalation=false"
    detail = _containers(spec, lambda c: _context(c).get("allowPrivilegeEscalation") is not False, demand)
    return _found("allowPrivilegeEscalation != false", detail)


def _drop_all(_: Json, spec: Json) -> tuple[str, str] | None:
    kept = _containers(
        spec,
        lambda c: "ALL" not in ((_context(c).get("capabilities") or {}).get("drop") or []),
        'must set securityContext.capabilities.drop=["ALL"]',
    )
    return _found("unrestricted capabilities", kept, _added(spec, {"NET_BIND_SERVICE"}))


def _volume_types(_: Json, spec: Json) -> tuple[str, str] | None:
    restricted = {
        v["name"]: sorted(k for k, source in v.items() if k != "name" and source is not None and k not in _VOLUMES)
        for v in spec.get("volumes") or []
    }
    restricted = {name: kinds for name, kinds in restricted.items() if kinds}
    kinds = sorted({k for names in restricted.values() for k in names})
    verb, word = ("uses", "type") if len(restricted) == 1 else ("use", "types")
    detail = f"{_named('volume', list(restricted))} {verb} restricted volume {word} {_quoted(kinds)}"
    return _found("restricted volume types", detail if restricted else "")


def _non_root(_: Json, spec: Json) -> tuple[str, str] | None:
    pod = (spec.get("securityContext") or {}).get("runAsNonRoot")
    demand = "must not set securityContext.runAsNonRoot=false"
    detail = _containers(spec, lambda c: _context(c).get("runAsNonRoot") is False, demand)
    if pod is False or detail:
        return _found("runAsNonRoot != true", f"pod {demand}" if pod is False else "", detail)
    if pod is True:
        return None
    unset = _containers(
        spec, lambda c: _context(c).get("runAsNonRoot") is None, "must set securityContext.runAsNonRoot=true"
    )
    return _found("runAsNonRoot != true", f"pod or {unset}" if unset else "")


def _root_user(_: Json, spec: Json) -> tuple[str, str] | None:
    pod = (spec.get("securityContext") or {}).get("runAsUser") == 0
    detail = _containers(spec, lambda c: _context(c).get("runAsUser") == 0, "must not set runAsUser=0")
    return _found("runAsUser=0", "pod must not set runAsUser=0" if pod else "", detail)


def _seccomp_set(_: Json, spec: Json) -> tuple[str, str] | None:
    allowed = ("RuntimeDefault", "Localhost")
    pod = _profile(spec.get("securityContext") or {}, "seccompProfile")
    demand = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    detail = _containers(
        spec, lambda c: _profile(_context(c), "seccompProfile") not in (None, *allowed), f"must set {demand}"
    )
    if pod not in (None, *allowed) or detail:
        return _found("seccompProfile", f"pod must set {demand}" if pod not in (None, *allowed) else "", detail)
    if pod in allowed:
        return None
    unset = _containers(spec, lambda c: _profile(_context(c), "seccompProfile") is None, f"must set {demand}")
    return _found("seccompProfile", f"pod or {unset}" if unset else "")


# in the order in which the API server names them
_BASELINE: tuple[Check, ...] = (
    _apparmor, _capabilities, _host_namespaces, _host_paths, _host_ports, _host_probes, _privileged, _proc_mount,
    _selinux, _seccomp, _sysctls, _host_process,
)  # fmt: skip
_RESTRICTED: tuple[Check, ...] = (_escalation, _drop_all, _volume_types, _non_root, _root_user, _seccomp_set)
# restricted has a stricter form of these
_REPLACED = (_capabilities, _seccomp)


def violations(level: str, meta: Json, spec: Json) -> str:
    """What a pod does that a level forbids, or nothing."""
    checks: tuple[Check, ...] = ()
    if level == "baseline":
        checks = _BASELINE
    elif level == "restricted":
        checks = (*(c for c in _BASELINE if c not in _REPLACED), *_RESTRICTED)
    if (spec.get("os") or {}).get("name") == "windows":
        checks = tuple(c for c in checks if c not in (_escalation, _drop_all, _seccomp_set))
    failures = [failure for check in checks if (failure := check(meta, spec))]
    return ", ".join(f"{reason} ({detail})" for reason, detail in failures)


def pod_of(obj: Json) -> tuple[Json, Json] | None:
    """The metadata and the spec of the pods that an object is or makes."""
    steps = _PODS_OF.get(obj["kind"])
    if steps is None:
        return None
    part: Json = obj if not steps else obj.get("spec") or {}
    for step in steps:
        part = part.get(step) or {}
    return part.get("metadata") or {}, part.get("spec") or {}


def refusal(namespace: Json, obj: Json) -> str:
    """Why a namespace does not admit a pod, or nothing."""
    labels = namespace["metadata"].get("labels") or {}
    level = labels.get(f"{PREFIX}enforce", "privileged")
    if obj["kind"] != "Pod":
        return ""
    details = violations(level, obj["metadata"], obj["spec"])
    version = labels.get(f"{PREFIX}enforce-version", "latest")
    return f'violates PodSecurity "{level}:{version}": {details}' if details else ""


def warning(namespace: Json, obj: Json) -> str:
    """What to warn the author of a pod, or of what makes pods, about; or nothing."""
    labels = namespace["metadata"].get("labels") or {}
    pod = pod_of(obj)
    if pod is None:
        return ""
    level = labels.get(f"{PREFIX}warn", "privileged")
    details = violations(level, *pod)
    version = labels.get(f"{PREFIX}warn-version", "latest")
    return f'would violate PodSecurity "{level}:{version}": {details}' if details else ""

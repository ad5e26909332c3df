"""Containers: environment, ports, mounts, probes, security context.

Source: validateContainers and what it calls, of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names, quantities, volumes
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_FIELD_PATHS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['.+'\]")
_RESOURCE = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_MOST_ID = 2147483647


def environment(causes: Causes, path: str, given: list[Json] | None) -> None:
    """Judge environment variables."""
    for index, entry in enumerate(given or []):
        here = f"{path}[{index}]"
        names.environment(causes, f"{here}.name", entry.get("name") or "")
        source = entry.get("valueFrom")
        if source is None:
            continue
        kinds = [k for k in _ENV_SOURCES if source.get(k)]
        if not kinds:
            causes.invalid(f"{here}.valueFrom", "", f"must specify one of: `{'`, `'.join(_ENV_SOURCES)}`")
        elif entry.get("value"):
            causes.invalid(f"{here}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(kinds) > 1:
            causes.invalid(f"{here}.valueFrom", "", "may not have more than one field specified at a time")
        for kind in kinds:
            _env_source(causes, f"{here}.valueFrom.{kind}", kind, source[kind])


def _env_source(causes: Causes, path: str, kind: str, given: Json) -> None:
    if kind == "fieldRef":
        field = given.get("fieldPath") or ""
        if not field:
            causes.required(f"{path}.fieldPath")
        elif not _SUBSCRIPT.fullmatch(field):
            causes.one_of(f"{path}.fieldPath", field, _FIELD_PATHS)
    elif kind == "resourceFieldRef":
        resource = given.get("resource") or ""
        if not resource:
            causes.required(f"{path}.resource")
        elif not _RESOURCE.fullmatch(resource):
            causes.one_of(
                f"{path}.resource", resource, ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
            )
    elif kind in ("configMapKeyRef", "secretKeyRef"):
        if not given.get("name"):
            causes.required(f"{path}.name")
        if not given.get("key"):
            causes.required(f"{path}.key")
        else:
            names.config_key(causes, f"{path}.key", given["key"])


def _environment_from(causes: Causes, path: str, given: list[Json] | None) -> None:
    for index, entry in enumerate(given or []):
        here = f"{path}[{index}]"
        if entry.get("prefix"):
            names.environment(causes, f"{here}.prefix", entry["prefix"])
        kinds = [k for k in ("configMapRef", "secretRef") if entry.get(k) is not None]
        if not kinds:
            causes.invalid(f"{path}", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            causes.invalid(f"{path}", "", "may not have more than one field specified at a time")
        for kind in kinds:
            if not entry[kind].get("name"):
                causes.required(f"{path}.{kind}.name")


def _ports(causes: Causes, path: str, given: list[Json] | None) -> None:
    seen: set[str] = set()
    for index, port in enumerate(given or []):
        here, name = f"{path}[{index}]", port.get("name")
        if name:
            names.port_name(causes, f"{here}.name", name)
            if name in seen:
                causes.duplicate(f"{here}.name", name)
            seen.add(name)
        if not port.get("containerPort"):
            causes.required(f"{here}.containerPort")
        else:
            causes.port(f"{here}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            causes.port(f"{here}.hostPort", port["hostPort"])
        causes.one_of(f"{here}.protocol", port.get("protocol"), PROTOCOLS)


def _mounts(causes: Causes, path: str, container: Json, known: set[str]) -> None:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        here = f"{path}[{index}]"
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            causes.required(f"{here}.name")
        elif name not in known:
            causes.missing(f"{here}.name", name)
        if not place:
            causes.required(f"{here}.mountPath")
        if place in places:
            causes.invalid(f"{here}.mountPath", place, "must be unique")
        places.add(place)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                volumes.relative(causes, f"{path}.{field}", mount[field])
        if mount.get("subPath") and mount.get("subPathExpr"):
            causes.invalid(
                f"{path}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        spread = mount.get("mountPropagation")
        causes.one_of(f"{here}.mountPropagation", spread, ("Bidirectional", "HostToContainer", "None"))
        if spread == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            causes.forbidden(
                f"{here}.mountPropagation", "Bidirectional mount propagation is available only to privileged containers"
            )


def _handler(causes: Causes, path: str, given: Json) -> None:
    kinds = [k for k in _HANDLERS if given.get(k) is not None]
    if not kinds:
        causes.required(path, "must specify a handler type")
    for kind in kinds[1:]:
        causes.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    for kind in kinds[:1]:
        here, one = f"{path}.{kind}", given[kind]
        if kind == "exec" and not one.get("command"):
            causes.required(f"{here}.command")
        if kind in ("httpGet", "tcpSocket", "grpc"):
            names.port_or_name(causes, f"{here}.port", one.get("port"))
        if kind == "httpGet":
            causes.one_of(f"{here}.scheme", one.get("scheme"), ("HTTP", "HTTPS"))


def _probe(causes: Causes, path: str, kind: str, given: Json) -> None:
    _handler(causes, path, given)
    for field in _PROBE_NUMBERS:
        causes.natural(f"{path}.{field}", given.get(field))
    threshold, grace = given.get("successThreshold"), given.get("terminationGracePeriodSeconds")
    if kind != "readinessProbe" and threshold not in (None, 0, 1):
        causes.invalid(f"{path}.successThreshold", threshold, "must be 1")
    if grace is not None and kind == "readinessProbe":
        causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif isinstance(grace, int) and grace <= 0:
        causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def profile(causes: Causes, path: str, given: Json | None) -> None:
    """Judge a seccomp or AppArmor profile."""
    if given is None:
        return
    kind, file = given.get("type"), given.get("localhostProfile")
    if not kind:
        causes.required(f"{path}.type", "type is required")
    causes.one_of(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
    if kind == "Localhost" and not file:
        causes.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    if kind != "Localhost" and file is not None:
        causes.invalid(f"{path}.localhostProfile", file, "can only be set when seccomp type is Localhost")


def identity(causes: Causes, path: str, context: Json) -> None:
    """Judge users and groups."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        causes.within(f"{path}.{field}", context.get(field), 0, _MOST_ID)
    for index, group in enumerate(context.get("supplementalGroups") or []):
        causes.within(f"{path}.supplementalGroups[{index}]", group, 0, _MOST_ID)


def _security(causes: Causes, path: str, context: Json) -> None:
    identity(causes, path, context)
    profile(causes, f"{path}.seccompProfile", context.get("seccompProfile"))
    profile(causes, f"{path}.appArmorProfile", context.get("appArmorProfile"))
    causes.one_of(f"{path}.procMount", context.get("procMount"), ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            causes.invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
            causes.invalid(
                path, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            )


def container(  # noqa: PLR0912  (a list of fields)
    causes: Causes, here: str, given: Json, known: set[str], *, init: bool
) -> None:
    """Judge one container; `known` are the names of the pod's volumes."""
    if not given.get("name"):
        causes.required(f"{here}.name")
    else:
        names.label(causes, f"{here}.name", given["name"])
    image = given.get("image") or ""
    if not image:
        causes.required(f"{here}.image")
    elif image != image.strip():
        causes.invalid(f"{here}.image", image, "must not have leading or trailing whitespace")
    causes.one_of(f"{here}.imagePullPolicy", given.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"))
    causes.one_of(
        f"{here}.terminationMessagePolicy", given.get("terminationMessagePolicy"), ("FallbackToLogsOnError", "File")
    )
    _ports(causes, f"{here}.ports", given.get("ports"))
    environment(causes, f"{here}.env", given.get("env"))
    _environment_from(causes, f"{here}.envFrom", given.get("envFrom"))
    _mounts(causes, f"{here}.volumeMounts", given, known)
    quantities.requirements(causes, f"{here}.resources", given.get("resources"))
    _security(causes, f"{here}.securityContext", given.get("securityContext") or {})
    sidecar = init and given.get("restartPolicy") == "Always"
    if init:
        causes.one_of(f"{here}.restartPolicy", given.get("restartPolicy"), ("Always", "Never", "OnFailure"))
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if given.get(kind) is None:
            continue
        if init and not sidecar:
            causes.forbidden(f"{here}.{kind}", "may not be set for init containers without restartPolicy=Always")
        else:
            _probe(causes, f"{here}.{kind}", kind, given[kind])
    for moment in ("postStart", "preStop"):
        hook = (given.get("lifecycle") or {}).get(moment)
        if hook is not None:
            if init and not sidecar:
                causes.forbidden(f"{here}.lifecycle", "may not be set for init containers without restartPolicy=Always")
            else:
                _handler(causes, f"{here}.lifecycle.{moment}", hook)

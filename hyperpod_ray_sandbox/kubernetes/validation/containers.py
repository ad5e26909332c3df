"""Containers: environment, ports, mounts, probes, security context.

Source: validateContainers and what it calls, of pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names, pod_parts, quantities, volumes
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_FIELD_PATHS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_RESOURCE = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_MOST_ID = 2147483647


def environment(causes: Causes, path: str, variables: list[Json] | None, volume_names: set[str]) -> None:
    """Judge environment variables."""
    for index, variable in enumerate(variables or []):
        field_path = f"{path}[{index}]"
        names.environment(causes, f"{field_path}.name", variable.get("name") or "")
        source = variable.get("valueFrom")
        if source is None:
            continue
        kinds = [k for k in _ENV_SOURCES if source.get(k)]
        if not kinds:
            causes.invalid(f"{field_path}.valueFrom", "", f"must specify one of: `{'`, `'.join(_ENV_SOURCES)}`")
        elif variable.get("value"):
            causes.invalid(f"{field_path}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(kinds) > 1:
            causes.invalid(f"{field_path}.valueFrom", "", "may not have more than one field specified at a time")
        for source_type in kinds:
            _env_source(causes, f"{field_path}.valueFrom.{source_type}", source_type, source[source_type])
        file = source.get("fileKeyRef")
        if file and file.get("volumeName") not in volume_names:
            causes.missing(f"{field_path}.valueFrom.fileKeyRef.volumeName", file.get("volumeName") or "")


def _env_source(causes: Causes, path: str, source_type: str, source: Json) -> None:
    if source_type == "fieldRef":
        field, subscript = source.get("fieldPath") or "", _SUBSCRIPT.fullmatch(source.get("fieldPath") or "")
        if not field:
            causes.required(f"{path}.fieldPath")
        elif source.get("apiVersion") not in (None, "", "v1"):
            why = f"error converting fieldPath: unsupported pod version: {source['apiVersion']}"
            causes.invalid(f"{path}.fieldPath", field, why)
        elif subscript:
            names.key(causes, path, subscript[2].lower() if subscript[1] == "annotations" else subscript[2])
        else:
            causes.one_of(f"{path}.fieldPath", field, _FIELD_PATHS)
    elif source_type == "resourceFieldRef":
        resource = source.get("resource") or ""
        if not resource:
            causes.required(f"{path}.resource")
        elif not _RESOURCE.fullmatch(resource):
            causes.one_of(
                f"{path}.resource", resource, ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
            )
        volumes.divisor(causes, path, source)
    elif source_type in ("configMapKeyRef", "secretKeyRef"):
        if not source.get("name"):
            causes.required(f"{path}.name")
        if not source.get("key"):
            causes.required(f"{path}.key")
        else:
            names.config_key(causes, f"{path}.key", source["key"])


def _environment_from(causes: Causes, path: str, sources: list[Json] | None) -> None:
    for index, source in enumerate(sources or []):
        field_path = f"{path}[{index}]"
        if source.get("prefix"):
            names.environment(causes, f"{field_path}.prefix", source["prefix"])
        kinds = [k for k in ("configMapRef", "secretRef") if source.get(k) is not None]
        if not kinds:
            causes.invalid(f"{path}", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(kinds) > 1:
            causes.invalid(f"{path}", "", "may not have more than one field specified at a time")
        for source_type in kinds:
            if not source[source_type].get("name"):
                causes.required(f"{path}.{source_type}.name")


def _ports(causes: Causes, path: str, ports: list[Json] | None) -> None:
    port_names: set[str] = set()
    for index, port in enumerate(ports or []):
        field_path, name = f"{path}[{index}]", port.get("name")
        if name:
            names.port_name(causes, f"{field_path}.name", name)
            if name in port_names:
                causes.duplicate(f"{field_path}.name", name)
            port_names.add(name)
        if not port.get("containerPort"):
            causes.required(f"{field_path}.containerPort")
        else:
            causes.port(f"{field_path}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            causes.port(f"{field_path}.hostPort", port["hostPort"])
        causes.one_of(f"{field_path}.protocol", port.get("protocol"), PROTOCOLS)


def _recursive(causes: Causes, path: str, mount: Json) -> None:
    """Judge whether what is mounted below a mount is read-only too."""
    asked = mount.get("recursiveReadOnly")
    causes.choice(path, asked, ("Disabled", "Enabled", "IfPossible"))
    if asked not in ("Enabled", "IfPossible"):
        return
    if not mount.get("readOnly"):
        causes.forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        causes.forbidden(path, "may only be specified when mountPropagation is None or not specified")


def _mounts(causes: Causes, path: str, container: Json, volume_names: set[str]) -> None:
    places: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        field_path = f"{path}[{index}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            causes.required(f"{field_path}.name")
        elif name not in volume_names:
            causes.missing(f"{field_path}.name", name)
        if not mount_path:
            causes.required(f"{field_path}.mountPath")
        if mount_path in places:
            causes.invalid(f"{field_path}.mountPath", mount_path, "must be unique")
        places.add(mount_path)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                volumes.relative(causes, f"{path}.{field}", mount[field])
        if mount.get("subPath") and mount.get("subPathExpr"):
            causes.invalid(
                f"{path}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        _recursive(causes, f"{field_path}.recursiveReadOnly", mount)
        spread = mount.get("mountPropagation")
        causes.choice(f"{field_path}.mountPropagation", spread, ("Bidirectional", "HostToContainer", "None"))
        if spread == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            causes.forbidden(
                f"{field_path}.mountPropagation",
                "Bidirectional mount propagation is available only to privileged containers",
            )


def _handler(causes: Causes, path: str, handler: Json) -> None:
    kinds = [k for k in _HANDLERS if handler.get(k) is not None]
    if not kinds:
        causes.required(path, "must specify a handler type")
    for handler_type in kinds[1:]:
        causes.forbidden(f"{path}.{handler_type}", "may not specify more than 1 handler type")
    for handler_type in kinds[:1]:
        field_path, action = f"{path}.{handler_type}", handler[handler_type]
        if handler_type == "exec" and not action.get("command"):
            causes.required(f"{field_path}.command")
        if handler_type in ("httpGet", "tcpSocket", "grpc"):
            names.port_or_name(causes, f"{field_path}.port", action.get("port"))
        if handler_type == "httpGet":
            causes.one_of(f"{field_path}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
            for header in action.get("httpHeaders") or []:
                if not _HEADER.fullmatch(header.get("name") or ""):
                    why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name'"
                    causes.invalid(f"{field_path}.httpHeaders", header.get("name") or "", why)


def _probe(causes: Causes, path: str, probe_type: str, probe: Json) -> None:
    _handler(causes, path, probe)
    for field in _PROBE_NUMBERS:
        causes.natural(f"{path}.{field}", probe.get(field))
    threshold, grace = probe.get("successThreshold"), probe.get("terminationGracePeriodSeconds")
    if probe_type != "readinessProbe" and threshold not in (None, 0, 1):
        causes.invalid(f"{path}.successThreshold", threshold, "must be 1")
    if grace is not None and probe_type == "readinessProbe":
        causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif isinstance(grace, int) and grace <= 0:
        causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def profile(causes: Causes, path: str, declared: Json | None) -> None:
    """Judge a seccomp or AppArmor profile."""
    if declared is None:
        return
    profile_type, file = declared.get("type"), declared.get("localhostProfile")
    if not profile_type:
        causes.required(f"{path}.type", "type is required")
    causes.one_of(f"{path}.type", profile_type, ("Localhost", "RuntimeDefault", "Unconfined"))
    if profile_type == "Localhost" and not file:
        causes.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    if profile_type != "Localhost" and file is not None:
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
    pod_parts.windows(causes, f"{path}.windowsOptions", context.get("windowsOptions"))
    causes.choice(f"{path}.procMount", context.get("procMount"), ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            causes.invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
            causes.invalid(
                path, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            )


_NOT_EPHEMERAL = (
    "ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy",
    "restartPolicy", "restartPolicyRules",
)  # fmt: skip


def ephemeral(causes: Causes, spec: Json, volume_names: set[str]) -> None:
    """Judge the containers that somebody adds to a pod that runs, as `kubectl debug` does."""
    permanent = {c.get("name") for field in ("containers", "initContainers") for c in spec.get(field) or []}
    taken = set(permanent)
    for index, debugger in enumerate(spec.get("ephemeralContainers") or []):
        path = f"spec.ephemeralContainers[{index}]"
        plain = {field: value for field, value in debugger.items() if field not in _NOT_EPHEMERAL}
        container(causes, path, plain, volume_names, init=False, grace_seconds=0)
        if debugger.get("name") in taken:
            causes.duplicate(f"{path}.name", debugger["name"])
        taken.add(debugger.get("name"))
        target = debugger.get("targetContainerName")
        if target and target not in permanent:
            causes.missing(f"{path}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if debugger.get(field):
                causes.forbidden(f"{path}.{field}", "cannot be set for an Ephemeral Container")
        for at, mount in enumerate(debugger.get("volumeMounts") or []):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    causes.forbidden(f"{path}.volumeMounts[{at}].{field}", "cannot be set for an Ephemeral Container")


def container(  # noqa: PLR0912  (a list of fields)
    causes: Causes, path: str, spec: Json, volume_names: set[str], *, init: bool, grace_seconds: int
) -> None:
    """Judge one container; `volume_names` are the names of the pod's volumes."""
    if not spec.get("name"):
        causes.required(f"{path}.name")
    else:
        names.label(causes, f"{path}.name", spec["name"])
    image = spec.get("image") or ""
    if not image:
        causes.required(f"{path}.image")
    elif image != image.strip():
        causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    causes.one_of(f"{path}.imagePullPolicy", spec.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"))
    causes.one_of(
        f"{path}.terminationMessagePolicy", spec.get("terminationMessagePolicy"), ("FallbackToLogsOnError", "File")
    )
    _ports(causes, f"{path}.ports", spec.get("ports"))
    environment(causes, f"{path}.env", spec.get("env"), volume_names)
    _environment_from(causes, f"{path}.envFrom", spec.get("envFrom"))
    _mounts(causes, f"{path}.volumeMounts", spec, volume_names)
    quantities.requirements(causes, f"{path}.resources", spec.get("resources"))
    _security(causes, f"{path}.securityContext", spec.get("securityContext") or {})
    sidecar = init and spec.get("restartPolicy") == "Always"
    pod_parts.restarts(causes, path, spec)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if spec.get(probe) is None:
            continue
        if init and not sidecar:
            causes.forbidden(f"{path}.{probe}", "may not be set for init containers without restartPolicy=Always")
        else:
            _probe(causes, f"{path}.{probe}", probe, spec[probe])
    for moment in ("postStart", "preStop"):
        hook = (spec.get("lifecycle") or {}).get(moment)
        if hook is not None:
            if init and not sidecar:
                causes.forbidden(f"{path}.lifecycle", "may not be set for init containers without restartPolicy=Always")
            else:
                _handler(causes, f"{path}.lifecycle.{moment}", hook)
                seconds = (hook.get("sleep") or {}).get("seconds")
                if isinstance(seconds, int) and not 0 <= seconds <= grace_seconds:
                    rule = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                    causes.invalid(f"{path}.lifecycle.{moment}.sleep.seconds", seconds, rule)

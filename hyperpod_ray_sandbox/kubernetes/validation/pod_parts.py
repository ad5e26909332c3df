"""Parts of a pod's specification that few pods have: names, claims, signals, restarts, and Windows.

Source: the functions of the same names in pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_NAMESERVERS, _SEARCHES, _SEARCH_CHARACTERS = 3, 32, 2048
_SEARCH = re.compile(r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*")
_HOSTNAME = 64
_RULES, _CODES = 20, 255
_USER = re.compile(r'[^"/:;|=,+*?<>@\[\]]+')
_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf'[^/:*?"<>|.][^/:*?"<>|]{{0,14}}|{_DNS_LABEL}(?:\.{_DNS_LABEL})*')
"""Of NetBIOS, or of DNS."""
RESTARTS = ("Always", "Never", "OnFailure")


def resolver(causes: Causes, path: str, spec: Json) -> None:
    """Judge where a pod resolves names."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None" and config is None:
        causes.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    elif spec.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        causes.required(f"{path}.dnsConfig.nameservers", why)
    servers, searches = ((config or {}).get(field) or [] for field in ("nameservers", "searches"))
    if len(servers) > _NAMESERVERS:
        causes.invalid(f"{path}.dnsConfig.nameservers", servers, f"must not have more than {_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        names.address(causes, f"{path}.dnsConfig.nameservers[{index}]", server)
    if len(searches) > _SEARCHES:
        causes.invalid(f"{path}.dnsConfig.searches", searches, f"must not have more than {_SEARCHES} search paths")
    if len(" ".join(searches)) > _SEARCH_CHARACTERS:
        why = f"must not have more than {_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        causes.invalid(f"{path}.dnsConfig.searches", searches, why)
    for index, search in enumerate(searches):
        plain = search.removesuffix(".")
        if search != "." and not (len(plain) <= 253 and _SEARCH.fullmatch(plain)):
            causes.invalid(
                f"{path}.dnsConfig.searches[{index}]", search, "a lowercase RFC 1123 subdomain must consist of"
            )
    for index, option in enumerate((config or {}).get("options") or []):
        if not option.get("name"):
            causes.required(f"{path}.dnsConfig.options[{index}]", "must not be empty")


def host_name(causes: Causes, path: str, spec: Json) -> None:
    """Judge the name that a pod takes in place of its own."""
    name = spec.get("hostnameOverride")
    if name is None:
        return
    at = f"{path}.hostnameOverride"
    names.subdomain(causes, at, name)
    if len(name) > _HOSTNAME:
        causes.long(at, _HOSTNAME)
    if spec.get("setHostnameAsFQDN"):
        causes.forbidden(at, "cannot be set when `setHostnameAsFQDN` is true")
    if spec.get("hostNetwork"):
        causes.forbidden(at, "cannot be set when `hostNetwork` is true")


def claims(causes: Causes, path: str, spec: Json) -> list[str]:
    """Judge the claims of devices; return their names."""
    claimed: list[str] = []
    for index, claim in enumerate(spec.get("resourceClaims") or []):
        at, name = f"{path}.resourceClaims[{index}]", claim.get("name") or ""
        sources = [f for f in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(f) is not None]
        if not name:
            causes.required(f"{at}.name")
        elif name in claimed:
            causes.duplicate(f"{at}.name", name)
        else:
            names.label(causes, f"{at}.name", name)
        claimed.append(name)
        if len(sources) != 1:
            why = "at most" if sources else "must specify"
            causes.invalid(at, claim, f"{why} one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for field in sources:
            names.subdomain(causes, f"{at}.{field}", claim[field])
    return claimed


def used_claims(causes: Causes, path: str, resources: Json | None, claimed: list[str]) -> None:
    """Judge which of a pod's claims a container uses."""
    used: list[tuple[str, str]] = []
    for index, claim in enumerate((resources or {}).get("claims") or []):
        at, name, request = f"{path}.claims[{index}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            causes.required(f"{at}.name")
        elif (name, request) in used or ((name, "") in used) or (not request and name in [n for n, _ in used]):
            causes.duplicate(at, name)
        if request:
            names.label(causes, f"{at}.request", request)
        used.append((name, request))
        if name not in claimed:
            causes.missing(f"{at}.name", name)


def resizing(causes: Causes, path: str, policies: list[Json] | None, restart: str) -> None:
    """Judge what happens to a container whose resources change."""
    for index, policy in enumerate(policies or []):
        resource, action = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in [earlier.get("resourceName") for earlier in (policies or [])[:index]]:
            causes.duplicate(f"{path}[{index}]", resource)
        if not resource or not action:
            causes.required(path)
        causes.one_of(path, resource, ("cpu", "memory"))
        causes.one_of(path, action, ("NotRequired", "RestartContainer"))
        if restart == "Never" and action != "NotRequired":
            causes.invalid(path, action, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def restarts(causes: Causes, path: str, container: Json) -> None:
    """Judge when a container starts again, whatever its pod does."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None and rules:
        causes.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy is not None:
        causes.one_of(f"{path}.restartPolicy", policy or " ", RESTARTS)
    if len(rules) > _RULES:
        causes.too_many(f"{path}.restartPolicyRules", len(rules), _RULES)
    for index, rule in enumerate(rules):
        at, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        causes.one_of(f"{at}.action", rule.get("action") or " ", ("Restart", "RestartAllContainers"))
        if codes is None:
            causes.required(f"{at}.exitCodes", "must be specified")
            continue
        causes.one_of(f"{at}.exitCodes.operator", codes.get("operator") or " ", ("In", "NotIn"))
        if len(codes.get("values") or []) > _CODES:
            causes.too_many(f"{at}.exitCodes.values", len(codes["values"]), _CODES)


def windows(causes: Causes, path: str, options: Json | None) -> None:
    """Judge what only Windows has."""
    if options is None:
        return
    if options.get("gmsaCredentialSpecName") is not None:
        names.subdomain(causes, f"{path}.gmsaCredentialSpecName", options["gmsaCredentialSpecName"])
    if options.get("gmsaCredentialSpec") == "":
        causes.invalid(f"{path}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string")
    user = options.get("runAsUserName")
    if user is None:
        return
    at = f"{path}.runAsUserName"
    if not user:
        causes.invalid(at, user, "runAsUserName cannot be an empty string")
    elif re.search(r"[\x00-\x1f\x7f]", user):
        causes.invalid(at, user, "runAsUserName cannot contain control characters")
    elif user.count("\\") > 1:
        causes.invalid(at, user, "runAsUserName cannot contain more than one backslash")
    else:
        _windows_user(causes, at, user)


_LONGEST_DOMAIN, _LONGEST_USER = 255, 104


def _windows_user(causes: Causes, path: str, text: str) -> None:
    """Judge a user of Windows, with or without its domain."""
    domain, backslash, user = text.rpartition("\\")
    if len(domain.encode()) > _LONGEST_DOMAIN:
        why = f"runAsUserName's Domain length must be under {_LONGEST_DOMAIN + 1} characters"
        causes.invalid(path, text, why)
    if backslash and not _DOMAIN.fullmatch(domain):
        causes.invalid(path, text, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        causes.invalid(path, text, "runAsUserName's User cannot be empty")
    elif len(user.encode()) > _LONGEST_USER:
        why = f"runAsUserName's User length must not be longer than {_LONGEST_USER} characters"
        causes.invalid(path, text, why)
    if user and not user.strip(". "):
        causes.invalid(path, text, "runAsUserName's User cannot contain only periods or spaces")
    if user and not _USER.fullmatch(user):
        refused = r'"/\:;|=,+*?<>@[]'
        causes.invalid(path, text, f"runAsUserName's User cannot contain the following characters: {refused}")


_NOT_OF_WINDOWS = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")
_NOT_OF_WINDOWS_CONTEXTS = (
    "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "fsGroup", "fsGroupChangePolicy", "privileged",
    "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile",
    "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
)  # fmt: skip


def operating_system(causes: Causes, path: str, spec: Json) -> None:
    """Judge a pod by the fields that its operating system does not know: PodSpec.os of the API's reference."""
    system = (spec.get("os") or {}).get("name")
    contexts = {f"{path}.securityContext": spec.get("securityContext") or {}}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            contexts[f"{path}.{field}[{index}].securityContext"] = container.get("securityContext") or {}
    for at, context in contexts.items():
        if system == "linux" and context.get("windowsOptions") is not None:
            causes.forbidden(f"{at}.windowsOptions", "windows options cannot be set for a linux pod")
        for field in _NOT_OF_WINDOWS_CONTEXTS if system == "windows" else ():
            if context.get(field) not in (None, []):
                causes.forbidden(f"{at}.{field}", "cannot be set for a windows pod")
    for field in _NOT_OF_WINDOWS if system == "windows" else ():
        if spec.get(field) not in (None, False):
            causes.forbidden(f"{path}.{field}", "cannot be set for a windows pod")


def host_process(causes: Causes, path: str, spec: Json) -> None:
    """Judge a pod whose containers are processes of a Windows host: all of them are, on the host's network."""

    def asks(part: Json) -> Any:
        return ((part.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")

    of_pod = asks(spec)
    parts = [c for f in ("initContainers", "containers") for c in spec.get(f) or []]
    for container in parts:
        if of_pod is not None and asks(container) is not None and asks(container) != of_pod:
            why = "pod hostProcess value must be identical if both are specified"
            causes.invalid(f"{path}.containers", asks(container), why)
    effective = [of_pod if asks(container) is None else asks(container) for container in parts]
    if any(effective) and not all(effective):
        causes.invalid(
            path, None, "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
    if any(effective) and not spec.get("hostNetwork"):
        causes.invalid(
            f"{path}.hostNetwork", False, "hostNetwork must be true if pod contains any hostProcess containers"
        )


def devices(causes: Causes, path: str, container: Json, volumes: list[Json] | None) -> None:
    """Judge the block devices of a container."""
    sources = {volume.get("name"): volume for volume in volumes or []}
    mounted = [mount.get("name") for mount in container.get("volumeMounts") or []]
    declared = container.get("volumeDevices") or []
    for index, device in enumerate(declared):
        at, name, device_path = f"{path}[{index}]", device.get("name") or "", device.get("devicePath") or ""
        if not name:
            causes.required(f"{at}.name")
        elif name not in sources:
            causes.missing(f"{at}.name", name)
        elif not ({"persistentVolumeClaim", "ephemeral"} & set(sources[name])):
            causes.invalid(f"{at}.name", name, "can only use volume source type of PersistentVolumeClaim or Ephemeral")
        if name in mounted:
            causes.invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if not device_path:
            causes.required(f"{at}.devicePath")
        elif ".." in device_path.split("/"):
            causes.invalid(f"{at}.devicePath", device_path, "can not contain backsteps ('..')")
        for field, value in (("name", name), ("devicePath", device_path)):
            if value and value in [earlier.get(field) for earlier in declared[:index]]:
                causes.invalid(f"{at}.{field}", value, "must be unique")

"""ConfigMaps, Secrets, Namespaces and CustomResourceDefinitions.

Source: pkg/apis/core/validation, k8s.io/pod-security-admission/admission, k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_BYTES = 1024 * 1024
_POD_SECURITY = re.compile(r"pod-security\.kubernetes\.io/(enforce|audit|warn)(-version)?")
LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"latest|v1\.([0-9]|[1-9][0-9]*)")


def config_map(obj: Json) -> Causes:
    """Judge a ConfigMap."""
    causes, data, binary = Causes(), obj.get("data") or {}, obj.get("binaryData") or {}
    for field, values in (("data", data), ("binaryData", binary)):
        for name in values:
            names.config_key(causes, f"{field}[{name}]", name)
            if field == "data" and name in binary:
                causes.invalid(f"data[{name}]", name, "duplicate of key present in binaryData")
    size = sum(len(str(v).encode()) for v in data.values())
    size += sum(len(base64.b64decode(v or "")) for v in binary.values())
    if size > _BYTES:
        causes.long("", _BYTES)
    return causes


_SECRETS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def secret(obj: Json) -> Causes:
    """Judge a Secret."""
    causes, data, type_name = Causes(), obj.get("data") or {}, obj.get("type")
    for name in data:
        names.config_key(causes, f"data[{name}]", name)
    if sum(len(base64.b64decode(v or "")) for v in data.values()) > _BYTES:
        causes.long("data", _BYTES)
    for name in _SECRETS.get(str(type_name), ()):
        if name not in data:
            causes.required(f"data[{name}]")
        elif name.startswith(".docker"):
            try:
                json.loads(base64.b64decode(data[name]))
            except ValueError:
                causes.invalid(f"data[{name}]", "<secret contents redacted>", "invalid character in JSON")
    if type_name == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        causes.required("data[username]")
        causes.required("data[password]")
    account = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
    if type_name == "kubernetes.io/service-account-token" and not account:
        causes.required("metadata.annotations[kubernetes.io/service-account.name]")
    return causes


def namespace(obj: Json) -> Causes:
    """Judge a Namespace: its finalizers and its Pod Security labels."""
    causes = Causes()
    for index, text in enumerate((obj.get("spec") or {}).get("finalizers") or []):
        names.finalizer(causes, f"spec.finalizers[{index}]", text)
    for key, value in (obj["metadata"].get("labels") or {}).items():
        match = _POD_SECURITY.fullmatch(key)
        if match is None:
            continue
        path = f"metadata.labels[{key}]"
        if match[2] and not _VERSION.fullmatch(value):
            causes.invalid(path, value, 'must be "latest" or "v1.x"')
        elif not match[2] and value not in LEVELS:
            causes.invalid(path, value, f"must be one of {', '.join(LEVELS)}")
    return causes

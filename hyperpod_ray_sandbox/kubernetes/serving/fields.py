"""Field selectors: which fields a list of a kind may be selected by, and how they are read.

Source: the conversion functions of pkg/apis/*/v1/conversion.go and the `…ToSelectableFields` of pkg/registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import bad_request

Json = dict[str, Any]

_NAMES = ("metadata.name", "metadata.namespace")
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase",),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): ("status.replicas",),
    ("", "Event"): (
        *(f"involvedObject.{part}" for part in _ABOUT), "reason", "reportingComponent", "source", "type",
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{part}" for part in _ABOUT), "reason", "reportingController", "type",
    ),
    ("batch", "Job"): ("status.successful",),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
}  # fmt: skip
_BOOLEANS = ("spec.hostNetwork", "spec.unschedulable")
_COUNTS = {"status.replicas": "status.replicas", "status.successful": "status.succeeded"}
_TERM = re.compile(r"^(?P<field>[^=!]*?)(?P<operator>!=|==|=)(?P<value>.*)$", re.DOTALL)


def _terms(text: str) -> list[str]:
    """The parts between commas; a backslash escapes one."""
    return [part for part in re.split(r"(?<!\\),", text) if part]


def _unescaped(text: str, whole: str) -> str:
    plain = re.sub(r"\\([\\,=])", r"\1", text)
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![\\,=])", text) or re.search(r"(?<!\\)=", text):
        raise bad_request(f"invalid field selector: invalid value: {whole!r}")
    return plain


def _reader(resource: Resource, field: str) -> Callable[[Json], str]:
    """How a field of a kind is read; raises 400 for one that the kind is not selected by."""
    own = _selectable(resource) if resource.crd else _KINDS.get((resource.group, resource.kind))
    if field not in _NAMES and field not in (own or ()):
        if own is None:
            raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
        raise bad_request(f"field label not supported: {field}")
    if field in _COUNTS:
        return lambda obj: _at(obj, _COUNTS[field]) or "0"
    if field in _BOOLEANS:
        return lambda obj: _at(obj, field) or "false"
    if field == "source":
        return lambda obj: _at(obj, "source.component") or _at(obj, "reportingComponent")
    if field == "status.podIPs":
        return lambda obj: ",".join(str(ip.get("ip")) for ip in (obj.get("status") or {}).get("podIPs") or [])
    return lambda obj: _at(obj, field)


def _selectable(resource: Resource) -> tuple[str, ...]:
    return tuple(str(field["jsonPath"]).removeprefix(".") for field in resource.selectable_fields)


def _at(obj: Json, path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def requirements(text: str) -> list[tuple[str, bool, str]]:
    """The fields that a selector names, whether each must be equal, and to which value; raises 400."""
    parsed = []
    for term in _terms(text):
        match = _TERM.match(term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        parsed.append((match["field"], match["operator"] != "!=", _unescaped(match["value"], term)))
    return parsed


def field_selector(resource: Resource, text: str) -> Callable[[Json], bool]:
    """A test for objects of a kind: `metadata.name=x,status.phase!=Running`."""
    tests = [(_reader(resource, field), equal, value) for field, equal, value in requirements(text)]
    return lambda obj: all((read(obj) == value) == equal for read, equal, value in tests)


def single_name(text: str) -> str:
    """The one name that a selector allows; empty where it allows more."""
    names = [value for field, equal, value in requirements(text) if field == "metadata.name" and equal]
    return names[0] if len(names) == 1 else ""

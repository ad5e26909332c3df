"""Names, labels, keys and selectors.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go and pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_ENVIRONMENT = re.compile(r"[ -<>-~]+")
_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_PATH_SEGMENT = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_LABELS = ("Namespace", "Service", "StatefulSet")
# their names are judged as parts of a path alone
_UNNAMED = ("CertificateSigningRequest", "Event")
_ANNOTATION_BYTES = 262_144
ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
"""The ones that need no domain."""


def subdomain(causes: Causes, path: str, text: str) -> None:
    """Judge a subdomain."""
    if not name_forms.is_subdomain(text):
        causes.invalid(path, text, name_forms.SUBDOMAIN_RULE)


def label(causes: Causes, path: str, text: str) -> None:
    """Judge a label of a domain name."""
    if not name_forms.is_label(text):
        causes.invalid(path, text, name_forms.LABEL_RULE)


def key(causes: Causes, path: str, text: str) -> None:
    """Judge a qualified name."""
    if not name_forms.is_key(text):
        causes.invalid(path, text, name_forms.key_rule(text))


def domain_path(causes: Causes, path: str, text: str) -> None:
    """Judge a domain with a path behind it: `example.com/controller`."""
    domain, slash, rest = text.partition("/")
    if not text:
        causes.required(path)
    elif not slash or not rest:
        causes.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        subdomain(causes, path, domain)
    if len(text) > 63:
        causes.long(path, 63)


def labels(causes: Causes, path: str, entries: Json | None) -> None:
    """Judge labels."""
    for name, value in (entries or {}).items():
        key(causes, path, name)
        if not name_forms.is_value(value or ""):
            causes.invalid(path, value, name_forms.value_rule(value))


def annotated(causes: Causes, path: str, entries: Json | None) -> None:
    """Judge annotations."""
    for text in entries or {}:
        key(causes, path, text.lower())
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in (entries or {}).items()) > _ANNOTATION_BYTES:
        causes.long(path, _ANNOTATION_BYTES)


def finalizer(causes: Causes, path: str, text: str, *, qualified: bool = True) -> None:
    """Judge the name of a finalizer, which has a domain where it is none of Kubernetes' own."""
    if not name_forms.is_key(text):
        causes.invalid(path, text, name_forms.key_rule(text))
    elif qualified and "/" not in text and text not in _FINALIZERS:
        causes.invalid(path, text, "name is neither a standard finalizer name nor is it fully qualified")


def path_segment(causes: Causes, path: str, text: str) -> None:
    """Judge a name that is a part of a path."""
    if text in (".", "..") or "/" in text or "%" in text:
        causes.invalid(path, text, "may not be '.', '..', or contain '/' or '%'")


def is_address(text: Any) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def address(causes: Causes, path: str, text: Any) -> None:
    """Judge an IP address."""
    if not is_address(text):
        causes.invalid(path, text, ADDRESS_RULE)


def config_key(causes: Causes, path: str, text: str) -> None:
    """Judge a key of a ConfigMap or Secret."""
    if not _CONFIG_KEY.fullmatch(text) or text in (".", "..") or text.startswith("..") or len(text) > 253:
        causes.invalid(path, text, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'")


def environment(causes: Causes, path: str, text: str) -> None:
    """Judge the name of an environment variable."""
    if not text:
        causes.required(path)
    elif not _ENVIRONMENT.fullmatch(text):
        causes.invalid(
            path,
            text,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )


def port_name(causes: Causes, path: str, text: str) -> None:
    """Judge the name of a port."""
    if len(text) > 15:
        causes.invalid(path, text, "must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(text):
        causes.invalid(path, text, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    elif not re.search("[a-z]", text):
        causes.invalid(path, text, "must contain at least one letter (a-z)")
    if "--" in text:
        causes.invalid(path, text, "must not contain consecutive hyphens")


def port_or_name(causes: Causes, path: str, value: Any) -> None:
    """Judge a port given by number or name."""
    if isinstance(value, str):
        port_name(causes, path, value)
    else:
        causes.port(path, value)


def selector(causes: Causes, path: str, label_selector: Json | None) -> None:
    """Judge a label selector."""
    label_selector = label_selector or {}
    labels(causes, f"{path}.matchLabels", label_selector.get("matchLabels"))
    for index, expression in enumerate(label_selector.get("matchExpressions") or []):
        field_path, operator, values = (
            f"{path}.matchExpressions[{index}]",
            expression.get("operator"),
            expression.get("values"),
        )
        if operator in ("In", "NotIn"):
            if not values:
                causes.required(f"{field_path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                causes.forbidden(
                    f"{field_path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
        else:
            causes.invalid(f"{field_path}.operator", operator, "not a valid selector operator")
        key(causes, f"{field_path}.key", expression.get("key") or "")
        for at, value in enumerate(values or []):
            if not name_forms.is_value(value):
                causes.invalid(f"{field_path}.values[{at}]", value, name_forms.value_rule(value))


def _name(causes: Causes, resource: Resource, path: str, name: str) -> None:
    """Judge the name of an object as its kind is named."""
    builtin = not resource.crd
    unnamed = builtin and resource.kind in _UNNAMED and resource.group != "events.k8s.io"
    if unnamed or (builtin and resource.kind in _PATH_SEGMENT):
        if name in ("", ".", "..") or "/" in name or "%" in name:
            causes.invalid(path, name, "may not be '.', '..', or contain '/' or '%'")
    elif builtin and resource.kind in _LABELS:
        label(causes, path, name)
    else:
        subdomain(causes, path, name)


def metadata(resource: Resource, meta: Json) -> Causes:
    """Judge an object's metadata."""
    causes = Causes()
    name, prefix = str(meta.get("name", "")), str(meta.get("generateName") or "")
    if prefix:
        _name(causes, resource, "metadata.generateName", prefix[:-1] + "a" if prefix[1:].endswith("-") else prefix)
    _name(causes, resource, "metadata.name", name)
    labels(causes, "metadata.labels", meta.get("labels"))
    annotated(causes, "metadata.annotations", meta.get("annotations"))
    for text in meta.get("finalizers") or []:
        finalizer(causes, "metadata.finalizers", text, qualified=not resource.crd)
    if {"orphan", "foregroundDeletion"} <= set(meta.get("finalizers") or []):
        causes.invalid(
            "metadata.finalizers", meta["finalizers"], "finalizer orphan and foregroundDeletion cannot be both set"
        )
    controllers = 0
    for reference in meta.get("ownerReferences") or []:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                causes.invalid(f"metadata.ownerReferences.{field}", "", "must not be empty")
        if str(reference.get("apiVersion") or "").count("/") > 1:
            causes.invalid("metadata.ownerReferences.apiVersion", reference["apiVersion"], "version must not be empty")
        controllers += bool(reference.get("controller"))
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event"):
            causes.invalid("metadata.ownerReferences", reference, "/v1, Kind=Event is disallowed from being an owner")
    if controllers > 1:
        causes.invalid("metadata.ownerReferences", controllers, "Only one reference can have Controller set to true")
    return causes

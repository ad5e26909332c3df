"""Configurations of admission webhooks.

Source: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.expressions import language, signatures
from hyperpod_ray_sandbox.kubernetes.expressions.declared import ANYTHING, Declared, list_of, map_of, struct
from hyperpod_ray_sandbox.kubernetes.expressions.declared import STRING as TEXT
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import BOOL, DYN, INT, NULL, TIMESTAMP, ValueType
from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MOST_CONDITIONS = 64
_REVIEWS = ("v1", "v1beta1")


def configuration(obj: Json) -> Causes:
    """Judge a configuration of validating or mutating webhooks."""
    causes = Causes()
    taken: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or []):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        if not name:
            causes.required(f"{path}.name")
        elif not name_forms.is_subdomain(name) or name.count(".") < 2:
            causes.invalid(f"{path}.name", name, "should be a domain with at least three segments separated by dots")
        if name in taken:
            causes.duplicate(f"{path}.name", name)
        taken.add(name)
        _webhook(causes, path, webhook)
    return causes


def _reviews(causes: Causes, path: str, versions: list[str]) -> None:
    """Judge the versions of reviews that a webhook reads."""
    if not versions:
        causes.required(path, f"must specify one of {', '.join(_REVIEWS)}")
    elif not set(versions) & set(_REVIEWS):
        causes.invalid(path, versions, f"must include at least one of {', '.join(_REVIEWS)}")
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.invalid(f"{path}[{index}]", version, "duplicate version")
        elif not _VERSION.fullmatch(version):
            why = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
            causes.invalid(f"{path}[{index}]", version, why)


def _webhook(causes: Causes, path: str, webhook: Json) -> None:
    """Judge one webhook."""
    names.selector(causes, f"{path}.namespaceSelector", webhook.get("namespaceSelector"))
    names.selector(causes, f"{path}.objectSelector", webhook.get("objectSelector"))
    rules(causes, f"{path}.rules", webhook.get("rules"))
    causes.choice(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    causes.choice(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"))
    causes.choice(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        causes.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif side_effects not in ("None", "NoneOnDryRun"):
        causes.unsupported(f"{path}.sideEffects", side_effects, ("None", "NoneOnDryRun"))
    seconds = webhook.get("timeoutSeconds")
    if isinstance(seconds, int) and not 1 <= seconds <= 30:
        causes.invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    _reviews(causes, f"{path}.admissionReviewVersions", webhook.get("admissionReviewVersions") or [])
    client = webhook.get("clientConfig") or {}
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        causes.required(f"{path}.clientConfig", "exactly one of url or service is required")
    elif url is not None:
        _url(causes, f"{path}.clientConfig.url", url)
    elif service is not None:
        for field in ("namespace", "name"):
            if not service.get(field):
                causes.required(f"{path}.clientConfig.service.{field}", f"service {field} is required")
        causes.port(f"{path}.clientConfig.service.port", service.get("port"))
        service_path(causes, f"{path}.clientConfig.service.path", service.get("path") or "")
    conditions(causes, f"{path}.matchConditions", webhook.get("matchConditions"))


def service_path(causes: Causes, path: str, text: str) -> None:
    """Judge the path of a webhook behind a Service."""
    if text in ("", "/"):
        return
    if text == "//":
        causes.invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        causes.invalid(path, text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            causes.invalid(path, text, f"segment[{index}] may not be empty")
        elif not name_forms.is_subdomain(step):
            causes.invalid(path, text, f"segment[{index}]: {name_forms.SUBDOMAIN_RULE}")


_KIND = struct("kubernetes.GroupVersionKind", group=TEXT, version=TEXT, kind=TEXT)
_RESOURCE = struct("kubernetes.GroupVersionResource", group=TEXT, version=TEXT, resource=TEXT)
_REQUEST = struct(
    "kubernetes.AdmissionRequest",
    **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), TEXT),
    **dict.fromkeys(("kind", "requestKind"), _KIND),
    **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
    userInfo=struct("kubernetes.UserInfo", username=TEXT, uid=TEXT, groups=list_of(TEXT), extra=map_of(list_of(TEXT))),
    dryRun=Declared(BOOL),
    options=ANYTHING,
)
_CONDITION = struct(
    "kubernetes.NamespaceCondition",
    **dict.fromkeys(("status", "type", "message", "reason"), TEXT),
    lastTransitionTime=Declared(TIMESTAMP),
)
_NAMESPACE = struct(
    "kubernetes.Namespace",
    metadata=struct(
        "kubernetes.NamespaceMetadata",
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), TEXT),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), Declared(TIMESTAMP)),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), Declared(INT)),
        **dict.fromkeys(("labels", "annotations"), map_of(TEXT)),
        finalizers=list_of(TEXT),
    ),
    spec=struct("kubernetes.NamespaceSpec", finalizers=list_of(TEXT)),
    status=struct("kubernetes.NamespaceStatus", conditions=list_of(_CONDITION), phase=TEXT),
)
AUTHORIZER = Declared(signatures.AUTHORIZER, {"requestResource": Declared(signatures.RESOURCE_CHECK)})
VARIABLES = {
    **dict.fromkeys(("object", "oldObject"), ANYTHING),
    "request": _REQUEST,
    "namespaceObject": _NAMESPACE,
    "authorizer": AUTHORIZER,
}
"""What expressions of admission read.

Source: k8s.io/apiserver, pkg/admission/plugin/cel/compile.go.
"""


def expression(
    causes: Causes, path: str, text: str, variables: dict[str, Declared], answers: tuple[ValueType, ...]
) -> ValueType:
    """Judge an expression, and return the type that it gives; no `answers` allows any."""
    if not language.installed():
        return DYN
    try:
        answer = language.check(text, variables).answer
    except ValueError as error:
        causes.invalid(path, text, str(error))
        return DYN
    if answers and answer not in answers:
        words = " ".join(map(_named, answers))
        which = f"{words}" if len(answers) == 1 else f"one of [{words}]"
        causes.invalid(path, text, f"must evaluate to {which} but got {_named(answer)}")
    return answer


def _named(answer: ValueType) -> str:
    return "null_type" if answer == NULL else str(answer)


def conditions(
    causes: Causes, path: str, declared: list[Json] | None, variables: dict[str, Declared] | None = None
) -> None:
    """Judge match conditions: their names, and that they compile to a bool. Default variables: `VARIABLES`."""
    taken: set[str] = set()
    if len(declared or []) > _MOST_CONDITIONS:
        causes.too_many(path, len(declared or []), _MOST_CONDITIONS)
    for index, condition in enumerate(declared or []):
        at, name = f"{path}[{index}]", condition.get("name") or ""
        if not name:
            causes.required(f"{at}.name")
        else:
            names.key(causes, f"{at}.name", name)
        if name in taken:
            causes.duplicate(f"{at}.name", name)
        taken.add(name)
        text = condition.get("expression")
        if not (text or "").strip():
            causes.required(f"{at}.expression")
        else:
            expression(causes, f"{at}.expression", str(text).strip(), variables or VARIABLES, (BOOL,))


def _url(causes: Causes, path: str, text: str) -> None:
    """Judge the URL of a webhook."""
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        causes.required(path, f"url must be a valid URL: {error}{form}")
        return
    if parts.scheme != "https":
        causes.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not parts.netloc:
        causes.invalid(path, parts.netloc, f"host must be specified{form}")
    if parts.username is not None:
        causes.invalid(path, parts.username, "user information is not permitted in the URL")
    for word, value in (("fragments", parts.fragment), ("query parameters", parts.query)):
        if value:
            causes.invalid(path, value, f"{word} are not permitted in the URL")


_WORDS = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}


def rules(causes: Causes, path: str, declared: list[Json] | None) -> None:
    """Judge the rules that say which requests a webhook or policy is about."""
    for index, rule in enumerate(declared or []):
        at = f"{path}[{index}]"
        for field, word in _WORDS.items():
            values = rule.get(field) or []
            if not values:
                causes.required(f"{at}.{field}")
            if "*" in values and len(values) > 1:
                causes.invalid(f"{at}.{field}", values, f"if '*' is present, must not specify other {word}")
            for place, value in enumerate(values):
                if field == "operations" and value not in _OPERATIONS:
                    causes.unsupported(f"{at}.operations[{place}]", value, _OPERATIONS)
                elif field == "apiVersions" and not value:
                    causes.required(f"{at}.apiVersions[{place}]")
        _resources(causes, f"{at}.resources", rule.get("resources") or [])
        causes.choice(f"{at}.scope", rule.get("scope"), _SCOPES)


def _resources(causes: Causes, path: str, values: list[str]) -> None:
    """Judge the resources of a rule: none that a wildcard before it takes in."""
    if not values:
        causes.required(path)
    plain = False
    for index, value in enumerate(values):
        resource, _, subresource = value.partition("/")
        if not value:
            causes.required(f"{path}[{index}]")
        elif "/" not in value:
            plain = value != "*"
            continue
        for wider in (f"{resource}/*", f"*/{subresource}"):
            if subresource and wider in values[:index]:
                causes.invalid(f"{path}[{index}]", value, f"if '{wider}' is present, must not specify {value}")
    if "*/*" in values and len(values) > 1:
        causes.invalid(path, values, "if '*/*' is present, must not specify other resources")
    if "*" in values and plain:
        words = "if '*' is present, must not specify other resources without subresources"
        causes.invalid(path, values, words)

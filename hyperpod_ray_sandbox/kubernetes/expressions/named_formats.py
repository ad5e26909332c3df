"""The formats of text that expressions name: `format.dns1123Label().validate(self.name)`.

Source: k8s.io/apiserver, pkg/cel/library/format.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes import formats, name_forms
from hyperpod_ray_sandbox.kubernetes.expressions.signatures import FORMATS
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]

_OF_TEXT = {
    "uri": "invalid URI for request",
    "uuid": "does not match the UUID format",
    "byte": "invalid base64",
    "date": "invalid date",
    "datetime": "invalid datetime",
}


METHOD = "format_"
"""What the methods of optional values begin with where they are called on what a format gives."""
_USED = re.compile(r"(?<![.\w])format\.\w+\(")
_OPTIONAL = re.compile(r"\.\?|\[\?|(?<![.\w])optional\.|\.opt(?:Map|FlatMap)\(")


def rewritten(expression: str) -> str:
    """An expression whose formats give plain values; raises 501 where it has optional values of its own too."""
    text = re.compile(r"'[^']*'|\"[^\"]*\"")
    plain = text.sub("''", expression)
    if not _USED.search(plain):
        return expression
    if match := _OPTIONAL.search(plain):
        raise ApiError(
            501, "NotImplemented", f"the sandbox does not evaluate {match[0]} beside format: {expression}"[:400]
        )
    parts = re.split(r"('[^']*'|\"[^\"]*\")", expression)
    parts[::2] = [re.sub(r"\.(?=(?:hasValue|value|orValue|or)\()", f".{METHOD}", part) for part in parts[::2]]
    return "".join(parts)


def named(name: str) -> Json:
    """A format by its name; empty where there is none."""
    return {"format": name} if name in FORMATS else {}


def constant(name: str) -> Callable[[], Json]:
    """The function that gives a format."""
    return lambda: {"format": name}


def faults(form: Json, text: str) -> list[str]:
    """What is wrong with a text; empty where nothing is."""
    name = form["format"]
    if name in _OF_TEXT:
        return [] if formats.matches(name, text) else [_OF_TEXT[name]]
    # a prefix may end in a dash: a letter follows
    full_name = f"{text[:-2]}a" if name.endswith("Prefix") and len(text) > 1 and text.endswith("-") else text
    accepts, why = _NAMES[name.removesuffix("Prefix")]
    return [] if accepts(full_name) else [why(full_name)]


_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _within(limit: int, rule: str) -> Callable[[str], str]:
    """What is wrong with a name that may have so many letters."""
    return lambda text: f"must be no more than {limit} bytes" if len(text) > limit else rule


_NAMES: dict[str, tuple[Callable[[str], bool], Callable[[str], str]]] = {
    "dns1123Label": (name_forms.is_label, _within(63, name_forms.LABEL_RULE)),
    "dns1123Subdomain": (name_forms.is_subdomain, _within(253, name_forms.SUBDOMAIN_RULE)),
    "dns1035Label": (lambda text: len(text) <= 63 and bool(_DNS1035.fullmatch(text)), _within(63, _DNS1035_RULE)),
    "qualifiedName": (name_forms.is_key, name_forms.key_rule),
    "labelValue": (name_forms.is_value, name_forms.value_rule),
}

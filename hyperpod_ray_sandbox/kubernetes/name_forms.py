"""The forms of names, keys and values of labels.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def is_subdomain(text: str) -> bool:
    """Whether a text is an RFC 1123 subdomain."""
    return len(text) <= 253 and bool(_SUBDOMAIN.fullmatch(text))


def is_label(text: str) -> bool:
    """Whether a text is an RFC 1123 label."""
    return len(text) <= 63 and bool(_LABEL.fullmatch(text))


def is_key(text: str) -> bool:
    """Whether a text is a qualified name: the key of a label, annotation or resource."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and bool(_QUALIFIED.fullmatch(name))


def key_rule(text: str) -> str:
    """What is wrong with a qualified name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and not is_subdomain(prefix):
        return f"prefix part {SUBDOMAIN_RULE}"
    if not name:
        return "name part must be non-empty"
    return "name part must be no more than 63 bytes" if len(name) > 63 else _KEY_RULE


def value_rule(text: str) -> str:
    """What is wrong with the value of a label."""
    return "must be no more than 63 bytes" if len(text) > 63 else VALUE_RULE


def is_value(text: str) -> bool:
    """Whether a text is the value of a label."""
    return len(text) <= 63 and bool(_VALUE.fullmatch(text))

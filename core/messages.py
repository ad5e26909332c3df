"""Turns pydantic's errors into messages a person can act on: the value got, what is allowed, the likely fix."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from core import model
from core.findings import suggestion
from core.service_limits import platform
from core.yaml_source import Node, Path

PATTERNS: Mapping[str, str] = {
    r"^\d{12}$": "an AWS account id is twelve digits in quotes ('123456789012')",
    r"^[a-z]{2}(-[a-z]+)+-\d$": "an AWS region looks like us-west-2",
    r"^[a-z]{2,4}\d-az\d+$": "an availability zone ID looks like usw2-az1 "
    "(aws ec2 describe-availability-zones lists them; names such as us-west-2a differ between accounts)",
    r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$": "a range of IPv4 addresses looks like 10.0.0.0/16",
    r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$": "a role is given by its ARN (arn:aws:iam::123456789012:role/NAME)",
    r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$": "HyperPod instance types look like ml.p5.48xlarge",
    r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$": "allowed are letters, digits and hyphens, at most 63, no underscore, "
    "beginning and ending with a letter or digit",
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$": "allowed are lower-case letters, digits and hyphens, at "
    "most 63, beginning "
    "and ending with a letter or digit (an RFC 1123 label)",
    r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?$": "a version has three numbers (2.60.0)",
    r"^\d+\.\d+\.\d+$": "a version has three numbers (1.2.3)",
    r"^1\.\d{2}$": "a Kubernetes version looks like '1.34', in quotes",
    r"^vpc-[0-9a-f]{8,17}$": "a VPC id looks like vpc-0123456789abcdef0",
    r"^subnet-[0-9a-f]{8,17}$": "a subnet id looks like subnet-0123456789abcdef0",
    r"^sg-[0-9a-f]{8,17}$": "a security group id looks like sg-0123456789abcdef0",
    r"^fs-[0-9a-f]{8,21}$": "a file system id looks like fs-0123456789abcdef0",
    r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$": "allowed are letters, digits, hyphens and underscores, at most 100",
    r"^https://oidc\.eks\..+$": "an issuer looks like https://oidc.eks.us-west-2.amazonaws.com/id/…",
    r"^cron\(.+\)$": "a schedule looks like cron(0 6 ? * SUN *)",
    r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:training-plan/.+$": "a training plan is given by its ARN "
    "(arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME)",
    r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/.+$": "a key is given by its ARN (arn:aws:kms:REGION:ACCOUNT:key/ID)",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$": "a mail address looks like name@example.com",
    r"^[A-Za-z0-9_-]{1,8}$": "a Lustre mount name has at most 8 letters, digits, hyphens or underscores",
    r"^[a-z0-9]+(?:[._/-][a-z0-9]+)*$": "a repository name has lower-case letters and digits, with "
    "single . _ / - between",
    r"^[^\s@]+@sha256:[0-9a-f]{64}$": "an image is given by its digest (REGISTRY/NAME@sha256: and 64 "
    "hexadecimal digits), "
    "because a tag can move",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable has letters, digits and underscores and does not "
    "begin with a digit",
    r"^[a-z0-9.-]+:\d{2,5}$": "an address looks like redis.example.com:6379",
    r"^[A-Za-z0-9_][A-Za-z0-9_./-]*\.yaml$": "a lock file is a path inside the project that ends in .yaml",
}
"""Every pattern of the model, in words; a test compares the two."""

_INSTANCE_TYPE = r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$"


def shown(value: object) -> str:
    """A value as a person would name it, short and printable."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "…")
    if isinstance(value, dict):
        return "a section" if value else "an empty section"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return f"{value}"[:60]


def typed(value: object) -> str:
    """`shown` with the kind of value in front where it is not plain to see."""
    if isinstance(value, bool):
        return f"the truth value {shown(value)}"
    if isinstance(value, int | float):
        return f"the number {shown(value)}"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    return shown(value)


# --- the model, walked -----------------------------------------------------------------------------------------------


def _alternatives(annotation: Any) -> list[Any]:
    """The types an annotation allows, without `None` and without `Annotated`."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [one for arg in typing.get_args(annotation) for one in _alternatives(arg)]
    return [] if annotation is type(None) else [annotation]


def annotation_at(path: Path) -> Any:
    """What the model says stands at `path`; None where the model has nothing."""
    current: Any = model.Environment
    for key in path:
        options = _alternatives(current)
        current = None
        for option in options:
            origin = typing.get_origin(option)
            if isinstance(option, type) and issubclass(option, BaseModel) and isinstance(key, str):
                if key in option.model_fields:
                    current = option.model_fields[key].annotation
            elif (origin is list and isinstance(key, int)) or (origin is dict and isinstance(key, str)):
                current = typing.get_args(option)[-1]
        if current is None:
            return None
    return current


def section_at(path: Path) -> type[BaseModel] | None:
    """The model class of the section at `path`, None where no section is expected."""
    for option in _alternatives(annotation_at(path)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _homes(key: str, *, section: type[BaseModel] = model.Environment, path: str = "", depth: int = 0) -> list[str]:
    """Paths in the model where a setting called `key` lives."""
    found = [f"{path}{key}"] if key in section.model_fields else []
    for name, info in section.model_fields.items():
        for option in _alternatives(info.annotation):
            inner, suffix = option, "."
            if typing.get_origin(option) is list:
                inner, suffix = (_alternatives(typing.get_args(option)[0]) or [None])[0], "[]."
            if isinstance(inner, type) and issubclass(inner, BaseModel) and depth < 4:
                found += _homes(key, section=inner, path=f"{path}{name}{suffix}", depth=depth + 1)
    return found


def _purpose(path: Path) -> str:
    """First sentence of a setting's description, to say what a missing one is for."""
    section = section_at(path[:-1])
    info = section.model_fields.get(str(path[-1])) if section else None
    text = " ".join((info.description or "").split()) if info else ""
    first = text.split(". ")[0].rstrip(".").replace("**", "")
    return f" ({first})" if first else ""


# --- one error, in words ---------------------------------------------------------------------------------------------


def unknown_setting(path: Path) -> str:
    """A key that the model does not have."""
    key = str(path[-1])
    section = section_at(path[:-1])
    allowed = sorted(section.model_fields) if section else []
    close = suggestion(key, allowed)
    if not close and (homes := _homes(key)):
        return f"unknown setting here; '{key}' belongs at {' or '.join(homes[:3])}"
    return f"unknown setting{close}" if close else f"unknown setting; allowed here: {', '.join(allowed)}"


def in_words(error: Mapping[str, Any], *, path: Path, node: Node | None) -> str:  # noqa: PLR0911, PLR0912  # one line per kind
    """One pydantic error (of `errors()`) as a message."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    written = node.text if node and node.kind == "scalar" and not node.quoted else ""
    match kind:
        case "missing":
            return f"required setting is missing{_purpose(path)}"
        case "extra_forbidden":
            return unknown_setting(path)
        case "literal_error":
            return _not_allowed(value, path=path, written=written)
        case "string_pattern_mismatch":
            return _mismatch(str(value), pattern=context["pattern"])
        case "string_type":
            return _text_wanted(value, written=written)
        case "int_type" | "int_parsing" | "int_from_float":
            return _number_wanted(value, node=node)
        case "bool_type" | "bool_parsing":
            return f"got {typed(value)}; allowed: true, false"
        case "greater_than_equal":
            return f"{shown(value)} is too small; the least is {context['ge']}"
        case "less_than_equal":
            return f"{shown(value)} is too large; the most is {context['le']}"
        case "string_too_short":
            return f"{shown(value)} is too short; at least {_count(context['min_length'], 'character')}"
        case "string_too_long":
            return f"{shown(value)} has {len(value)} characters; at most {context['max_length']}"
        case "too_short":
            return f"got {context['actual_length']}; at least {_count(context['min_length'], 'entry')} needed"
        case "too_long":
            return f"got more than {context['max_length']} entries; at most {context['max_length']}"
        case "list_type":
            return f"got {typed(value)}; a list is wanted ([a, b] or lines that begin with '- ')"
        case "dict_type" | "model_type" | "model_attributes_type":
            return _section_wanted(value, path=path)
        case _:
            return f"got {typed(value)}; {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}".rstrip(".")


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _section_wanted(value: object, *, path: Path) -> str:
    section = section_at(path)
    holds = f" ({', '.join(list(section.model_fields)[:6])} …)" if section else " (key: value)"
    if value is None:
        return f"the section is empty; write its settings{holds} or remove the key"
    return f"got {typed(value)}; a section of settings is wanted{holds}"


def _not_allowed(value: object, *, path: Path, written: str) -> str:
    literals = [
        arg
        for option in _alternatives(annotation_at(path))
        if typing.get_origin(option) is typing.Literal
        for arg in typing.get_args(option)
    ]
    words = [str(literal) for literal in literals]
    allowed = f"allowed: {', '.join(words)}"
    if isinstance(value, int | float) and not isinstance(value, bool) and written in words and value not in literals:
        return f"got the number {written}; it is text here: put it in quotes ('{written}')"
    if isinstance(value, str) and value in words:
        return f"got the text '{value}'; it is a number here: remove the quotes"
    if isinstance(value, bool) and written in words:
        return f"got the truth value that YAML makes of {written}; put it in quotes ('{written}')"
    if value is None:
        return f"got nothing (null); {allowed}"
    return f"{shown(value)} is not allowed; {allowed}{suggestion(value, words) if isinstance(value, str) else ''}"


def _text_wanted(value: object, *, written: str) -> str:
    if isinstance(value, bool):
        return (
            f"got the truth value that YAML makes of {written or shown(value)}; put it in quotes ('{written or value}')"
        )
    if isinstance(value, int | float) and written:
        return f"got the number that YAML makes of {written[:60]}; it is text here: put it in quotes ('{written[:60]}')"
    return f"got {typed(value)}; text is wanted"


def _number_wanted(value: object, *, node: Node | None) -> str:
    if isinstance(value, str) and node is not None and node.quoted and value.lstrip("+-").isdigit():
        return f"got the text {shown(value)}; a whole number is wanted: remove the quotes"
    if isinstance(value, str) and value.rstrip().casefold().endswith(("gib", "gb", "tib", "s", "m", "%")):
        return f"got the text {shown(value)}; a whole number is wanted, without its unit (the setting's name has it)"
    return f"got {typed(value)}; a whole number is wanted"


def _mismatch(value: str, *, pattern: str) -> str:
    if pattern == _INSTANCE_TYPE:
        types_ = platform().instance_types
        return (
            f"{shown(value)} is not a HyperPod instance "
            f"type{_type_suggestion(value, types_) or '; ' + PATTERNS[pattern]}"
        )
    words = PATTERNS.get(pattern, f"it must match {pattern}")
    if not value:
        return f"is empty; {words}"
    if value != value.strip():
        return f"{shown(value)} has blanks around it; {words}"
    return f"{shown(value)} is not valid; {words}"


def _type_suggestion(value: str, allowed: typing.Collection[str]) -> str:
    """The likely instance type: the same with `ml.`, in lower case, or one that is spelled nearly so."""
    lower = value.strip().casefold()
    for candidate in (lower, f"ml.{lower}", f"ml.{lower.removeprefix('ml')}"):
        if candidate in allowed:
            return f"; did you mean '{candidate}'?"
    return suggestion(lower if lower.startswith("ml.") else f"ml.{lower}", allowed)

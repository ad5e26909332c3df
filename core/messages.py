"""Turns pydantic's errors into messages that the user can act on: the value, what is allowed, the likely fix."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from core import model, shapes
from core.findings import suggestion
from core.service_limits import platform
from core.yaml_source import Node, Path


def shown(value: object) -> str:
    """A value in a form that is short and printable."""
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
        return f"the boolean {shown(value)}"
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


def options_at(path: Path) -> list[Any]:
    """The types that the model allows at `path`; empty where the model has nothing."""
    current: list[Any] = [model.Environment]
    for key in path:
        found: list[Any] = []
        for option in current:
            origin = typing.get_origin(option)
            if isinstance(option, type) and issubclass(option, BaseModel) and isinstance(key, str):
                if key in option.model_fields:
                    found += _alternatives(option.model_fields[key].annotation)
            elif (origin is list and isinstance(key, int)) or (origin is dict and isinstance(key, str)):
                found += _alternatives(typing.get_args(option)[-1])
        current = list(dict.fromkeys(found))
    return current


def sections_at(path: Path) -> list[type[BaseModel]]:
    """The model classes of the section at `path`: one for each of its kinds, none where no section is expected."""
    return [option for option in options_at(path) if isinstance(option, type) and issubclass(option, BaseModel)]


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
    key = str(path[-1])
    info = next((one.model_fields[key] for one in sections_at(path[:-1]) if key in one.model_fields), None)
    first = _first_sentence(info.description if info else "")
    return f" ({first})" if first else ""


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split()).split(". ")[0].rstrip(".").replace("**", "")


# --- one error, in words ---------------------------------------------------------------------------------------------


def unknown_setting(path: Path) -> str:
    """A key that the model does not have."""
    key = str(path[-1])
    sections = sections_at(path[:-1])
    allowed = sorted({name for section in sections for name in section.model_fields})
    if key in allowed:  # of another kind of this section
        lacking = [section for section in sections if key not in section.model_fields]
        marks = ("existing", "uri")
        mark = next((one for one in marks if all(one in section.model_fields for section in lacking)), None)
        if mark:
            return f"cannot be used with '{mark}'; remove one of the two"
        kinds = " or ".join(str(getattr(section, "kind", "")) for section in sections if key in section.model_fields)
        return f"applies to {kinds} only; remove it"
    close = suggestion(key, allowed)
    if not close and (homes := list(dict.fromkeys(_homes(key)))):
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
            return _not_text(value, written=written)
        case "int_type" | "int_parsing" | "int_from_float":
            return _not_a_number(value, node=node)
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
            return f"got {typed(value)}; expected a list ([a, b], or lines that begin with '- ')"
        case "dict_type" | "model_type" | "model_attributes_type":
            return _not_a_section(value, path=path)
        case _:
            return f"got {typed(value)}; {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}".rstrip(".")


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _not_a_section(value: object, *, path: Path) -> str:
    sections = sections_at(path)
    holds = f" ({', '.join(list(sections[0].model_fields)[:6])} …)" if sections else " (key: value)"
    if value is None:
        return f"the section is empty; write its settings{holds} or remove the key"
    return f"got {typed(value)}; expected a section of settings{holds}"


def _not_allowed(value: object, *, path: Path, written: str) -> str:
    literals = [
        arg
        for option in options_at(path)
        if typing.get_origin(option) is typing.Literal
        for arg in typing.get_args(option)
    ]
    words = [str(literal) for literal in literals]
    allowed = f"allowed: {', '.join(words)}"
    if isinstance(value, int | float) and not isinstance(value, bool) and written in words and value not in literals:
        return f"`{written}` is a number in YAML; quote it to use it as text ('{written}')"
    if isinstance(value, str) and value in words:
        return f"got the text '{value}'; it is a number here: remove the quotes"
    if isinstance(value, bool) and written in words:
        return f"`{written}` is a boolean in YAML; quote it to use it as text ('{written}')"
    if value is None:
        return f"got nothing (null); {allowed}"
    return f"{shown(value)} is not allowed; {allowed}{suggestion(value, words) if isinstance(value, str) else ''}"


def _not_text(value: object, *, written: str) -> str:
    if isinstance(value, bool):
        return f"`{written or shown(value)}` is a boolean in YAML; quote it to use it as text ('{written or value}')"
    if isinstance(value, int | float) and written:
        return f"`{written[:60]}` is a number in YAML; quote it to use it as text ('{written[:60]}')"
    return f"got {typed(value)}; expected text"


def _not_a_number(value: object, *, node: Node | None) -> str:
    if isinstance(value, str) and node is not None and node.quoted and value.lstrip("+-").isdigit():
        return f"got the text {shown(value)}; expected a whole number: remove the quotes"
    if isinstance(value, str) and value.rstrip().casefold().endswith(("gib", "gb", "tib", "s", "m", "%")):
        return f"got the text {shown(value)}; expected a whole number without its unit (the setting's name has it)"
    return f"got {typed(value)}; expected a whole number"


def _mismatch(value: str, *, pattern: str) -> str:
    shape = shapes.BY_PATTERN[pattern]
    if not value:
        return f"is empty; {shape.expected}"
    if shape is shapes.INSTANCE_TYPE and (likely := _type_suggestion(value, platform().instance_types)):
        return f"{shown(value)} is not a HyperPod instance type{likely}"
    if value != value.strip():
        return f"{shown(value)} has leading or trailing spaces; {shape.expected}"
    return f"{shown(value)} is not valid; {shape.expected}"


def _type_suggestion(value: str, allowed: typing.Collection[str]) -> str:
    """The likely instance type: the same with `ml.`, in lower case, or one that is spelled nearly so."""
    lower = value.strip().casefold()
    for candidate in (lower, f"ml.{lower}", f"ml.{lower.removeprefix('ml')}"):
        if candidate in allowed:
            return f"; did you mean '{candidate}'?"
    return suggestion(lower if lower.startswith("ml.") else f"ml.{lower}", allowed)

"""Turns pydantic's errors into messages that the user can act on: the value, what is allowed, the likely fix."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from hyperpod_ray.core import model, shapes, slurm_model
from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.findings import meant
from hyperpod_ray.core.secret_words import masked
from hyperpod_ray.core.service_limits import platform
from hyperpod_ray.core.yaml_source import Node, Path


def shown(value: object) -> str:
    """A value in a form that is short and printable."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        value = masked(value)
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
        return [alternative for arg in typing.get_args(annotation) for alternative in _alternatives(arg)]
    return [] if annotation is type(None) else [annotation]


def options_at(path: Path, *, root: type[BaseModel] = model.Environment) -> list[Any]:
    """The types that the model of a file allows at `path`; empty where the model has nothing."""
    current: list[Any] = [root]
    for key in path:
        alternatives: list[Any] = []
        for option in current:
            origin = typing.get_origin(option)
            if isinstance(option, type) and issubclass(option, BaseModel) and isinstance(key, str):
                if key in option.model_fields:
                    alternatives += _alternatives(option.model_fields[key].annotation)
            elif (origin is list and isinstance(key, int)) or (origin is dict and isinstance(key, str)):
                alternatives += _alternatives(typing.get_args(option)[-1])
        current = list(dict.fromkeys(alternatives))
    return current


def sections_at(path: Path, *, root: type[BaseModel] = model.Environment) -> list[type[BaseModel]]:
    """The model classes of the section at `path`: one for each of its kinds, none where no section is expected."""
    return [
        option for option in options_at(path, root=root) if isinstance(option, type) and issubclass(option, BaseModel)
    ]


def _homes(key: str, *, section: type[BaseModel], path: str = "", depth: int = 0) -> list[str]:
    """Paths in the model where a setting called `key` lives."""
    paths = [f"{path}{key}"] if key in section.model_fields else []
    for name, info in section.model_fields.items():
        for option in _alternatives(info.annotation):
            inner, suffix = option, "."
            if typing.get_origin(option) is list:
                inner, suffix = (_alternatives(typing.get_args(option)[0]) or [None])[0], "[]."
            if isinstance(inner, type) and issubclass(inner, BaseModel) and depth < 4:
                paths += _homes(key, section=inner, path=f"{path}{name}{suffix}", depth=depth + 1)
    return paths


def _purpose(path: Path, *, root: type[BaseModel]) -> str:
    """First sentence of a setting's description, to say what a missing one is for."""
    key = str(path[-1])
    from hyperpod_ray.core.model.descriptions import descriptions  # noqa: PLC0415  (a file without errors needs it not)

    owner = next((section for section in sections_at(path[:-1], root=root) if key in section.model_fields), None)
    sentence = _first_sentence(descriptions(owner).get(key) if owner else "")
    return (
        f"{key}: {sentence[:1].lower() if sentence[1:2].islower() else sentence[:1]}{sentence[1:]}" if sentence else key
    )


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split()).split(". ")[0].rstrip(".").replace("**", "")


# --- one error, in words ---------------------------------------------------------------------------------------------


CORRECT = "correct the value"
OTHERS: dict[type[BaseModel], tuple[str, type[BaseModel]]] = {
    model.Environment: ("slurm", slurm_model.SlurmEnvironment),
    slurm_model.SlurmEnvironment: ("eks", model.Environment),
}
"""The other kind of environments, whose settings are no misspellings."""
UNKNOWN, MISSING = "unknown setting", "required setting is missing"


def unknown_setting(path: Path, *, root: type[BaseModel] = model.Environment) -> Message:
    """A key that the model of a file does not have."""
    key = str(path[-1])
    if elsewhere := _of_another(path, root=root):
        return elsewhere
    sections = sections_at(path[:-1], root=root)
    allowed = sorted({name for section in sections for name in section.model_fields})
    if key in allowed:  # of another kind of this section
        lacking = [section for section in sections if key not in section.model_fields]
        marks = ("existing", "uri")
        mark = next(
            (candidate for candidate in marks if all(candidate in section.model_fields for section in lacking)), None
        )
        if mark:
            return Message(f"cannot be used with '{mark}'", expected="one of the two", fix="remove one")
        kinds = " or ".join(str(getattr(section, "kind", "")) for section in sections if key in section.model_fields)
        return Message("not a setting of this kind", expected=f"it with {kinds} only", fix="remove it")
    expected = "a setting of this section"
    if close := meant(key, allowed):
        return Message(UNKNOWN, expected=expected, fix=close)
    if homes := list(dict.fromkeys(_homes(key, section=root))):
        return Message("unknown setting here", expected=expected, fix=f"move it to {' or '.join(homes[:3])}")
    return Message(UNKNOWN, expected=f"one of {', '.join(allowed)}", fix="correct or remove it")


def _of_another(path: Path, *, root: type[BaseModel]) -> Message | None:
    """What a setting is that only the other orchestrator has; None where neither has it."""
    if root not in OTHERS or options_at(path, root=root):
        return None
    name, other_root = OTHERS[root]
    if not options_at(path, root=other_root):
        return None
    orchestrator = "slurm" if name == "eks" else "eks"
    return Message(
        f"a setting of orchestrator {name}, and this environment's is {orchestrator}",
        expected=f"settings of orchestrator {orchestrator}",
        fix=f"remove it, or begin a file with orchestrator: {name}",
    )


def in_words(  # noqa: PLR0911, PLR0912  # one line per kind
    error: Mapping[str, Any], *, path: Path, node: Node | None, root: type[BaseModel] = model.Environment
) -> Message:
    """One pydantic error (of `errors()`) as a message; `root` is the model of the file."""
    error_type, value, context = error["type"], error["input"], error.get("ctx", {})
    written = node.text if node and node.kind == "scalar" and not node.quoted else ""
    match error_type:
        case "missing":
            return Message(MISSING, expected=_purpose(path, root=root), fix="add it")
        case "extra_forbidden":
            return unknown_setting(path, root=root)
        case "literal_error":
            return _not_allowed(value, path=path, written=written, root=root)
        case "string_pattern_mismatch":
            return _mismatch(str(value), pattern=context["pattern"])
        case "string_type":
            return _not_text(value, written=written)
        case "int_type" | "int_parsing" | "int_from_float":
            return _not_a_number(value, node=node)
        case "bool_type" | "bool_parsing":
            return Message(typed(value), expected="true or false", fix=CORRECT)
        case "greater_than_equal":
            return Message(f"{shown(value)} is too small", expected=f"{context['ge']} or more", fix=CORRECT)
        case "less_than_equal":
            return Message(f"{shown(value)} is too large", expected=f"{context['le']} or less", fix=CORRECT)
        case "string_too_short":
            minimum = _count(context["min_length"], "character")
            return Message(f"{shown(value)} is too short", expected=f"at least {minimum}", fix=CORRECT)
        case "string_too_long":
            problem = f"{shown(value)} has {_count(len(value), 'character')}"
            return Message(problem, expected=f"at most {context['max_length']}", fix="shorten it")
        case "too_short":
            minimum, actual = _count(context["min_length"], "entry"), _count(context["actual_length"], "entry")
            return Message(actual, expected=f"at least {minimum}", fix="add what is missing")
        case "too_long":
            problem = f"more than {context['max_length']} entries"
            return Message(problem, expected=f"at most {context['max_length']}", fix="remove some")
        case "list_type":
            return Message(typed(value), expected="a list", fix="write [a, b], or lines that begin with '- '")
        case "dict_type" | "model_type" | "model_attributes_type":
            return _not_a_section(value, path=path, root=root)
        case _:
            detail = str(error["msg"]).rstrip(".")
            return Message(typed(value), expected=f"{detail[:1].lower()}{detail[1:]}", fix=CORRECT)


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _not_a_section(value: object, *, path: Path, root: type[BaseModel]) -> Message:
    sections = sections_at(path, root=root)
    settings = f"{', '.join(list(sections[0].model_fields)[:6])} …" if sections else "key: value"
    expected = f"a section of settings ({settings})"
    if value is None:
        return Message("the section is empty", expected=expected, fix="write its settings, or remove the key")
    return Message(typed(value), expected=expected, fix="write them below the key, indented")


def _not_allowed(value: object, *, path: Path, written: str, root: type[BaseModel]) -> Message:
    literals = [
        arg
        for option in options_at(path, root=root)
        if typing.get_origin(option) is typing.Literal
        for arg in typing.get_args(option)
    ]
    words = [str(literal) for literal in literals]
    expected = f"one of {', '.join(words)}" if len(words) > 1 else "".join(words)
    if isinstance(value, str) and root in OTHERS:
        name, other_root = OTHERS[root]
        if value in [arg for annotation in options_at(path, root=other_root) for arg in typing.get_args(annotation)]:
            return Message(f"'{value}' exists with orchestrator {name} only", expected=expected, fix="choose another")
    if isinstance(value, int | float) and not isinstance(value, bool) and written in words and value not in literals:
        return _quote(written, "number")
    if isinstance(value, str) and value in words:
        return Message(f"the text '{value}'", expected="a number", fix="remove the quotes")
    if isinstance(value, bool) and written in words:
        return _quote(written, "boolean")
    return Message(
        shown(value),
        expected=expected,
        fix=(meant(value, words) if isinstance(value, str) else "") or "choose one of them",
    )


def _quote(written: str, yaml_type: str) -> Message:
    """YAML reads a word as another kind of value."""
    return Message(f"`{written}` is a {yaml_type} in YAML", expected="text", fix=f"quote it: '{written}'")


def _not_text(value: object, *, written: str) -> Message:
    if isinstance(value, bool):
        return _quote(written or shown(value), "boolean")
    if isinstance(value, int | float) and written:
        return _quote(written[:60], "number")
    return Message(typed(value), expected="text", fix=CORRECT)


def _not_a_number(value: object, *, node: Node | None) -> Message:
    fix = CORRECT
    if isinstance(value, str) and node is not None and node.quoted and value.lstrip("+-").isdigit():
        fix = "remove the quotes"
    elif isinstance(value, str) and value.rstrip().casefold().endswith(("gib", "gb", "tib", "s", "m", "%")):
        fix = "remove the unit: the setting's name has it"
    return Message(typed(value), expected="a whole number", fix=fix)


def _mismatch(value: str, *, pattern: str) -> Message:
    shape = shapes.BY_PATTERN[pattern]
    if not value:
        return Message("the value is empty", expected=shape.expected, fix=CORRECT)
    if shape is shapes.INSTANCE_TYPE and (likely := _type_meant(value, platform().instance_types)):
        return Message(shown(value), expected="a HyperPod instance type", fix=likely)
    if value != value.strip():
        return Message(
            f"{shown(value)} has leading or trailing spaces", expected=shape.expected, fix="remove the spaces"
        )
    return Message(shown(value), expected=shape.expected, fix=CORRECT)


def _type_meant(value: str, allowed: typing.Collection[str]) -> str:
    """The likely instance type: the same with `ml.`, in lower case, or one that is spelled nearly so."""
    lower = value.strip().casefold()
    for candidate in (lower, f"ml.{lower}", f"ml.{lower.removeprefix('ml')}"):
        if candidate in allowed:
            return f"did you mean '{candidate}'?"
    return meant(lower if lower.startswith("ml.") else f"ml.{lower}", allowed)

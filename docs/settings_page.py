"""The pages of all settings and of a job file's fields, from the model. `python -m docs.generate` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import model
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.reference import tidy
from hyperpod_ray.core.shapes import BY_PATTERN
from hyperpod_ray.core.slurm_model import SlurmEnvironment

_UNITS = {
    "_mbs_per_tib": "MB/s per TiB",
    "_gib": "GiB",
    "_seconds": "seconds",
    "_days": "days",
    "_percent": "percent",
    "_prefix": "bits",
}


def settings_page() -> str:
    """A table for each section of an environment file."""
    lines = [
        "# Settings of an environment",
        "",
        "One file `environments/NAME.yaml` is one environment. This page is generated from",
        "`hyperpod_ray/core/model` by `python -m docs.generate`; do not edit it. Settings in **bold** are required",
        "in their section. – means no default; the description says what happens without a value.",
        "`hyperpod-ray env check` validates a file and checks its settings against each other. YAML anchors, aliases,",
        "merge keys and tags are refused: a value stands where it is used.",
        "",
    ]
    lines += _tables(tidy(Environment.model_json_schema()))
    lines += [
        "# Settings of an environment on Slurm",
        "",
        "With `orchestrator: slurm` a file has these sections. Those that are as above are not repeated. Everything",
        "that belongs to Kubernetes, Ray or EKS is refused there.",
        "",
    ]
    shared = _known(tidy(Environment.model_json_schema()))
    lines += _tables(tidy(SlurmEnvironment.model_json_schema()), mark=" on Slurm", shared=shared)
    return "\n".join(lines).rstrip() + "\n"


def _known(document: dict[str, Any]) -> frozenset[str]:
    """Names of the sections of a kind of files."""
    return frozenset(name for _, name in _sections(document, "", document) if name)


def job_page() -> str:
    """A table for each section of a job file."""
    lines = [
        "# Fields of a job file",
        "",
        "`hyperpod-ray submit ENV -f job.yaml` submits the job that a file describes. This page is generated from",
        "`hyperpod_ray/core/job.py` by `python -m docs.generate`; do not edit it. Fields in **bold** are required.",
        "– means no default; the description says what happens without a value. Each field is also an option of",
        "[`submit`](reference/commands.md), which replaces the file's. [A researcher's day](researchers-day.md) shows",
        "them in use. For completion in an editor, begin the file with",
        "`# yaml-language-server: $schema=PATH/environments/job.schema.json`.",
        "",
    ]
    return "\n".join([*lines, *_tables(tidy(Job.model_json_schema()))]).rstrip() + "\n"


def _tables(document: dict[str, Any], *, mark: str = "", shared: frozenset[str] = frozenset()) -> list[str]:
    """A table of each section but those that are known; `mark` tells them from sections of the same path."""
    lines: list[str] = []
    for path, name in dict.fromkeys(_sections(document, "", document)):
        if name in shared:
            continue
        section = document if name is None else document["$defs"][name]
        lines += [f"## {_title(path, name)}{mark}", "", _cell(section.get("description", "")), ""]
        lines += ["| setting | value | unit | default | what it is |", "|---|---|---|---|---|"]
        required = section.get("required", [])
        for key, info in section["properties"].items():
            label = f"**`{key}`**" if key in required else f"`{key}`"
            default = "" if key in required else _default(info)
            row = [label, _value(info, document), _unit(key), default, _cell(info.get("description", ""))]
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _unit(key: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")


def _references(info: dict[str, Any]) -> tuple[list[str], str]:
    """Names of the sections a property holds (several where it is one of several kinds), and what its path gains.

    A list's path gains `[]`, a map's `.*`.
    """
    listed = [option for part in (info, *info.get("anyOf", [])) for option in part.get("oneOf", [])]
    kinds = [option["$ref"] for option in listed if "$ref" in option]
    if kinds:
        return [reference.rpartition("/")[2] for reference in kinds], ""
    for option in (info, *info.get("anyOf", []), *info.get("allOf", [])):
        if "$ref" in option:
            return [option["$ref"].rpartition("/")[2]], ""
        if "$ref" in option.get("items", {}):
            return [option["items"]["$ref"].rpartition("/")[2]], "[]"
        for inner in (option.get("additionalProperties"), *option.get("patternProperties", {}).values()):
            if isinstance(inner, dict) and "$ref" in inner:
                return [inner["$ref"].rpartition("/")[2]], ".*"
    return [], ""


def _sections(document: dict[str, Any], path: str, section: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    if not path:
        yield "", None
    for key, info in section["properties"].items():
        names, suffix = _references(info)
        for name in names:
            inner = f"{path}.{key}{suffix}".lstrip(".")
            yield inner, name
            yield from _sections(document, inner, document["$defs"][name])


def _title(path: str, name: str | None) -> str:
    """`storage`, and for a section of several kinds which one: `storage` (dynamic)."""
    section_kind = getattr(getattr(model, name or "", None), "kind", "")
    return f"`{path}`{f' ({section_kind})' if section_kind else ''}" if path else "Top level"


def _default(info: dict[str, Any]) -> str:
    value = info.get("default")
    if value is None or value in ({}, []):
        return "–"
    if isinstance(value, dict):
        return "see below"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _value(info: dict[str, Any], document: dict[str, Any]) -> str:
    """Type and allowed values of a property in a few words."""
    names, suffix = _references(info)
    if names:
        kinds = " of one of the kinds" if len(names) > 1 else ""
        return {
            "": f"section{kinds}, see below",
            "[]": "list of sections, see below",
            ".*": "sections by name, see below",
        }[suffix]
    options = [option for option in info.get("anyOf", [info]) if option.get("type") != "null"]
    text = " or ".join(_one(option) for option in options)
    nullable = any(option.get("type") == "null" for option in info.get("anyOf", []))
    return f"{text}, or null" if nullable and info.get("default") is not None else text


def _one(info: dict[str, Any]) -> str:
    """One type: its kind and bounds."""
    if "enum" in info or "const" in info:
        return ", ".join(f"`{value}`" for value in info.get("enum", [info.get("const")]))
    match info.get("type"):
        case "integer":
            text = _bounds(info.get("minimum"), info.get("maximum"), noun="whole number")
        case "number":
            over = info.get("exclusiveMinimum")
            low = info.get("minimum") if over is None else None
            limits = [f"more than {over:g}"] if over is not None else []
            bounds = _bounds(low, info.get("maximum"), noun="")
            text = ", ".join(["number", *limits, *([bounds] if bounds else [])])
        case "boolean":
            text = "`true`, `false`"
        case "array":
            size = _bounds(info.get("minItems"), info.get("maxItems"), noun="")
            text = f"list of: {_one(info['items'])}{f' ({size})' if size else ''}"
        case "object":
            values: Any = info.get("additionalProperties") or next(iter(info.get("patternProperties", {}).values()), {})
            text = f"map to: {_one(values) if isinstance(values, dict) else 'text'}"
        case _:
            text = _pattern(info["pattern"]) if "pattern" in info else "text"
    return text


def _bounds(low: float | None, high: float | None, *, noun: str) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is None and high is None:
        return noun
    limit = f"at least {low}" if high is None else f"at most {high}"
    return f"{noun}, {limit}" if noun else limit


def _pattern(pattern: str) -> str:
    shape = BY_PATTERN.get(pattern)
    if shape is None:
        return _cell(f"text that matches `{pattern}`")
    label = shape.label.partition(",")[0]
    return _cell(f"{re.sub('^(an?|the) ', '', label)}, such as `{_short(shape.example)}`")


def _short(example: str) -> str:
    return example if len(example) <= 60 else f"{example[:57]}…"

"""Limits that the model of an environment file encodes, by the class that defines the setting."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from pydantic import BaseModel

from hyperpod_ray.core import model, slurm_model

Limits = dict[str, Any]
WORDS = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "minProperties", "maxProperties", "multipleOf", "enum", "const"),
    }
)


def sections() -> set[type[BaseModel]]:
    """Every class of the model."""
    modules = [
        slurm_model,
        *(importlib.import_module(f"{model.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(model.__path__)),
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__.startswith("hyperpod_ray")
    }


def encoded() -> dict[str, Limits]:
    """`Class.field` → its limits in the words of JSON Schema; those of a list's elements under `items`."""
    every: dict[str, Limits] = {}
    for section in sorted(sections(), key=lambda section: (section.__module__, section.__name__)):
        schema = section.model_json_schema()
        definitions = schema.get("$defs", {})
        schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        for name, field in schema.get("properties", {}).items():
            if limits := _limits(field, definitions):
                definer = next(
                    base for base in reversed(section.__mro__) if name in getattr(base, "__annotations__", {})
                )
                every.setdefault(f"{definer.__name__}.{name}", {}).update(limits)
    return every


def _limits(field: dict[str, Any], definitions: dict[str, Any]) -> Limits:
    limits = {word: value for word, value in field.items() if word in WORDS}
    if isinstance(field.get("items"), dict) and (items := _limits(field["items"], definitions)):
        limits["items"] = items
    for part in field.get("anyOf", []):
        limits |= _limits(part, definitions)
    if "$ref" in field:
        limits |= {
            word: value for word, value in definitions[field["$ref"].rpartition("/")[2]].items() if word in WORDS
        }
    return limits

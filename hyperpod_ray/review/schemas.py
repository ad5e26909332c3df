"""What CloudFormation's registry says of a resource type, from the schemas that cfn-lint carries.

`createOnlyProperties` replace the resource when they change; `primaryIdentifier` and `additionalIdentifiers` that a
template sets are custom names. https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TypeRules:
    """Of one resource type; pointers are tuples of property names, `*` for any element."""

    known: bool
    create_only: tuple[tuple[str, ...], ...] = ()
    conditional: tuple[tuple[str, ...], ...] = ()
    """May or may not replace: the schema says 'conditional'."""
    identifiers: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """Sets of properties that name the resource, those that a template can set."""


@functools.cache
def rules(resource_type: str, region: str) -> TypeRules:
    """The registry's rules of a type in a region; `known` is false where the registry has none (custom resources)."""
    # importing cfn-lint takes longer than a whole review of two equal assemblies
    from cfnlint.schema import ResourceNotFoundError
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    if resource_type.startswith("Custom::"):
        return TypeRules(known=False)
    schema: dict[str, Any] | None = None
    for candidate in (region, "us-east-1"):
        try:
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region=candidate, resource_type=resource_type).schema
            break
        except (ResourceNotFoundError, KeyError):
            continue
    if schema is None:
        return TypeRules(known=False)
    read_only = set(_pointers(schema.get("readOnlyProperties")))
    sets = [_pointers(schema.get("primaryIdentifier")), *map(_pointers, schema.get("additionalIdentifiers") or [])]
    return TypeRules(
        known=True,
        create_only=_pointers(schema.get("createOnlyProperties")),
        conditional=_pointers(schema.get("conditionalCreateOnlyProperties")),
        identifiers=tuple(
            identifier for identifier in sets if identifier and not any(pointer in read_only for pointer in identifier)
        ),
    )


def at(properties: Any, pointer: tuple[str, ...]) -> Any:
    """The value under a pointer; a list of values where the pointer has `*`; None when there is none."""
    value = properties
    for index, name in enumerate(pointer):
        if name == "*":
            rest = pointer[index + 1 :]
            return [at(element, rest) for element in value] if isinstance(value, list) else None
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _pointers(items: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(part for part in pointer.split("/") if part and part != "properties") for pointer in items or [])

"""The types that a schema declares to expressions, and how much a request can hold of each.

Source: k8s.io/apiserver, pkg/cel/common/schemas.go and pkg/cel/escaping.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hyperpod_ray_sandbox.kubernetes.expressions import value_types as types
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import ValueType

Json = dict[str, Any]

REQUEST_BYTES = 3 * 1024 * 1024
RESERVED = {
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
}  # fmt: skip
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


@dataclass(frozen=True)
class Declared:
    """A type, what is in it, and its bounds."""

    type: ValueType
    fields: Mapping[str, Declared] = field(default_factory=dict)
    key: Declared | None = None
    element: Declared | None = None
    bound: int = 0
    """How many elements, characters, or bytes a value has at most."""
    least_bytes: int = 2
    """How long a value is at least, as JSON."""

    def structs(self) -> dict[str, dict[str, ValueType]]:
        """The fields of each type of objects in this one, by its name."""
        table: dict[str, dict[str, ValueType]] = {}
        if self.type.kind == "struct":
            table[self.type.name] = {name: inner.type for name, inner in self.fields.items()}
        for inner in (*self.fields.values(), *filter(None, [self.element])):
            table |= inner.structs()
        return table


STRING = Declared(types.STRING)
ANYTHING = Declared(types.DYN, least_bytes=1)


def escaped(name: str) -> str | None:
    """The name of a field as an expression writes it; None where none can name it."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return re.sub(r"__|[./-]", lambda part: _ESCAPES[part[0]], name)


def struct(name: str, /, **fields: Declared) -> Declared:
    """A type of objects with these fields."""
    return Declared(ValueType("struct", name), fields)


def list_of(element: Declared, bound: int = 0) -> Declared:
    """A list."""
    return Declared(types.list_of(element.type), element=element, bound=bound)


def map_of(element: Declared, bound: int = 0) -> Declared:
    """A map of names."""
    return Declared(types.map_of(types.STRING, element.type), key=STRING, element=element, bound=bound)


def of_schema(schema: Json, *, root: bool, name: str = "selfType") -> Declared | None:
    """What a schema declares; None where expressions cannot see it."""
    if schema.get("x-kubernetes-int-or-string"):
        length = schema.get("maxLength")
        bound = REQUEST_BYTES - 2 if length is None else 4 * max(0, length)
        return replace(ANYTHING, bound=bound)
    if root or schema.get("x-kubernetes-embedded-resource"):
        schema = with_identity(schema)
    make = {"array": _list, "object": _object, "string": _string}.get(str(schema.get("type")))
    if make is not None:
        return make(schema, name)
    simple = {"boolean": (types.BOOL, 4), "number": (types.DOUBLE, 1), "integer": (types.INT, 1)}
    if schema.get("type") not in simple:
        return None
    declared, least_bytes = simple[schema["type"]]
    return Declared(declared, least_bytes=least_bytes)


def with_identity(schema: Json) -> Json:
    """A schema with the fields of each whole object that rules may read."""
    text = {"type": "string"}
    meta = {"type": "object", "properties": {"name": text, "generateName": text}}
    return {
        **schema,
        "properties": {**(schema.get("properties") or {}), "kind": text, "apiVersion": text, "metadata": meta},
    }


def _list(schema: Json, name: str) -> Declared | None:
    items = schema.get("items")
    element = of_schema(items, root=False, name=f"{name}.@idx") if isinstance(items, dict) else None
    if element is None:
        return None
    bound = schema.get("maxItems")
    return list_of(element, (REQUEST_BYTES - 2) // (element.least_bytes + 1) if bound is None else max(0, bound))


def _object(schema: Json, name: str) -> Declared | None:
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        element = of_schema(extra, root=False, name=f"{name}.@elem")
        bound = schema.get("maxProperties")
        if element is None:
            return None
        return map_of(element, (REQUEST_BYTES - 2) // (element.least_bytes + 6) if bound is None else max(0, bound))
    fields, least_bytes, required = {}, 2, schema.get("required") or ()
    for field_name, inner in (schema.get("properties") or {}).items():
        word = escaped(field_name)
        declared = of_schema(inner, root=False, name=f"{name}.{word or field_name}")
        if declared is None:
            continue
        if word is not None:
            fields[word] = declared
        # a default is filled in here, so a request need not hold it
        if field_name in required and inner.get("default") is None:
            least_bytes += len(field_name) + declared.least_bytes + 4
    return Declared(ValueType("struct", name), fields, least_bytes=least_bytes)


_TIMES = {
    "duration": (types.DURATION, 32, 3),
    "date": (types.TIMESTAMP, 12, 12),
    "date-time": (types.TIMESTAMP, 32, 21),
}


def _string(schema: Json, name: str) -> Declared:
    del name
    form, length = str(schema.get("format")), schema.get("maxLength")
    if form in _TIMES:
        declared, bound, least_bytes = _TIMES[form]
        return Declared(declared, bound=bound, least_bytes=least_bytes)
    bound = REQUEST_BYTES - 2
    if form == "byte":
        return Declared(types.BYTES, bound=bound if length is None else max(0, length))
    if length is not None:
        bound = 4 * max(0, length)
    elif schema.get("enum"):
        bound = max(len(value.encode()) if isinstance(value, str) else 0 for value in schema["enum"])
    return Declared(types.STRING, bound=bound)

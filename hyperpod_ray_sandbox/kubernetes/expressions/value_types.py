"""Types of the expression language, and whether one is assignable to another.

Source: github.com/google/cel-go, checker/types.go and common/types/types.go.
"""

from __future__ import annotations

from dataclasses import dataclass

Bindings = dict["ValueType", "ValueType"]
"""What type parameters stand for."""


@dataclass(frozen=True)
class ValueType:
    """A type. `kind` is one of the language's own, or `param`, `opaque`, `struct`, `error`."""

    kind: str
    name: str = ""
    parameters: tuple[ValueType, ...] = ()

    def __str__(self) -> str:
        word = {"error": "!error!", "null": "null"}.get(self.kind, self.name or self.kind)
        return f"{word}({', '.join(map(str, self.parameters))})" if self.parameters else word


BOOL, BYTES, DOUBLE, DURATION, DYN, ERROR, INT, NULL, STRING, TIMESTAMP, UINT = (
    ValueType(kind)
    for kind in ("bool", "bytes", "double", "duration", "dyn", "error", "int", "null", "string", "timestamp", "uint")
)
SIMPLE = {str(t): t for t in (BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT)}
_NULLABLE = ("duration", "opaque", "struct", "timestamp")
_OPTIONAL = "optional_type"


def list_of(element: ValueType) -> ValueType:
    """A list."""
    return ValueType("list", "list", (element,))


def map_of(key: ValueType, value: ValueType) -> ValueType:
    """A map."""
    return ValueType("map", "map", (key, value))


def optional(value: ValueType) -> ValueType:
    """A value that may be absent."""
    return ValueType("opaque", _OPTIONAL, (value,))


def type_of(value: ValueType) -> ValueType:
    """The type of a type."""
    return ValueType("type", "type", (value,))


def param(name: str) -> ValueType:
    """A type parameter."""
    return ValueType("param", name)


def unwrapped(value: ValueType) -> tuple[ValueType, bool]:
    """The type inside an optional one, and whether it was optional."""
    return (value.parameters[0], True) if value.name == _OPTIONAL else (value, False)


def substituted(bindings: Bindings, value: ValueType, *, dynamic: bool = False) -> ValueType:
    """A type with what its parameters stand for; `dynamic` makes anything of those that stand for nothing."""
    if value in bindings:
        return substituted(bindings, bindings[value], dynamic=dynamic)
    if dynamic and value.kind == "param":
        return DYN
    inner = tuple(substituted(bindings, parameter, dynamic=dynamic) for parameter in value.parameters)
    return ValueType(value.kind, value.name, inner) if inner else value


def assignable(bindings: Bindings, values: list[ValueType], targets: list[ValueType]) -> bool:
    """Whether values have the types of their targets; binds the type parameters where they do."""
    attempt = dict(bindings)  # what a failed attempt has bound is forgotten
    if len(values) != len(targets) or not all(map(lambda v, t: _assignable(attempt, v, t), values, targets)):
        return False
    bindings.update(attempt)
    return True


def _assignable(bindings: Bindings, value: ValueType, target: ValueType) -> bool:
    # a parameter of the target first: what it stands for is kept, so that the next argument must agree
    if target.kind == "param":
        valid, bound = _bind(bindings, value, target)
        if valid or bound:
            return valid
    if value.kind == "param":
        return _bind(bindings, target, value)[0]
    if {value.kind, target.kind} & {"dyn", "error"}:
        return True
    # null is a value of times, durations, messages and optional values, and of no other type
    if "null" in (value.kind, target.kind):
        nullable = target if value.kind == "null" else value
        return nullable.kind in (*_NULLABLE, "null")
    if value.kind in ("opaque", "list", "map"):
        same = (value.kind, value.name, len(value.parameters)) == (target.kind, target.name, len(target.parameters))
        return same and all(map(lambda v, t: _assignable(bindings, v, t), value.parameters, target.parameters))
    return value.kind == target.kind and (value.kind == "type" or value == target)


def _bind(bindings: Bindings, value: ValueType, parameter: ValueType) -> tuple[bool, bool]:
    """Whether a parameter can stand for a type, and whether it stood for one before."""
    if value == parameter:
        return True, True
    if parameter in bindings:
        bound = bindings[parameter]
        if value == bound:
            return True, True
        if not _assignable(bindings, value, bound):
            return False, True
        general = most_general(value, bound)
        if _absent(bindings, parameter, general):
            bindings[parameter] = general
        return True, True
    if _absent(bindings, parameter, value):
        bindings[parameter] = value
        return True, False
    return False, False


def _absent(bindings: Bindings, parameter: ValueType, within: ValueType) -> bool:
    """Whether a parameter does not occur in a type."""
    if parameter == within:
        return False
    if within.kind == "param":
        return within not in bindings or _absent(bindings, parameter, bindings[within])
    return all(_absent(bindings, parameter, inner) for inner in within.parameters)


def most_general(first_type: ValueType, second_type: ValueType) -> ValueType:
    """The type of two that agree which settles less."""
    return first_type if _as_general(first_type, second_type) else second_type


def _as_general(first_type: ValueType, second_type: ValueType) -> bool:
    if first_type.kind in ("dyn", "param"):
        return True
    if second_type.kind in ("dyn", "param") or first_type.kind != second_type.kind:
        return False
    if first_type.kind in ("list", "map", "opaque"):
        same = first_type.name == second_type.name and len(first_type.parameters) == len(second_type.parameters)
        return same and all(map(_as_general, first_type.parameters, second_type.parameters))
    return first_type.kind == "type" or first_type == second_type


def equivalent(first_type: ValueType, second_type: ValueType) -> bool:
    """Whether two types are the same but for the names of their parameters."""
    if first_type.kind != second_type.kind or (first_type.name != second_type.name and first_type.kind != "param"):
        return False
    return len(first_type.parameters) == len(second_type.parameters) and all(
        map(equivalent, first_type.parameters, second_type.parameters)
    )

"""The tree of an expression, read from the evaluator's serialized form.

Source: cel.expr.CheckedExpr, https://github.com/google/cel-spec/blob/master/proto/cel/expr/syntax.proto
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_ANY_VALUE, _TREE, _SOURCE, _POSITIONS = 2, 4, 5, 4
_CONSTANTS = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


@dataclass
class Node:
    """One expression; `kind` names the class of syntax, and `id` is its own in the tree."""

    id: int
    kind: str
    name: str = ""
    """The name of an identifier, field, function, or type."""
    value: Any = None
    """A constant, with its type in `name`."""
    target: Node | None = None
    """The operand of a selection, or what a method is called on."""
    parts: tuple[Node, ...] = ()
    """Arguments, elements, or keys and values by turns."""
    optional: frozenset[int] = frozenset()
    """Which elements or entries are optional."""
    test_only: bool = False
    variables: tuple[str, str] = ("", "")
    """Of a comprehension: the variable, and the accumulator."""


RANGE, START, CONDITION, STEP, RESULT = range(5)
"""Parts of a comprehension."""


@dataclass(frozen=True)
class Tree:
    """An expression, with the place of each node in its text."""

    root: Node
    positions: dict[int, int]


def read(serialized: bytes) -> Tree:
    """The tree of a compiled expression."""
    checked = _field(serialized, _ANY_VALUE) or b""
    source = _field(checked, _SOURCE) or b""
    positions = {}
    for number, entry in _messages(source):
        if number == _POSITIONS:
            parts = dict(_messages(entry))
            positions[parts.get(1, 0)] = parts.get(2, 0)
    return Tree(_node(_field(checked, _TREE) or b""), positions)


def walk(node: Node) -> Iterator[Node]:
    """A node and those in it."""
    yield node
    for inner in (*((node.target,) if node.target else ()), *node.parts):
        yield from walk(inner)


def _messages(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a serialized message, by number."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        size = {1: 8, 5: 4}.get(tag & 7, 0)
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        if tag & 7 == 2:
            size = varint()
        yield tag >> 3, data[at : at + size]
        at += size


def _field(data: bytes, number: int) -> Any:
    return next((value for field, value in _messages(data) if field == number), None)


def _text(data: bytes, number: int) -> str:
    return bytes(_field(data, number) or b"").decode()


def _nodes(data: bytes, number: int) -> tuple[Node, ...]:
    return tuple(_node(part) for field, part in _messages(data) if field == number)


def _node(data: bytes) -> Node:
    """The node that a serialized expression is."""
    fields = dict(_messages(data))
    number = next((number for number in _READERS if number in fields), None)
    return _READERS[number](fields.get(2, 0), fields[number]) if number else Node(fields.get(2, 0), "constant", "null")


def _constant(identity: int, content: bytes) -> Node:
    number, value = next(_messages(content))
    if number == 3:
        value -= (1 << 64) if value >= 1 << 63 else 0
    elif number == 5:
        value = struct.unpack("<d", value)[0]
    elif number == 6:
        value = value.decode()
    elif number in (1, 2):
        value = bool(value) if number == 2 else None
    return Node(identity, "constant", _CONSTANTS.get(number, ""), value)


def _ident(identity: int, content: bytes) -> Node:
    return Node(identity, "ident", _text(content, 1).removeprefix("."))


def _select(identity: int, content: bytes) -> Node:
    operand = _node(_field(content, 1) or b"")
    return Node(identity, "select", _text(content, 2), target=operand, test_only=bool(_field(content, 3)))


def _call(identity: int, content: bytes) -> Node:
    target = _field(content, 1)
    on = None if target is None else _node(target)
    return Node(identity, "call", _text(content, 2), target=on, parts=_nodes(content, 3))


def _list(identity: int, content: bytes) -> Node:
    packed = [part for field, part in _messages(content) if field == 2]
    optional = {index for part in packed for index in ([part] if isinstance(part, int) else _packed(part))}
    return Node(identity, "list", parts=_nodes(content, 1), optional=frozenset(optional))


def _comprehension(identity: int, content: bytes) -> Node:
    parts = tuple(_node(_field(content, number) or b"") for number in (2, 4, 5, 6, 7))
    return Node(identity, "comprehension", parts=parts, variables=(_text(content, 1), _text(content, 3)))


def _packed(data: bytes) -> Iterator[int]:
    """The small numbers of a packed field."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def _struct(identity: int, content: bytes) -> Node:
    """A map, or a message by its type's name."""
    parts: list[Node] = []
    optional = set()
    for index, entry in enumerate(part for field, part in _messages(content) if field == 2):
        fields = dict(_messages(entry))
        key = _node(fields[3]) if 3 in fields else Node(0, "constant", "string", _text(entry, 2))
        parts += [key, _node(fields.get(4, b""))]
        if fields.get(5):
            optional.add(index)
    return Node(identity, "map", _text(content, 1), parts=tuple(parts), optional=frozenset(optional))


_READERS: dict[int, Callable[[int, bytes], Node]] = {
    3: _constant, 4: _ident, 5: _select, 6: _call, 7: _list, 8: _struct, 9: _comprehension,
}  # fmt: skip
"""The kinds of cel.expr.Expr, by the numbers of their fields."""

"""Checks the types of an expression, as an API server does before it keeps one.

Source: github.com/google/cel-go, checker/checker.go and cel/validator.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hyperpod_ray_sandbox.kubernetes.expressions import trees
from hyperpod_ray_sandbox.kubernetes.expressions import value_types as types
from hyperpod_ray_sandbox.kubernetes.expressions.declared import RESERVED
from hyperpod_ray_sandbox.kubernetes.expressions.signatures import Overload, overloads
from hyperpod_ray_sandbox.kubernetes.expressions.trees import Node
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import BOOL, DYN, ERROR, ValueType

Fields = Mapping[str, Mapping[str, ValueType]]
"""The fields of each type of objects, by its name."""

_TYPE_NAMES = {
    **{name: value for name, value in types.SIMPLE.items() if name not in ("dyn", "null", "duration", "timestamp")},
    "list": types.list_of(DYN),
    "map": types.map_of(DYN, DYN),
    "null_type": types.NULL,
    "type": ValueType("type", "type"),
    "optional_type": types.optional(DYN),
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "google.protobuf.Duration": types.DURATION,
}


@dataclass
class Checked:
    """What is known of an expression: the type of each node, the overloads of each call, and what is wrong."""

    tree: trees.Tree
    types: dict[int, ValueType] = field(default_factory=dict)
    overloads: dict[int, list[str]] = field(default_factory=dict)
    faults: list[tuple[int, str]] = field(default_factory=list)

    def type_of(self, node: Node) -> ValueType:
        """The type of a node."""
        return self.types.get(node.id, DYN)

    @property
    def answer(self) -> ValueType:
        """The type of the whole expression."""
        return self.type_of(self.tree.root)

    def words(self, expression: str) -> str:
        """What is wrong, as an API server writes it; empty where nothing is."""
        places = sorted((self.tree.positions.get(at, 0), why) for at, why in self.faults)
        return "\n".join(_line(expression, offset, why) for offset, why in places)


def _line(expression: str, offset: int, why: str) -> str:
    """One fault with its place in the text."""
    before = expression[:offset]
    row, column = before.count("\n"), offset - (before.rfind("\n") + 1)
    text = expression.split("\n")[row]
    return f"ERROR: <input>:{row + 1}:{column + 1}: {why}\n | {text}\n | {'.' * column}^"


def check(tree: trees.Tree, variables: Mapping[str, ValueType], fields: Fields) -> Checked:
    """Check an expression over typed variables."""
    checked = Checked(tree)
    checker = _Checker(checked, fields)
    checker.scopes.append(dict(variables))
    checker.check(tree.root)
    for identity, value in checked.types.items():
        checked.types[identity] = types.substituted(checker.bindings, value, dynamic=True)
    if not checked.faults:
        _formats(checked)
        _literals(checked)
    return checked


class _Checker:
    def __init__(self, checked: Checked, fields: Fields) -> None:
        self.checked = checked
        self.fields = fields
        self.scopes: list[dict[str, ValueType]] = []
        self.bindings: types.Bindings = {}
        self.fresh = 0

    def check(self, node: Node) -> ValueType:
        """Check a node and those in it; returns its type."""
        answer: ValueType = getattr(self, f"_{node.kind}")(node)
        self.checked.types[node.id] = answer
        return answer

    def fault(self, node: Node, why: str) -> ValueType:
        """Note what is wrong."""
        self.checked.faults.append((node.id, why))
        return ERROR

    def new_param(self) -> ValueType:
        """A type that is not settled yet."""
        self.fresh += 1
        return types.param(f"_var{self.fresh - 1}")

    def settled(self, value: ValueType) -> ValueType:
        """A type by what is known so far."""
        return types.substituted(self.bindings, value)

    def assignable(self, value: ValueType, target: ValueType) -> bool:
        return types.assignable(self.bindings, [value], [target])

    def _constant(self, node: Node) -> ValueType:
        return types.SIMPLE[node.name]

    def _ident(self, node: Node) -> ValueType:
        for scope in reversed(self.scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name in _TYPE_NAMES:
            return types.type_of(_TYPE_NAMES[node.name])
        return self.fault(node, f"undeclared reference to '{node.name}' (in container '')")

    def _select(self, node: Node) -> ValueType:
        if (name := _qualified(node)) in _TYPE_NAMES:
            return types.type_of(_TYPE_NAMES[name])
        if node.target is None:
            return ERROR
        answer = self._selected(node, node.target, node.name, optional=False)
        return BOOL if node.test_only else self.settled(answer)

    def _selected(self, node: Node, operand: Node, name: str, *, optional: bool) -> ValueType:
        """The type of a field of an operand."""
        target, was_optional = types.unwrapped(self.settled(self.check(operand)))
        answer = DYN
        if target.kind == "map":
            answer = target.parameters[1]
        elif target.kind == "struct":
            declared = self.fields.get(target.name, {})
            word = f"__{name}__" if name in RESERVED and name not in declared else name
            answer = declared[word] if word in declared else self.fault(node, f"undefined field '{name}'")
        elif target.kind == "param":
            self.assignable(DYN, target)
        elif target.kind not in ("dyn", "error"):
            self.fault(node, f"type '{target}' does not support field selection")
        return types.optional(answer) if optional or was_optional else answer

    def _call(self, node: Node) -> ValueType:
        if node.name == "_?._":
            operand, name = node.parts
            self.checked.overloads[node.id] = ["select_optional_field"]
            self.checked.types[name.id] = types.STRING
            return self.settled(self._selected(node, operand, str(name.value), optional=True))
        arguments = [self.check(part) for part in node.parts]
        if node.target is None:
            return self._resolved(node, node.name, None, arguments)
        # `sets.contains(a, b)` is written like a method of `sets`
        prefix = _qualified(node.target)
        if prefix and f"{prefix}.{node.name}" in overloads():
            node.name, node.target = f"{prefix}.{node.name}", None  # the name of a function, and no method
            return self._resolved(node, node.name, None, arguments)
        return self._resolved(node, node.name, self.check(node.target), arguments)

    def _resolved(self, node: Node, name: str, target: ValueType | None, arguments: list[ValueType]) -> ValueType:
        """The type that a call gives, by the overloads that take its arguments."""
        declared = overloads().get(name)
        if declared is None:
            return self.fault(node, f"undeclared reference to '{name}' (in container '')")
        if name in ("_&&_", "_||_"):
            return self._logical(node, declared[0], arguments)
        have = [*([] if target is None else [target]), *arguments]
        answer: ValueType | None = None
        for overload in declared:
            if overload.member != (target is not None):
                continue
            signature = self._instance(overload)
            if types.assignable(self.bindings, have, list(signature[1:])):
                self.checked.overloads.setdefault(node.id, []).append(overload.id)
                result = self.settled(signature[0])
                if answer is None:
                    answer = result
                elif answer not in (DYN, result):
                    answer = DYN
        if answer is not None:
            return answer
        # no overload takes the arguments
        words = [str(types.substituted(self.bindings, value, dynamic=True)) for value in have]
        on = f"{words.pop(0)}." if target is not None else ""
        return self.fault(node, f"found no matching overload for '{name}' applied to '{on}({', '.join(words)})'")

    def _logical(self, node: Node, overload: Overload, arguments: list[ValueType]) -> ValueType:
        self.checked.overloads[node.id] = [overload.id]
        count = len(self.checked.faults)
        for part, value in zip(node.parts, arguments, strict=True):
            if not self.assignable(value, BOOL):
                self.fault(part, f"expected type 'bool' but found '{value}'")
        return BOOL if len(self.checked.faults) == count else ERROR

    def _instance(self, overload: Overload) -> tuple[ValueType, ...]:
        """The answer and arguments of an overload, with type parameters of its own."""
        signature = (overload.answer, *overload.arguments)
        names = sorted({name for value in signature for name in _params(value)})
        fresh = {types.param(name): self.new_param() for name in names}
        return tuple(types.substituted(fresh, value) for value in signature)

    def _list(self, node: Node) -> ValueType:
        element: ValueType | None = None
        for index, part in enumerate(node.parts):
            element = self._joined(element, self._entry(part, index in node.optional))
        return types.list_of(element or self.new_param())

    def _map(self, node: Node) -> ValueType:
        if node.name:
            return self.fault(node, f"undeclared reference to '{node.name}' (in container '')")
        key: ValueType | None = None
        value: ValueType | None = None
        for index, (name, part) in enumerate(zip(node.parts[::2], node.parts[1::2], strict=True)):
            key = self._joined(key, self.check(name))
            value = self._joined(value, self._entry(part, index in node.optional))
        return types.map_of(key or self.new_param(), value or self.new_param())

    def _entry(self, node: Node, optional: bool) -> ValueType:
        """The type of an element; an optional one counts by what is in it."""
        answer = self.check(node)
        if not optional:
            return answer
        inner, was_optional = types.unwrapped(answer)
        if not was_optional and inner != DYN:
            self.fault(node, f"expected type '{types.optional(inner)}' but found '{inner}'")
        return inner

    def _joined(self, before: ValueType | None, value: ValueType) -> ValueType:
        """The one type of elements; anything where they have several."""
        if before is None:
            return value
        if self.assignable(before, value):
            return types.most_general(before, value)
        return DYN

    def _comprehension(self, node: Node) -> ValueType:
        over = self.settled(self.check(node.parts[trees.RANGE]))
        start = self.check(node.parts[trees.START])
        variable, accumulator = node.variables
        # the result is outside of the loop: it sees the accumulator, and not the variable
        self.scopes.append({accumulator: start})
        element = DYN
        if over.kind in ("list", "map"):
            element = over.parameters[0]
        elif over.kind in ("dyn", "error", "param"):
            self.assignable(DYN, over)
        else:
            why = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            element = self.fault(node.parts[trees.RANGE], why)
        self.scopes.append({variable: element})
        self._must_be(node.parts[trees.CONDITION], BOOL)
        self._must_be(node.parts[trees.STEP], start)
        self.scopes.pop()
        answer = self.check(node.parts[trees.RESULT])
        self.scopes.pop()
        return self.settled(answer)

    def _must_be(self, node: Node, target: ValueType) -> None:
        answer = self.check(node)
        if not self.assignable(target, answer):
            self.fault(node, f"expected type '{target}' but found '{answer}'")


def _params(value: ValueType) -> set[str]:
    inner = {name for parameter in value.parameters for name in _params(parameter)}
    return inner | ({value.name} if value.kind == "param" else set())


def _qualified(node: Node) -> str:
    """The dotted name that identifiers and selections make; empty where it is none."""
    if node.kind == "ident":
        return node.name
    if node.kind == "select" and node.target is not None and not node.test_only:
        prefix = _qualified(node.target)
        return f"{prefix}.{node.name}" if prefix else ""
    return ""


_CLAUSE = re.compile(r"%(?:%|(?:\.(?P<precision>\d*))?(?P<letter>.)?)", re.DOTALL)
_SHOWN = ("bool", "bytes", "double", "duration", "int", "list", "map", "null", "string", "timestamp", "type", "uint")
_NUMBERS = ("int", "uint")
_CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    "s": (
        _SHOWN,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps",
    ),
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": ((*_NUMBERS, "bool"), "only integers and bools can be formatted as binary"),
    "x": ((*_NUMBERS, "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_NUMBERS, "octal clause can only be used on integers"),
}
"""The types that each clause of a format shows, and what is said of another."""


def _formats(checked: Checked) -> None:
    """Judge each format that is written out, with a list that is written out.

    Source: github.com/google/cel-go, ext/formatting.go.
    """
    for node in trees.walk(checked.tree.root):
        target = node.target
        if node.name != "format" or target is None or target.kind != "constant" or target.name != "string":
            continue
        if node.parts[0].kind == "list":
            _format(checked, node, str(target.value), node.parts[0].parts)


def _format(checked: Checked, node: Node, text: str, arguments: tuple[Node, ...]) -> None:
    position = 0
    for match in _CLAUSE.finditer(text):
        if match[0] == "%%":
            continue
        letter, why, at = match["letter"], "", node.id
        if letter is None:
            why = "unexpected end of string"
        elif position >= len(arguments):
            why = f"index {position} out of range"
        elif letter.lower() not in _CLAUSES or (letter.isupper() and letter != "X"):
            why = f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
        else:
            kinds, words = _CLAUSES[letter.lower()]
            if (culprit := _not_shown(checked, arguments[position], kinds)) is not None:
                argument_type = checked.type_of(culprit)
                at, why = (
                    culprit.id,
                    f"error during formatting: {words}, was given {argument_type.name or argument_type.kind}",
                )
        if why:
            checked.faults.append((at, why))
            return
        position += 1
    if len(arguments) > position:
        why = f"too many arguments supplied to string.format (expected {position}, got {len(arguments)})"
        checked.faults.append((node.id, why))


def _not_shown(checked: Checked, node: Node, kinds: tuple[str, ...]) -> Node | None:
    """The part of an argument that a clause cannot show; None where it can."""
    if checked.type_of(node).kind not in (*kinds, "dyn"):
        return node
    inner = node.parts if kinds is _SHOWN and node.kind in ("list", "map") else ()
    return next((culprit for part in inner if (culprit := _not_shown(checked, part, kinds)) is not None), None)


def _literals(checked: Checked) -> None:
    """Note lists and maps that are written out with entries of two types, but for those in `format`."""
    exempt = {
        inner.id
        for node in trees.walk(checked.tree.root)
        if node.kind == "call" and node.name == "format"
        for part in node.parts
        for inner in trees.walk(part)
    }
    for node in trees.walk(checked.tree.root):
        if node.kind not in ("list", "map") or node.id in exempt:
            continue
        if node.kind == "list":
            _same(checked, node.parts, node.optional)
        else:
            _same(checked, node.parts[::2], frozenset())
            _same(checked, node.parts[1::2], node.optional)


def _same(checked: Checked, parts: tuple[Node, ...], optional: frozenset[int]) -> None:
    first_type: ValueType | None = None
    for index, part in enumerate(parts):
        value = checked.type_of(part)
        value = types.unwrapped(value)[0] if index in optional else value
        if first_type is None:
            first_type = value
        elif not types.equivalent(first_type, value):
            checked.faults.append((part.id, f"expected type '{first_type}' but found '{value}'"))
            return

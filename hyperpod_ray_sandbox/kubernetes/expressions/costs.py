"""What an expression costs at most, by the bounds of the schema that it reads.

Source: github.com/google/cel-go, checker/cost.go; k8s.io/apiserver, pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hyperpod_ray_sandbox.kubernetes.expressions import signatures
from hyperpod_ray_sandbox.kubernetes.expressions.checker import Checked
from hyperpod_ray_sandbox.kubernetes.expressions.declared import Declared
from hyperpod_ray_sandbox.kubernetes.expressions.trees import Node
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import ValueType, unwrapped

MOST = 2**64 - 1
_TRAVERSAL, _PATTERN = 0.1, 0.25
_LONGEST_FORMAT = 128
"""Letters of the longest pattern among the formats of `format`."""
_NEW_LIST, _NEW_MAP, _NEW_STRUCT = 10, 30, 40
_SCALARS = ("bool", "double", "duration", "int", "timestamp", "uint")


class Span(NamedTuple):
    """The least and the most of a size or cost."""

    low: int
    high: int

    def plus(self, span: Span) -> Span:
        """The sum."""
        return Span(min(self.low + span.low, MOST), min(self.high + span.high, MOST))

    def times(self, span: Span) -> Span:
        """The product."""
        return Span(min(self.low * span.low, MOST), min(self.high * span.high, MOST))

    def scaled(self, factor: float) -> Span:
        """The product with a fraction, rounded up."""
        return Span(*(min(math.ceil(float(limit) * factor), MOST) for limit in self))

    def union(self, span: Span) -> Span:
        """What takes in both."""
        return Span(min(self.low, span.low), max(self.high, span.high))


ZERO, ONE, UNKNOWN = Span(0, 0), Span(1, 1), Span(0, MOST)


@dataclass(frozen=True)
class Entries:
    """The container of a list or map that is written out, and the sizes of its keys and values."""

    container: str
    keys: Span
    values: Span


class Argument(NamedTuple):
    """What a function is called with: its path in the schema, type, node, and size where that follows from the text."""

    path: tuple[str, ...]
    type: ValueType
    node: Node | None
    size: Span | None


class Answer(NamedTuple):
    """What a call costs, and the size of what it gives."""

    cost: Span
    size: Span | None = None


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Span | None
    entries: Entries | None


def most(checked: Checked, root: Declared) -> int:
    """The cost of an expression at most."""
    return _Estimate(checked, root).cost(checked.tree.root).high


class _Estimate:
    def __init__(self, checked: Checked, root: Declared) -> None:
        self.checked = checked
        self.root = root
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Span] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Span:
        """The cost of a node and those in it."""
        answer: Span = getattr(self, f"_{node.kind}")(node)
        return answer

    # ---- what is known of a node ---------------------------------------------------------------------------------

    def local(self, node: Node) -> _Local | None:
        """The local variable that a node names."""
        stack = self.locals.get(node.name) if node.kind == "ident" else None
        return stack[-1] if stack else None

    def path(self, node: Node) -> tuple[str, ...]:
        """Where in the schema a node's value lies; empty where it is of no schema."""
        variable = self.local(node)
        return variable.path if variable else self.paths.get(node.id, ())

    def declared_size(self, path: tuple[str, ...]) -> Span | None:
        """The size that a schema allows at a path."""
        if not path:
            return None
        at: Declared | None = self.root
        for step in path[1:]:
            if step in ("@items", "@values"):
                at = at.element if at else None
            elif step == "@keys":
                at = at.key if at else None
            else:
                at = at.fields.get(step) if at else None
        return Span(0, at.bound) if at else None

    def size(self, node: Node) -> Span | None:
        """The size of a node's value; None where nothing bounds it."""
        if node.id in self.sizes:
            return self.sizes[node.id]
        if (written := _written(node)) is not None:
            return Span(written, written)
        # the schema before the type: a number of a schema counts as nothing, a number that is computed as one
        declared = self.declared_size(self.path(node))
        if declared is not None:
            self.sizes[node.id] = declared
            return declared
        if unwrapped(self.checked.type_of(node))[0].kind in _SCALARS:
            return ONE
        variable = self.local(node)
        return variable.size if variable else None

    def entries_of(self, node: Node) -> Entries | None:
        """The sizes of the entries of a list or map."""
        if node.id in self.entries:
            return self.entries[node.id]
        variable = self.local(node)
        return variable.entries if variable else None

    def keep(self, node: Node, size: Span | None, entries: Entries | None = None) -> None:
        """Remember the size of what a node gives."""
        if size is not None:
            self.sizes[node.id] = size
        if entries is not None:
            self.entries[node.id] = entries

    def argument(self, node: Node) -> Argument:
        """A node as an argument of a function."""
        path = self.path(node)
        return Argument(
            () if path[:1] in (("__result__",), ("@result",)) else path,
            self.checked.type_of(node),
            node,
            self.size(node),
        )

    def bound(self, argument: Argument) -> Span:
        """The size of an argument at most."""
        if argument.size is not None:
            return argument.size
        declared = self.declared_size(argument.path)
        return UNKNOWN if declared is None else declared

    def element(self, argument: Argument) -> Argument | None:
        """The elements of a list; None for a text."""
        if not argument.type.parameters:
            return None
        path = (*argument.path, "@items") if argument.path else ()
        return Argument(path, argument.type.parameters[0], None, None)

    # ---- kinds of nodes ------------------------------------------------------------------------------------------

    def _constant(self, node: Node) -> Span:
        del node
        return ZERO

    def _ident(self, node: Node) -> Span:
        variable = self.local(node)
        self.paths[node.id] = variable.path if variable else (node.name,)
        return ONE

    def _select(self, node: Node) -> Span:
        if node.target is None:
            return ZERO
        cost = self.cost(node.target)
        if node.test_only:  # `has` costs nothing by itself
            return cost
        self.paths[node.id] = (*self.path(node.target), node.name)
        return cost.plus(ONE) if self.checked.type_of(node.target).kind in ("map", "struct", "param") else cost

    def _list(self, node: Node) -> Span:
        cost, sizes = Span(_NEW_LIST, _NEW_LIST), Span(MOST if node.parts else 0, 0)
        for part in node.parts:
            cost = cost.plus(self.cost(part))
            sizes = sizes.union(self.size(part) or UNKNOWN)
        self.keep(node, None, Entries("list", ONE, sizes))
        return cost

    def _map(self, node: Node) -> Span:
        base = _NEW_STRUCT if node.name else _NEW_MAP
        cost, low = Span(base, base), MOST if node.parts else 0
        sizes = [Span(low, 0), Span(low, 0)]
        for index, part in enumerate(node.parts):
            cost = cost.plus(self.cost(part))
            sizes[index % 2] = sizes[index % 2].union(self.size(part) or UNKNOWN)
        self.keep(node, None, Entries("map", *sizes))
        return cost

    def _comprehension(self, node: Node) -> Span:
        over, start, condition, step, result = node.parts
        variable, accumulator = node.variables
        cost = self.cost(over).plus(self.cost(start))
        self._push(accumulator, _Local(self.path(start), self.size(start), self.entries_of(start)))
        # `optMap` and its like bind a variable by a loop over nothing
        bind = over.kind == "list" and not over.parts and condition.kind == "constant" and condition.value is False
        if bind and accumulator != "__result__":
            cost = cost.plus(self.cost(result))
            self.locals[accumulator].pop()
            self.keep(node, self.size(result), self.entries_of(result))
            return cost
        entries = self.entries_of(over)
        listed = (entries.container if entries else self.checked.type_of(over).kind) == "list"
        size = (entries.values if listed else entries.keys) if entries else None
        self._push(variable, _Local((*self.path(over), "@items" if listed else "@keys"), size, None))
        per_run = self.cost(condition).plus(self.cost(step))
        self.locals[variable].pop()
        cost = cost.plus(self.cost(result))
        self.locals[accumulator].pop()
        count = self.size(over) or UNKNOWN
        if start.kind == "constant":
            self.keep(node, self.size(start))
        elif start.kind in ("list", "map"):
            self.keep(node, count, self.entries_of(step))
        return cost.plus(count.times(per_run))

    def _push(self, name: str, variable: _Local) -> None:
        self.locals.setdefault(name, []).append(variable)

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> Span:
        if node.name == "dyn":
            cost = self.cost(node.parts[0]).plus(ONE)
            self.keep(node, self.size(node.parts[0]), self.entries_of(node.parts[0]))
            return cost
        costs = [self.cost(part) for part in node.parts]
        arguments = [self.argument(part) for part in node.parts]
        called = self.checked.overloads.get(node.id) or []
        if not called:
            return ZERO
        before = self.cost(node.target) if node.target else ZERO
        target = self.argument(node.target) if node.target else None
        cost, size = Span(MOST, 0), None
        for overload in called:
            answer = self._overload(node, overload, target, arguments, costs)
            cost = cost.union(answer.cost)
            if answer.size is not None:
                size = answer.size if size is None else size.union(answer.size)
            if overload in ("index_list", "index_map"):
                entries = self.entries_of(node.parts[0])
                size = entries.values if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[node.id] = (*self.path(node.parts[0]), step)
            # what an index gives is as big as the schema lets it be
            if size is None:
                size = self.size(node)
        self.keep(node, size)
        return before.plus(cost)

    def _overload(
        self, node: Node, overload: str, target: Argument | None, arguments: list[Argument], costs: list[Span]
    ) -> Answer:
        """The cost of a call of one overload, its arguments included."""
        every = ZERO
        for cost in costs:
            every = every.plus(cost)
        answer = self._extension(overload, target, arguments) or self._kubernetes(
            node.name, overload, target, arguments
        )
        if answer is not None:
            return Answer(answer.cost.plus(every), answer.size)
        if overload in ("logical_or", "logical_and"):
            return Answer(Span(costs[0].low, every.high))
        if overload == "conditional":
            entries = [self.entries_of(part) for part in node.parts[1:]]
            self.keep(node, None, _union(*entries))
            sizes = [argument.size or UNKNOWN for argument in arguments[1:]]
            return Answer(costs[0].plus(costs[1].union(costs[2])), sizes[0].union(sizes[1]))
        return self._standard(node, overload, target, arguments, every)

    def _standard(
        self, node: Node, overload: str, target: Argument | None, arguments: list[Argument], every: Span
    ) -> Answer:
        """The cost of a function of the language itself."""
        on = (target.size if target else None) or UNKNOWN
        sizes = [argument.size or UNKNOWN for argument in arguments]
        cost, size = ONE, None
        if overload == "string_format":
            cost = on.scaled(_TRAVERSAL)
        elif overload == "string_to_bytes":
            cost, size = sizes[0].scaled(_TRAVERSAL), Span(sizes[0].low, _wrapped(sizes[0].high * 4))
        elif overload == "bytes_to_string":
            cost, size = sizes[0].scaled(_TRAVERSAL), Span(sizes[0].low // 4, sizes[0].high)
        elif overload == "strings_quote":
            cost = sizes[0].scaled(_TRAVERSAL)
            size = Span(_wrapped(sizes[0].low + 2), _wrapped(sizes[0].high * 2 + 2))
        elif overload in ("starts_with_string", "ends_with_string"):
            cost = sizes[0].scaled(_TRAVERSAL)
        elif overload == "in_list":
            cost = sizes[1].scaled(1)
        elif overload == "matches_string":
            cost = on.plus(ONE).scaled(_TRAVERSAL).times(sizes[0].scaled(_PATTERN))
        elif overload == "contains_string":
            cost = on.scaled(_TRAVERSAL).times(sizes[0].scaled(_TRAVERSAL))
        elif overload in ("add_string", "add_bytes", "add_list"):
            size = sizes[0].plus(sizes[1])
            self.keep(node, None, _union(*(self.entries_of(part) for part in node.parts)))
            cost = ONE if overload == "add_list" else size.scaled(_TRAVERSAL)
        elif overload in ("equals", "not_equals") or _compares_text(overload):
            smallest = min(sizes[0].high, sizes[1].high)
            cost = Span(int(smallest > 0), smallest).scaled(_TRAVERSAL)
        return Answer(cost.plus(every), size)

    def _extension(self, overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Answer | None:
        """The cost of a function over sets or lists."""
        if overload.startswith("list_sets_"):
            factor = 2 if "equivalent" in overload else 1
            return Answer(self.bound(arguments[0]).times(self.bound(arguments[1])).scaled(factor).plus(ONE))
        if overload == "lists_range":
            count = _number(arguments[0], MOST)
            return _new_list(1, Span(count, count))
        return None if target is None else self._of_list(overload, self.bound(target), arguments)

    def _of_list(self, overload: str, size: Span, arguments: Sequence[Argument]) -> Answer | None:
        """The cost of a function that makes a list of a list."""
        if overload == "list_slice":
            count = _wrapped(_number(arguments[1], size.high) - _number(arguments[0], 0))
            return _new_list(1, Span(count, count))
        if overload == "list_reverse":
            return _new_list(1, size)
        if overload in ("list_flatten", "list_flatten_int"):
            return _new_list(_number(arguments[0], MOST) if arguments else 1, size)
        if overload == "list_distinct" or (overload.startswith("list_") and overload.endswith("_sort")):
            factor = 2 + _TRAVERSAL if overload in ("list_string_sort", "list_bytes_sort") else 2
            return _new_list(factor, size.times(size))
        return None

    def _kubernetes(
        self, name: str, overload: str, target: Argument | None, arguments: Sequence[Argument]
    ) -> Answer | None:
        """The cost of a function of Kubernetes."""
        if name in _NOMINAL or overload == "cidr_ip":
            return Answer(ONE)
        if name in _PARSES:
            size = self.bound(arguments[0])
            return Answer(size.scaled(_PARSES[name] * _TRAVERSAL), size if name == "url" else None)
        if name == "_==_" and arguments[0].type == arguments[1].type:
            return self._equal(arguments)
        method = getattr(self, f"_of_{_METHODS.get(name, '')}", None)
        return None if target is None or method is None else method(overload, target, arguments)

    def _equal(self, arguments: Sequence[Argument]) -> Answer | None:
        """The cost of comparing two values of Kubernetes' own types."""
        if arguments[0].type in (signatures.IP, signatures.CIDR, signatures.QUANTITY, signatures.SEMVER):
            return Answer(ONE)
        if arguments[0].type == signatures.URL:
            size = arguments[1].size
            return Answer(Span(1, size.high if size else 1).scaled(_TRAVERSAL))
        return None

    def _of_elements(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload, arguments
        size, element = self.bound(target), self.element(target)
        if element is None:
            return Answer(size.scaled(_TRAVERSAL))
        comparison = ONE
        # to compare texts is to read them
        if element.type.kind in ("string", "bytes"):
            comparison = comparison.plus(self.bound(element).scaled(_TRAVERSAL))
        return Answer(size.times(comparison))

    def _of_traversal(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload, arguments
        size = self.bound(target)
        return Answer(size.scaled(_TRAVERSAL), size)

    def _of_format(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload, target
        return Answer(self.bound(arguments[0]).scaled(_TRAVERSAL).scaled(_LONGEST_FORMAT * _PATTERN))

    def _of_split(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload
        size = self.bound(target)
        count = size.high
        if len(arguments) > 1 and (node := arguments[1].node) is not None and node.name == "int":
            count = _wrapped(node.value)
        return Answer(size.scaled(2 * _TRAVERSAL), Span(0, count))

    def _of_join(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload
        count, element, size = self.bound(target), self.element(target), ZERO
        if element is not None:
            size = count.times(self.bound(element))
        if arguments:
            separators = Span(max(count.low - 1, 0), max(count.high - 1, 0))
            size = size.plus(self.bound(arguments[0]).times(separators))
        return Answer(size.scaled(_TRAVERSAL), size)

    def _of_find(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload
        size = self.bound(target)
        pattern = self.bound(arguments[0]).scaled(_PATTERN)
        return Answer(size.plus(ONE).scaled(_TRAVERSAL).times(pattern), Span(0, size.high))

    def _of_contained(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del target
        size = Span(4, 16)
        cost = size.plus(size).scaled(_TRAVERSAL)
        if overload.startswith("cidr_contains_cidr"):
            cost = cost.plus(size.scaled(_TRAVERSAL)).plus(ONE)
        if overload.endswith("_string"):
            cost = cost.plus(self.bound(arguments[0]).scaled(_TRAVERSAL))
        return Answer(cost)

    def _of_replace(self, overload: str, target: Argument, arguments: Sequence[Argument]) -> Answer:
        del overload
        size, pattern, text = self.bound(target), self.bound(arguments[0]), self.bound(arguments[1])
        longest = (min(size.high + 1, MOST), size.high)
        # an empty pattern puts the new text around each character
        if pattern.low:
            longest = (0, size.high) if text.high <= pattern.low else (math.ceil(size.high / pattern.low), 0)
        shortest = (min(size.low + 1, MOST), size.low)
        if pattern.high:
            shortest = (0, size.low) if pattern.high <= text.low else (math.ceil(size.low / pattern.high), 0)
        result = Span(shortest[0], longest[0]).times(text).plus(Span(shortest[1], longest[1]))
        return Answer(size.scaled(2 * _TRAVERSAL), result)


_NOMINAL = {
    "add", "asApproximateFloat", "asInteger", "compareTo", "family", "format.named", "getEscapedPath", "getHost",
    "getHostname", "getPort", "getQuery", "getScheme", "isGlobalUnicast", "isGreaterThan", "isInteger", "isLessThan",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified", "major", "masked", "minor", "patch",
    "prefixLength", "sign", "sub",
}  # fmt: skip
_PARSES = {
    **dict.fromkeys(("url", "cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), 1),
    "ip.isCanonical": 2,
}  # fmt: skip
"""How often a function reads the text that it parses."""
_METHODS = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), "elements"),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), "traversal"),
    **dict.fromkeys(("find", "findAll"), "find"),
    **dict.fromkeys(("containsIP", "containsCIDR"), "contained"),
    "split": "split", "join": "join", "replace": "replace", "validate": "format",
}  # fmt: skip


def _compares_text(overload: str) -> bool:
    return overload.startswith(("less_", "greater_")) and overload.endswith(("_string", "_bytes"))


def _wrapped(number: int) -> int:
    """A number as 64 bits hold it."""
    return number & MOST


def _written(node: Node) -> int | None:
    """The size of what is written out; None for another node."""
    if node.kind == "constant":
        return len(node.value) if node.name in ("string", "bytes") else 1
    if node.kind == "list":
        return len(node.parts)
    return len(node.parts) // 2 if node.kind == "map" and not node.name else None


def _number(argument: Argument, otherwise: int) -> int:
    """The whole number that an argument is, where it is written out."""
    node = argument.node
    if node is not None and node.kind == "constant" and node.name == "int":
        return max(0, int(node.value))
    return otherwise


def _new_list(factor: float, size: Span) -> Answer:
    return Answer(size.scaled(factor).plus(ONE).plus(Span(_NEW_LIST, _NEW_LIST)), size)


def _union(entries: Entries | None, joined: Entries | None) -> Entries | None:
    if entries is None or joined is None:
        return None
    return Entries(entries.container, entries.keys.union(joined.keys), entries.values.union(joined.values))

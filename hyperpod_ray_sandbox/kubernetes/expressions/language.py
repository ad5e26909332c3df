"""Compiles and evaluates expressions, and says what is wrong with one before any object meets it."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from hyperpod_ray_sandbox.kubernetes.expressions.functions import CHECKED, FUNCTIONS, UNSERVED, CallError
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]

FAULTS = (RuntimeError, ValueError, TypeError, KeyError, re.error, CallError)
_HAS = re.compile(r"\bhas\([^()]*\)")


def cel() -> Any:
    """The evaluator's module."""
    # in the environment of the emulator only, so not imported by whoever imports this
    return importlib.import_module("cel_expr_python.cel")


def installed() -> bool:
    """Whether the evaluator is here: only the server's own environment has it, and nobody else judges expressions."""
    return importlib.util.find_spec("cel_expr_python") is not None


@lru_cache(maxsize=2)
def _declarations(*, checked: bool = False) -> tuple[list[Any], list[Any]]:
    """The extensions and functions of every environment; `checked` for one that evaluates nothing."""
    types = cel().Type
    # the strings of Kubernetes share names with its lists, so they are among its functions
    extensions = [importlib.import_module("cel_expr_python.ext.ext_optional").ExtOptional()]
    kinds = {
        "d": types.DYN, "s": types.STRING, "i": types.INT, "f": types.DOUBLE, "b": types.BOOL,
        "l": types.List(types.DYN), "m": types.Map(types.DYN, types.DYN),
        "I": types.List(types.INT), "F": types.List(types.DOUBLE), "D": types.List(types.DURATION),
    }  # fmt: skip
    overloads: dict[str, list[Any]] = {}
    functions = [f for f in FUNCTIONS if not (checked and f[0] in CHECKED)]
    for function in FUNCTIONS if checked else ():
        functions += [(*function[:2], lists, *function[3:]) for lists in CHECKED.get(function[0], ())]
    for name, member, parameters, answer, implementation in functions:
        key = f"kubernetes_{name.replace('.', '_')}_{'member_' if member else ''}{parameters}"
        declared = [kinds[letter] for letter in parameters]
        overload = cel().Overload(key, kinds[answer], declared, is_member=member, impl=_plain(implementation))
        overloads.setdefault(name, []).append(overload)
    return extensions, [cel().FunctionDecl(name, entries) for name, entries in overloads.items()]


def _plain(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """A function over plain values, as the evaluator calls it."""

    def call(*values: Any) -> Any:
        return implementation(*[_value(value) for value in values])

    return call


def _value(value: Any) -> Any:
    if hasattr(value, "plain_value"):
        return value.plain_value()
    if isinstance(value, list):
        return [_value(element) for element in value]
    if isinstance(value, dict):
        return {key: _value(element) for key, element in value.items()}
    return value


def environment(variables: dict[str, Any], *, checked: bool = False) -> Any:
    """An environment with variables of types; `checked` for one that evaluates nothing."""
    extensions, functions = _declarations(checked=checked)
    return cel().NewEnv(variables=variables, extensions=extensions, functions=functions)


@lru_cache(maxsize=64)
def _free(names: tuple[str, ...], timed: tuple[tuple[str, str], ...] = ()) -> Any:
    """An environment whose variables may be anything, but for times and durations."""
    types = {name: getattr(cel().Type, type_name) for name, type_name in timed}
    return environment({**dict.fromkeys(names, cel().Type.DYN), **types})


@lru_cache(maxsize=2048)
def compiled(expression: str, names: tuple[str, ...], timed: tuple[tuple[str, str], ...] = ()) -> Any:
    """An expression over variables of any type; raises RuntimeError where it does not compile."""
    return _free(names, timed).compile(expression)


def evaluate(expression: str, data: Json, timed: Mapping[str, str] | None = None) -> Any:
    """The value of an expression; raises one of `FAULTS` where it has none.

    `timed` names the type of variables that are TIMESTAMP or DURATION.
    """
    answer = compiled(expression, tuple(sorted(data)), tuple(sorted((timed or {}).items()))).eval(data=data)
    if answer.type().name() == "ERROR" or answer.type() == cel().Type.ERROR:
        raise ValueError(str(answer.value()))
    return answer.plain_value()


def refuse_unserved(expression: str) -> None:
    """Raise 501 for what Kubernetes has and this evaluator has not: a wrong verdict would be worse."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "''", expression)
    if match := UNSERVED.search(plain):
        raise ApiError(501, "NotImplemented", f"the sandbox does not evaluate {match[0]}: {expression}"[:400])


def fault(expression: str, variables: dict[str, Any], answer: str = "BOOL", *, exactly: bool = False) -> str:
    """Why an expression over typed variables is refused; empty where it is not.

    `exactly` refuses what may be anything, as policies do. The types of their variables are not known here.
    """
    refuse_unserved(expression)
    try:
        _free(tuple(sorted(variables))).compile(expression)
        # a variable `self.n` answers has(self.n) with its own type
        checked = _checked(_HAS.sub("(1 == 1)", expression), variables)
    except FAULTS as error:
        return f"compilation failed: {_words(error)}"
    if why := _mixed(expression, tuple(sorted(variables))):
        return f"compilation failed: {why}"
    if why := _constant_fault(expression):
        return f"compilation failed: {why}"
    have = checked.return_type().name()
    if exactly and answer not in ("DYN", have) and not (have == "DYN" and "variables." in expression):
        return f"must evaluate to {answer.lower()} but got {have.lower()}"
    if have not in (answer, "DYN") and answer != "DYN":
        word = {"BOOL": "a bool", "STRING": "a string"}[answer]
        return f"cel expression must evaluate to {word}"
    return ""


_TWO_NUMBERS = re.compile(r"no matching overload for '_(?:<|>)=?_' applied to '\((?:double, u?int|u?int, double)\)'")


def _checked(expression: str, variables: dict[str, Any]) -> Any:
    """An expression over typed variables; numbers of two types may be compared, as Kubernetes lets them."""
    try:
        return environment(variables, checked=True).compile(expression)
    except FAULTS as error:
        if not _TWO_NUMBERS.search(str(error)):
            raise
        numbers = (cel().Type.DOUBLE, cel().Type.INT)
        free = {name: cel().Type.DYN if kind in numbers else kind for name, kind in variables.items()}
        return environment(free, checked=True).compile(expression)


def answer_type(expression: str, variables: dict[str, Any]) -> Any:
    """The type that an expression gives, where it is one of the simple ones; None else."""
    try:
        answer = environment(variables, checked=True).compile(_HAS.sub("(1 == 1)", expression)).return_type()
    except FAULTS:
        return None
    return answer if answer.name() in ("BOOL", "DOUBLE", "INT", "STRING") else None


_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_CONSTANTS = re.compile(
    rf"\.(?:matches|find|findAll)\(\s*(?P<pattern>r?{_TEXT})|\b(?P<time>(?:duration|timestamp)\(\s*{_TEXT}\s*\))|{_TEXT}"
)
"""Patterns and times that are written out, and any other text, so that none is looked for inside of it."""


def _constant_fault(expression: str) -> str:
    """Why a constant is none: Kubernetes evaluates it when it makes the program, before there is an object."""
    for match in _CONSTANTS.finditer(expression):
        constant = match["time"] and f"string({match['time']}) != ''"
        constant = constant or (match["pattern"] and f"''.matches({match['pattern']})")
        try:
            if constant:
                evaluate(constant, {})
        except FAULTS as error:
            return _words(error)
    return ""


def _words(error: BaseException) -> str:
    return str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")


# ---- fields --------------------------------------------------------------------------------------------------------


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


# numbers of the fields of cel.expr.Expr and of the messages in it
_IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 4, 5, 6, 7, 8, 9
_CHECKED, _ANY_VALUE = 4, 2
_INDEX = "_[_]"


class UndefinedFieldError(Exception):
    """An expression reads a field that its schema has not."""


def check_fields(expression: str, schemas: Mapping[str, Json | None], escape: Callable[[str], str]) -> str:
    """The first field that an expression reads and a schema has not, in words; empty where there is none."""
    try:
        serialized = compiled(expression, tuple(sorted(schemas))).serialize()
    except FAULTS:
        return ""
    tree = _field(_field(serialized, _ANY_VALUE) or b"", _CHECKED)
    if tree is None:
        return ""
    try:
        _walk(tree, dict(schemas), escape)
    except UndefinedFieldError as error:
        return f"compilation failed: ERROR: <input>: undefined field '{error}'\n | {expression}"
    return ""


_CONST = 3
_CONSTANT_TYPES = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


def _mixed(expression: str, names: tuple[str, ...]) -> str:
    """Why a list or map that is written out is refused: its constants are of two types."""
    try:
        serialized = compiled(expression, names).serialize()
    except FAULTS:
        return ""
    found = _two_types(_field(_field(serialized, _ANY_VALUE) or b"", _CHECKED) or b"")
    return f"expected type '{found[0]}' but found '{found[1]}'" if found else ""


_INSIDE = {_CALL: (1, 3), _SELECT: (1,), _LIST: (1,), _COMPREHENSION: (2, 4, 5, 6, 7)}
"""Which fields of a message are expressions."""
_ENTRIES, _ENTRY_VALUE = 2, 4


def _inside(number: int, content: bytes) -> list[bytes]:
    """The expressions in one: operands, elements, values of a map, parts of a loop."""
    fields = _INSIDE.get(number, ())
    parts = [part for field, part in _messages(content) if field in fields and isinstance(part, bytes)]
    if number == _STRUCT:
        entries = [part for field, part in _messages(content) if field == _ENTRIES and isinstance(part, bytes)]
        parts = [value for entry in entries if isinstance(value := _field(entry, _ENTRY_VALUE), bytes)]
    return parts


def _two_types(tree: bytes) -> tuple[str, str] | None:
    """The types of the first literal that has constants of two."""
    for number, content in _messages(tree):
        if number not in (*_INSIDE, _STRUCT):
            continue
        inside = _inside(number, content)
        kinds = [kind for part in inside if (kind := _constant_type(part))] if number in (_LIST, _STRUCT) else []
        if other := next((kind for kind in kinds if kind != kinds[0]), None):
            return kinds[0], other
        for part in inside:
            if types := _two_types(part):
                return types
    return None


def _constant_type(element: bytes) -> str:
    """The type of a constant; empty for another expression."""
    constant = _field(element, _CONST)
    if not isinstance(constant, bytes):
        return ""
    return next((_CONSTANT_TYPES.get(number, "") for number, _ in _messages(constant)), "")


def _walk(tree: bytes, scope: dict[str, Json | None], escape: Callable[[str], str]) -> Json | None:
    """The schema of what an expression gives, None where it is not known."""
    for number, content in _messages(tree):
        if number == _IDENT:
            return scope.get((_field(content, 1) or b"").decode().removeprefix("."))
        if number == _SELECT:
            return _selected(content, scope, escape)
        if number == _CALL:
            function = (_field(content, 2) or b"").decode()
            targets = [value for field, value in _messages(content) if field in (1, 3)]
            schemas = [_walk(target, scope, escape) for target in targets]
            return _element(schemas[0]) if function == _INDEX and schemas else None
        if number == _LIST:
            for _, element in _messages(content):
                if isinstance(element, bytes):
                    _walk(element, scope, escape)
            return None
        if number == _COMPREHENSION:
            return _comprehension(content, scope, escape)
    return None


def _selected(content: bytes, scope: dict[str, Json | None], escape: Callable[[str], str]) -> Json | None:
    """The schema of a field that an expression reads."""
    schema = _walk(_field(content, 1) or b"", scope, escape)
    name = (_field(content, 2) or b"").decode()
    if schema is None or isinstance(schema.get("additionalProperties"), dict) or schema.get("type") != "object":
        extra = (schema or {}).get("additionalProperties")
        return extra if isinstance(extra, dict) else None
    fields = {escape(field): inner for field, inner in (schema.get("properties") or {}).items()}
    fields |= dict(schema.get("properties") or {})
    if schema.get("x-kubernetes-embedded-resource"):
        return fields.get(name)
    if name not in fields:
        raise UndefinedFieldError(name)
    inner: Json = fields[name]
    return inner


def _element(schema: Json | None) -> Json | None:
    """The schema of what is in a list or map."""
    for part in ("items", "additionalProperties"):
        inner = (schema or {}).get(part)
        if isinstance(inner, dict):
            return inner
    return None


_REQUEST_BYTES = 3 * 1024 * 1024


def most(schema: Json | None) -> int:
    """How many elements a list or map has at most: by its bounds, else by what a request holds."""
    for bound, part in (("maxItems", "items"), ("maxProperties", "additionalProperties")):
        inner = (schema or {}).get(part)
        if isinstance(inner, dict):
            return int((schema or {}).get(bound) or _REQUEST_BYTES // (_least_bytes(inner) + 1))
    return 1


def _least_bytes(schema: Json) -> int:
    """How long a value is at least, as JSON."""
    declared = schema.get("type")
    if declared == "object":
        fields = schema.get("properties") or {}
        return 2 + sum(len(name) + 4 + _least_bytes(fields.get(name) or {}) for name in schema.get("required") or ())
    return {"boolean": 4, "integer": 1, "number": 1}.get(str(declared), 2)


def loops(expression: str, schemas: Mapping[str, Json | None], escape: Callable[[str], str]) -> int:
    """How often the innermost loop of an expression runs at most: less than what the expression costs."""
    try:
        serialized = compiled(expression, tuple(sorted(schemas))).serialize()
        tree = _field(_field(serialized, _ANY_VALUE) or b"", _CHECKED) or b""
        return _loops(tree, dict(schemas), escape)
    except (*FAULTS, UndefinedFieldError):
        return 1


def _loops(tree: bytes, scope: dict[str, Json | None], escape: Callable[[str], str]) -> int:
    runs = 1
    for number, content in _messages(tree):
        if number == _COMPREHENSION:
            parts = dict(_messages(content))
            over = _walk(parts.get(2, b""), scope, escape)
            listed = bool(over and over.get("items"))
            variable = _element(over) if listed else None
            inner = {**scope, parts.get(1, b"").decode(): variable, parts.get(3, b"").decode(): None}
            body = max(_loops(parts.get(part, b""), inner, escape) for part in (5, 6, 7))
            runs = max(runs, most(over) * body, _loops(parts.get(2, b""), scope, escape))
        elif number in (*_INSIDE, _STRUCT):
            runs = max([runs, *(_loops(part, scope, escape) for part in _inside(number, content))])
    return runs


def _comprehension(content: bytes, scope: dict[str, Json | None], escape: Callable[[str], str]) -> Json | None:
    """Follow a macro: its variable is an element of what it walks over."""
    parts = dict(_messages(content))
    over = _walk(parts.get(2, b""), scope, escape)
    listed = bool(over and over.get("items"))
    inner = {**scope, parts.get(1, b"").decode(): _element(over) if listed else None, parts.get(3, b"").decode(): None}
    for number in (4, 5, 6, 7):
        _walk(parts.get(number, b""), inner, escape)
    return None


def dynamic(names: tuple[str, ...]) -> dict[str, Any]:
    """Variables that may be anything."""
    return dict.fromkeys(names, cel().Type.DYN)

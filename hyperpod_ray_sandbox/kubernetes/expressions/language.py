"""Compiles and evaluates expressions, and says what is wrong with one before any object meets it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from hyperpod_ray_sandbox.kubernetes.expressions import checker, named_formats, trees
from hyperpod_ray_sandbox.kubernetes.expressions.checker import Checked
from hyperpod_ray_sandbox.kubernetes.expressions.declared import Declared
from hyperpod_ray_sandbox.kubernetes.expressions.functions import FUNCTIONS, HELPERS, UNSERVED, CallError
from hyperpod_ray_sandbox.kubernetes.status import ApiError

Json = dict[str, Any]

FAULTS = (RuntimeError, ValueError, TypeError, KeyError, re.error, CallError)


def cel() -> Any:
    """The evaluator's module."""
    # in the environment of the emulator only, so not imported by whoever imports this
    return importlib.import_module("cel_expr_python.cel")


@cache
def installed() -> bool:
    """Whether the evaluator is here: only the server's own environment has it, and nobody else judges expressions."""
    return importlib.util.find_spec("cel_expr_python") is not None


@cache
def _declarations() -> tuple[list[Any], list[Any]]:
    """The extensions and functions of every environment."""
    types = cel().Type
    # the strings of Kubernetes share names with its lists, so they are among its functions
    extensions = [importlib.import_module("cel_expr_python.ext.ext_optional").ExtOptional()]
    kinds = {
        "d": types.DYN, "s": types.STRING, "i": types.INT, "f": types.DOUBLE, "b": types.BOOL,
        "l": types.List(types.DYN), "m": types.Map(types.DYN, types.DYN),
    }  # fmt: skip
    overloads: dict[str, list[Any]] = {}
    for name, member, parameters, answer, implementation in (*FUNCTIONS, *HELPERS):
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


@lru_cache(maxsize=64)
def _free(names: tuple[str, ...], timed: tuple[tuple[str, str], ...] = ()) -> Any:
    """An environment whose variables may be anything, but for times and durations."""
    types = {name: getattr(cel().Type, type_name) for name, type_name in timed}
    extensions, functions = _declarations()
    variables = {**dict.fromkeys(names, cel().Type.DYN), **types}
    return cel().NewEnv(variables=variables, extensions=extensions, functions=functions)


@lru_cache(maxsize=2048)
def compiled(expression: str, names: tuple[str, ...], timed: tuple[tuple[str, str], ...] = ()) -> Any:
    """An expression over variables of any type; raises RuntimeError where it does not compile."""
    return _free(names, timed).compile(expression)


_AS_TEXT = "textof"  # as long as the name that it replaces, so that what is wrong stands where it stood
_OF_ADDRESS = re.compile(r"(?<![.\w])string(?=\(\s*(?:ip|cidr)\()")


def evaluate(expression: str, data: Json, timed: Mapping[str, str] | None = None) -> Any:
    """The value of an expression; raises one of `FAULTS` where it has none.

    `timed` names the type of variables that are TIMESTAMP or DURATION.
    """
    for name, value in data.items():
        if value is None:  # Kubernetes finds no field in null, where this evaluator fails
            expression = re.sub(rf"\bhas\(\s*{name}\.\w+\s*\)", "false", expression)
    expression = _OF_ADDRESS.sub(_AS_TEXT, named_formats.rewritten(expression))
    answer = compiled(expression, tuple(sorted(data)), tuple(sorted((timed or {}).items()))).eval(data=data)
    if answer.type().name() == "ERROR" or answer.type() == cel().Type.ERROR:
        raise ValueError(str(answer.value()))
    return answer.plain_value()


def refuse_unserved(expression: str) -> None:
    """Raise 501 for what Kubernetes has and this evaluator has not: a wrong verdict would be worse."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "''", expression)
    if match := UNSERVED.search(plain):
        raise ApiError(501, "NotImplemented", f"the sandbox does not evaluate {match[0]}: {expression}"[:400])


def check(expression: str, variables: Mapping[str, Declared]) -> Checked:
    """What is known of an expression over typed variables; raises ValueError with what is wrong."""
    refuse_unserved(expression)
    try:
        tree = trees.read(compiled(_OF_ADDRESS.sub(_AS_TEXT, expression), tuple(sorted(variables))).serialize())
        for node in trees.walk(tree.root):
            node.name = "string" if node.kind == "call" and node.name == _AS_TEXT else node.name
    except FAULTS as error:
        raise ValueError(f"compilation failed: {_words(error)}") from None
    fields = {name: inner for declared in variables.values() for name, inner in declared.structs().items()}
    checked = checker.check(tree, {name: declared.type for name, declared in variables.items()}, fields)
    if why := checked.words(expression):
        raise ValueError(f"compilation failed: {why}")
    _check_constants(checked, expression)
    return checked


_CONVERSIONS = ("bool", "bytes", "double", "duration", "int", "timestamp", "uint")
_PATTERNS = ("find", "findAll", "matches")
_VALIDATED = ("duration", "matches", "timestamp")


def _check_constants(checked: Checked, expression: str) -> None:
    """Evaluate conversions of constants, and constant patterns, as Kubernetes does before there is an object."""
    for node in trees.walk(checked.tree.root):
        if node.kind != "call" or not node.parts or node.parts[0].kind != "constant":
            continue
        constant = node.parts[0]
        if node.name in _PATTERNS and node.target is not None:
            program = f"''.matches({_literal(constant)})"
        elif node.name in _CONVERSIONS:
            program = f"{node.name}({_literal(constant)}) == {node.name}({_literal(constant)})"
        else:
            continue
        try:
            evaluate(program, {})
        except FAULTS as error:
            if node.name not in _VALIDATED:
                raise ValueError(f"program instantiation failed: {_words(error)}") from None
            checked.faults.append((constant.id, f"invalid {node.name} argument"))
    if why := checked.words(expression):
        raise ValueError(f"compilation failed: {why}")


def _literal(constant: trees.Node) -> str:
    """A constant as an expression writes it."""
    if constant.name in ("string", "bytes"):
        text = constant.value if constant.name == "string" else bytes(constant.value).decode("latin-1")
        return ("b" if constant.name == "bytes" else "") + json.dumps(text)
    if constant.name == "uint":
        return f"{constant.value}u"
    return (
        str(constant.value).lower()
        if constant.name == "bool"
        else "null"
        if constant.value is None
        else str(constant.value)
    )


def _words(error: BaseException) -> str:
    return str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")

"""What a CustomResourceDefinition's schema says beyond JSON Schema: its CEL rules, and lists that are sets or maps.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{cel,listtype};
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hyperpod_ray_sandbox.kubernetes.status import Cause
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

RULES = "x-kubernetes-validations"
_WORDS = {
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return",
}  # fmt: skip
_OLD = re.compile(r"\boldSelf\b")


@lru_cache(maxsize=1)
def _environment() -> Any:
    # in the environment of the emulator only, so not imported by whoever imports this
    cel = importlib.import_module("cel_expr_python.cel")
    parts = ("ext_strings", "ExtStrings"), ("ext_optional", "ExtOptional")
    extensions = [getattr(importlib.import_module(f"cel_expr_python.ext.{m}"), name)() for m, name in parts]
    text = cel.Type.STRING
    # of Kubernetes' own library: https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-regex-library
    find = cel.Overload("string_find_string", text, [text, text], is_member=True, impl=_find)
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        extensions=extensions,
        functions=[cel.FunctionDecl("find", [find])],
    )


def _find(text: str, pattern: str) -> str:
    """The first match, empty without one."""
    match = re.search(pattern, text)
    return match[0] if match else ""


@lru_cache(maxsize=1024)
def _compiled(rule: str) -> Any:
    return _environment().compile(rule)


def _escaped(name: str) -> str:
    """The name of a field as a rule must write it."""
    if name in _WORDS:
        return f"__{name}__"
    for text, word in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(text, word)
    return name


def _readable(value: Any, schema: Json) -> Any:
    """A value with the escaped names of its fields beside the plain ones."""
    if isinstance(value, dict):
        fields = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        result = {}
        for key, member in value.items():
            inner = fields.get(key) or (extra if isinstance(extra, dict) else {})
            result[key] = _readable(member, inner)
            if key in fields and _escaped(key) != key:
                result[_escaped(key)] = result[key]
        return result
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        return [_readable(v, items or {}) for v in value]
    return value


def _evaluate(rule: str, data: Json) -> tuple[bool | str, str]:
    """The value of a rule or message, and what failed."""
    try:
        answer = _compiled(rule).eval(data=data)
    except (RuntimeError, ValueError, TypeError) as error:
        return False, str(error)
    value = answer.value()
    return (value, "") if isinstance(value, bool | str) else (False, str(value))


def unreadable(schema: Any) -> Iterator[str]:
    """The rules of a schema that cannot be compiled here, each with the reason."""
    if isinstance(schema, list):
        for inner in schema:
            yield from unreadable(inner)
    elif isinstance(schema, dict):
        for rule in schema.get(RULES) or [] if isinstance(schema.get(RULES), list) else []:
            try:
                _compiled(rule["rule"])
            except (RuntimeError, ValueError) as error:
                yield f"{rule['rule']}: {str(error).splitlines()[0]}"
        for key, inner in schema.items():
            if key != RULES:
                yield from unreadable(inner)


_REASONS = ("FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate")


def _rules(causes: Causes, path: str, schema: Json, value: Any, old: Any) -> None:
    for validation in schema.get(RULES) or []:
        rule, optional = str(validation["rule"]), bool(validation.get("optionalOldSelf"))
        if _OLD.search(rule) and old is None and not optional:
            continue  # a rule about a change
        data = {"self": _readable(value, schema)}
        if old is not None:
            data["oldSelf"] = _readable(old, schema)
        passed, failed = _evaluate(rule, data)
        if passed is True:
            continue
        message = str(validation.get("message") or f"failed rule: {rule}").strip()
        if validation.get("messageExpression") and not failed:
            custom_message, _ = _evaluate(str(validation["messageExpression"]), data)
            message = custom_message if isinstance(custom_message, str) and custom_message else message
        if failed:
            message = f"rule evaluation error: {failed}"
        field_path = path + str(validation.get("fieldPath") or "")
        if validation.get("reason") in _REASONS:
            causes.append(
                Cause(validation["reason"], f"{validation['reason'].removeprefix('FieldValue')}: {message}", field_path)
            )
        else:
            causes.invalid(field_path, value, message)


def _mark(element: Any, keys: list[str], schema: Json) -> str:
    if not keys:
        return json.dumps(element, sort_keys=True)
    fields = schema.get("properties") or {}
    members = element if isinstance(element, dict) else {}
    return json.dumps({k: members.get(k, (fields.get(k) or {}).get("default")) for k in keys})


def check(causes: Causes, schema: Json, value: Any, old: Any, path: str = "") -> None:
    """Judge a value (and its change from `old`, None for a new one) by the rules of its schema."""
    if value is None:
        return
    _rules(causes, path, schema, value, old)
    if isinstance(value, dict):
        fields, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for key, element in value.items():
            inner = fields.get(key) or (extra if isinstance(extra, dict) else None)
            if inner:
                check(causes, inner, element, before.get(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        items: Json = schema["items"]
        list_type = schema.get("x-kubernetes-list-type")
        keys = list(schema.get("x-kubernetes-list-map-keys") or []) if list_type == "map" else []
        previous = (
            {_mark(i, keys, items): i for i in old} if isinstance(old, list) and list_type in ("map", "set") else {}
        )
        marks: set[str] = set()
        for index, element in enumerate(value):
            mark = _mark(element, keys, items)
            if list_type in ("map", "set") and mark in marks:
                causes.duplicate(f"{path}[{index}]", json.loads(mark))
            marks.add(mark)
            check(causes, items, element, previous.get(mark), f"{path}[{index}]")

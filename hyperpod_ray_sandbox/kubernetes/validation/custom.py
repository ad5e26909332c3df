"""What a CustomResourceDefinition's schema says beyond JSON Schema: its CEL rules, and lists that are sets or maps.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{cel,listtype};
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hyperpod_ray_sandbox.kubernetes import formats
from hyperpod_ray_sandbox.kubernetes.expressions import language
from hyperpod_ray_sandbox.kubernetes.expressions.declared import escaped
from hyperpod_ray_sandbox.kubernetes.status import Cause
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

RULES = "x-kubernetes-validations"
_OLD = re.compile(r"\boldSelf\b")


def _readable(value: Any, schema: Json) -> Any:
    """A value with the escaped names of its fields beside the plain ones."""
    if isinstance(value, dict):
        fields = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        result = {}
        for key, member in value.items():
            inner = fields.get(key) or (extra if isinstance(extra, dict) else {})
            result[key] = _readable(member, inner)
            if key in fields and (word := escaped(key)):
                result[word] = result[key]
        return result
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        return [_readable(v, items or {}) for v in value]
    return value


_STEP = r"\.([^.\[\]]+)|\['([^']+)'\]"
_FIELD_PATH = re.compile(rf"(?:{_STEP})+")


def field_there(schema: Json, path: str) -> bool:
    """Whether a rule's fieldPath (`.spec.a`) is in its schema."""
    if not _FIELD_PATH.fullmatch(path):
        return False
    current: Any = schema
    for step in re.findall(_STEP, path):
        name = step[0] or step[1]
        inner = (current.get("properties") or {}).get(name) if isinstance(current, dict) else None
        extra = current.get("additionalProperties") if isinstance(current, dict) else None
        current = inner if inner is not None else extra if isinstance(extra, dict) else None
        if current is None:
            return False
    return True


def has_rules(schema: Any) -> bool:
    """Whether a schema, or one in it, has rules, or lists that are sets or maps."""
    if isinstance(schema, list):
        return any(has_rules(part) for part in schema)
    if not isinstance(schema, dict):
        return False
    if (isinstance(schema.get(RULES), list) and schema[RULES]) or schema.get("x-kubernetes-list-type") in _UNIQUE:
        return True
    return any(has_rules(p) for p in schema.values())


_UNIQUE = ("map", "set")
_TIMED = {"byte": "BYTES", "date": "TIMESTAMP", "datetime": "TIMESTAMP", "duration": "DURATION"}
_HAS = re.compile(r"\bhas\(\s*((?:self|oldSelf)(?:\.\w+)*)\.(\w+)\s*\)")


def _timed(path: str, schema: Json, value: Any) -> Iterator[tuple[str, str, Any]]:
    """The times, durations and bytes of a value: path, type, and what a rule reads there."""
    timed = _TIMED.get(formats.supported(schema.get("format"))) if schema.get("type") == "string" else None
    if timed and isinstance(value, str):
        yield path, timed, formats.read(value, schema["format"])
    for name, inner in (schema.get("properties") or {}).items():
        if isinstance(value, dict) and name in value:
            yield from _timed(f"{path}.{escaped(name) or name}", inner, value[name])


def _evaluate(rule: str, data: Json, schema: Json) -> tuple[bool | str, str]:
    """The value of a rule or message, and what failed.

    The evaluator takes times and durations as variables alone, so those of an object are variables with dotted names.
    """
    timed = [part for name, value in data.items() for part in _timed(name, schema, value)]
    if timed:
        rule = _HAS.sub(r'("\2" in \1)', rule)
    try:
        value = language.evaluate(
            rule, {**data, **{path: value for path, _, value in timed}}, {path: name for path, name, _ in timed}
        )
    except language.FAULTS as error:
        return False, str(error)
    return (value, "") if isinstance(value, bool | str) else (False, f"not a bool: {value!r}")


def _whole_float(schema: Json, value: Any, name: str = "self") -> str:
    """The name of a field of whole numbers that has a number with a point in it, as 2.0; empty without one."""
    if isinstance(value, float):
        return name if schema.get("type") == "integer" else ""
    if isinstance(value, dict):
        fields = schema.get("properties") or {}
        places = ((escaped(key) or key, fields[key], inner) for key, inner in value.items() if key in fields)
        return next((word for key, part, inner in places if (word := _whole_float(part, inner, key))), "")
    return ""


_REASONS = ("FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate")


def _rules(causes: Causes, path: str, schema: Json, value: Any, old: Any) -> None:
    for validation in schema.get(RULES) or []:
        rule, optional = str(validation["rule"]), bool(validation.get("optionalOldSelf"))
        changes = bool(_OLD.search(rule))
        if changes and old is None and not optional:
            continue  # a rule about a change
        if not changes and value == old:
            continue  # what an update leaves as it is may break a rule that came later
        if (where := _whole_float(schema, value)) and re.search(rf"\b{re.escape(where)}\b", rule):
            causes.invalid(path, value, "rule evaluation error: invalid data, expected int, got float64")
            continue
        data = {"self": _readable(value, schema)}
        if old is not None or optional:
            data["oldSelf"] = _readable(old, schema)
        passed, failed = _evaluate(rule, data, schema)
        if passed is True:
            continue
        message = str(validation.get("message") or f"failed rule: {rule}").strip()
        if validation.get("messageExpression") and not failed:
            custom_message, _ = _evaluate(str(validation["messageExpression"]), data, schema)
            message = custom_message if isinstance(custom_message, str) and custom_message else message
        if failed:
            message = f"rule evaluation error: {failed}"
            language.refuse_unserved(rule)
        field_path = path + str(validation.get("fieldPath") or "")
        if validation.get("reason") in _REASONS:
            causes.append(
                Cause(validation["reason"], f"{validation['reason'].removeprefix('FieldValue')}: {message}", field_path)
            )
        elif isinstance(value, dict | list):
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {message}", field_path))
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
        previous = {_mark(i, keys, items): i for i in old} if isinstance(old, list) and list_type in _UNIQUE else {}
        unchanged = value == old
        marks: set[str] = set()
        for index, element in enumerate(value):
            mark = _mark(element, keys, items)
            if list_type in _UNIQUE and mark in marks:
                causes.duplicate(f"{path}[{index}]", json.loads(mark))
            marks.add(mark)
            before_change = element if unchanged and list_type not in _UNIQUE else previous.get(mark)
            check(causes, items, element, before_change, f"{path}[{index}]")

"""Definitions' schemas as today's JSON Schema, and its errors in the API server's words."""

from __future__ import annotations

from typing import Any

import jsonschema

from hyperpod_ray_sandbox.kubernetes import formats
from hyperpod_ray_sandbox.kubernetes.status import Cause

Json = dict[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def for_jsonschema(schema: Any) -> Any:
    """A CustomResourceDefinition's schema in today's JSON Schema: nullable, int-or-string, old exclusive bounds."""
    if isinstance(schema, list):
        return [for_jsonschema(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    result: Json = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "definitions"):
            result[key] = {name: for_jsonschema(s) for name, s in value.items()}
        elif key in ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"):
            result[key] = for_jsonschema(value)
        elif key in ("default", "example", "description") or key.startswith("x-"):
            continue
        elif key in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
            bound = "minimum" if key == "exclusiveMinimum" else "maximum"
            if value and bound in schema:
                result[key] = schema[bound]
        else:
            result[key] = value
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result.setdefault("anyOf", _INT_OR_STRING)
    if "format" in result and result.get("type", "string") == "string":
        result["format"] = formats.supported(result.pop("format"))
    if schema.get("nullable") and isinstance(result.get("type"), str):
        result["type"] = [result["type"], "null"]
    return result


def dotted(path: Any) -> str:
    """A field path as the API server writes it: `spec.containers[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else str(step))
    return text


def json_type(value: Any) -> str:
    """The JSON name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), type(value).__name__)


def _int_or_string(error: Any) -> bool:
    """Whether an error is about a value that may be a number or text."""
    return bool(error.validator == "anyOf" and error.validator_value == _INT_OR_STRING)


def cause(error: Any) -> Cause:
    """What a schema refuses, in the API server's words."""
    path = dotted(error.absolute_path)
    if error.validator == "required":
        name = error.message.split("'")[1]
        return Cause("FieldValueRequired", "Required value", f"{path}.{name}" if path else name)
    if error.validator == "enum":
        allowed = ", ".join(f'"{v}"' for v in error.validator_value if v is not None)
        text = f'"{error.instance}"'
        return Cause("FieldValueNotSupported", f"Unsupported value: {text}: supported values: {allowed}", path)
    if error.validator in ("type", "anyOf") and _int_or_string(error):
        got = json_type(error.instance)
        said = f'{path} in body must be of type integer,string: "{got}"'
        return Cause("FieldValueTypeInvalid", f'Invalid value: "{got}": {said}', path)
    if error.validator == "type":
        expected_type = error.validator_value if isinstance(error.validator_value, str) else error.validator_value[0]
        got = json_type(error.instance)
        return Cause(
            "FieldValueTypeInvalid",
            f'Invalid value: "{got}": {path} in body must be of type {expected_type}: "{got}"',
            path,
        )
    text = str(error.instance)
    if error.validator == "format":
        said = f'{path} in body must be of type {error.validator_value}: "{text}"'
        return Cause("FieldValueInvalid", f'Invalid value: "{text}": {said}', path)
    text = text if len(text) < 120 else text[:117] + "..."
    return Cause("FieldValueInvalid", f'Invalid value: "{text}": {error.message[:300]}', path)


def validator(schema: Json) -> Any:
    """What judges values by a definition's schema, with its formats."""
    return jsonschema.Draft202012Validator(for_jsonschema(schema), format_checker=formats.CHECKER)


def mismatch(schema: Json, value: Any) -> str:
    """Why a value is not of a custom kind's schema; empty where it is."""
    error = next(iter(validator(schema).iter_errors(value)), None)
    return "" if error is None else cause(error).message

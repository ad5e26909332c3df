"""Validation of every object that is written.

Built-in kinds: the schemas of `kubernetes-validate` for the claimed minor version (Kubernetes' own OpenAPI
definitions). Custom kinds: the openAPIV3Schema of their CustomResourceDefinition. In both, unknown fields are
dropped, or refused when the client asks for `fieldValidation=Strict` (kubectl's default).

Kubernetes' definitions carry no enums of field values: those, and all other rules that are code in kube-apiserver, are
in `validation/`. A `null` counts as absent, as in kube-apiserver; only server-side apply of a custom kind refuses it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import jsonschema
import kubernetes_validate
import referencing
import referencing.jsonschema

from hyperpod_ray_sandbox.kubernetes import quantities, times
from hyperpod_ray_sandbox.kubernetes.expressions import language
from hyperpod_ray_sandbox.kubernetes.json_schema import cause, dotted, json_type, validator
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, UnreadableError, bad_request, invalid
from hyperpod_ray_sandbox.kubernetes.validation import custom, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

MINOR = "1.35"
_BASE = "https://kubernetes.io/api/_definitions.json"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY_NAME = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_ENVELOPE = ("apiVersion", "kind", "metadata")
_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
    "<nil>",
)
# Go structs that are there, empty, where nobody wrote them
_STRUCTS = ("jobTemplate", "spec", "template")
_GONE = ("workloadRef",)
"""Fields of the claimed definitions that 1.36 has no longer."""
_INTEGERS = {"int32": 1 << 31, "int64": 1 << 63}


class Shapes:
    """The schemas: `of(resource)` is the root schema of a kind, `resolve` follows references into the definitions."""

    @cached_property
    def definitions(self) -> Json:
        """Kubernetes' OpenAPI definitions of the claimed minor version, by name."""
        text = f"kubernetes-json-schema/v{MINOR}.0-local/_definitions.json"
        definitions: Json = kubernetes_validate.utils.schema_contents(text, MINOR)["$defs"]
        return definitions

    @cached_property
    def names(self) -> dict[tuple[str, str, str], str]:
        """(group, version, kind) to the name of its definition."""
        names = {}
        for name, definition in self.definitions.items():
            kinds = definition.get("x-kubernetes-group-version-kind") or []
            if len(kinds) == 1:
                names[(kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"])] = name
        return names

    @cached_property
    def registry(self) -> referencing.Registry[Any]:
        """The definitions as jsonschema expects them."""
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": _BASE, "$defs": self.definitions}
        empty: referencing.Registry[Any] = referencing.Registry()
        filled: referencing.Registry[Any] = empty.with_resource(_BASE, referencing.Resource.from_contents(document))
        return filled

    def name_of(self, resource: Resource) -> str | None:
        """The definition's name of a built-in kind."""
        return self.names.get((resource.group, resource.version, resource.kind))

    def of(self, resource: Resource) -> Json:
        """The root schema of a kind."""
        if resource.schema is not None:
            properties = {**(resource.schema.get("properties") or {})}
            properties.update({"apiVersion": {"type": "string"}, "kind": {"type": "string"}})
            properties["metadata"] = {"$ref": f"#/$defs/{_META}"}
            return {**resource.schema, "type": "object", "properties": properties}
        name = self.name_of(resource)
        if name is None:
            raise ApiError(500, "InternalError", f"no schema is known for {resource.api_version} {resource.kind}")
        definition: Json = self.definitions[name]
        return definition

    def resolve(self, schema: Json) -> Json:
        """The schema itself, or the definition it refers to (with the extensions written beside the reference)."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            target: Json = self.definitions[reference[8:]]
            extra = {k: v for k, v in schema.items() if k.startswith("x-kubernetes-")}
            return {**target, **extra} if extra else target
        return schema

    def child(self, schema: Json, key: str) -> Json | None:
        """The schema of a field of an object, or None when it has none."""
        schema = self.resolve(schema)
        properties = schema.get("properties")
        if properties and key in properties:
            return self.resolve(properties[key])
        extra = schema.get("additionalProperties")
        return self.resolve(extra) if isinstance(extra, dict) else None

    def items(self, schema: Json) -> Json | None:
        """The schema of the items of a list."""
        item_schema = self.resolve(schema).get("items")
        return self.resolve(item_schema) if isinstance(item_schema, dict) else None


SHAPES = Shapes()


def _pointer(properties: Json, key: str) -> bool:
    """Whether a struct may be absent: only the template of a ReplicationController, whose selector is a plain map."""
    return key == "template" and "$ref" not in properties.get("selector", {"$ref": ""})


def _zero(key: str, schema: Json) -> Json:
    """What Go reads of a null in a map: the zero of text and of a quantity."""
    if schema is SHAPES.definitions[_QUANTITY_NAME]:
        return {key: "0"}
    return {key: ""} if "string" in (schema.get("type") or "") else {}


def _left_out(value: Any, schema: Json) -> bool:
    """Whether Go writes a field only where something is in it: a list, or a map."""
    if value == []:
        return "array" in schema.get("type", "")
    return value == {} and "additionalProperties" in schema and not schema.get("properties")


class _Walk:
    """One pass over an object: drops unknown fields and nulls, fills a custom kind's defaults, notes what it saw."""

    def __init__(self, custom: bool, *, fill: bool = True) -> None:
        self.custom = custom
        self.fill = fill
        self.unknown: list[str] = []
        self.unreadable: list[str] = []
        self.undecodable: list[str] = []
        """What is wrong with an object inside a custom one, so that nobody reads it."""
        self.causes: list[Cause] = []

    def object(self, value: Json, schema: Json, path: str) -> Json:  # noqa: PLR0912  (a list of kinds of fields)
        properties: Json = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        keep = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or extra is True
        if not properties and not isinstance(extra, dict) and not self.custom:
            return value  # RawExtension, FieldsV1: free by definition
        result: Json = {}
        required = schema.get("required") or ()
        self._embedded(value, schema, path)
        for key, member in value.items():
            child_path = f"{path}.{key}" if path else key
            child: Json | None = properties.get(key) if self.custom or key not in _GONE else None
            if child is None and isinstance(extra, dict):
                child = extra
            if child is None:
                if key == "metadata" and schema.get("x-kubernetes-embedded-resource") and isinstance(member, dict):
                    result[key] = self._metadata(member, SHAPES.definitions[_META], child_path)
                elif keep or (schema.get("x-kubernetes-embedded-resource") and key in _ENVELOPE):
                    result[key] = member
                else:
                    self.unknown.append(child_path)
                continue
            child = SHAPES.resolve(child)
            if member is None and not self.custom and key not in properties:
                result.update(_zero(key, child))
                continue
            if member is None:
                # what is not nullable is pruned, so that a default takes its place
                if self.custom and key not in _ENVELOPE and (child.get("nullable") or not self.fill):
                    result[key] = None
                continue
            if self.custom and child_path == "metadata":
                result[key] = self._metadata(member, child, child_path)
                continue
            if not self.custom and key not in required and key != "policies" and _left_out(member, child):
                continue
            result[key] = self.value(member, child, child_path)
        if self.custom and self.fill:
            for key, child in properties.items():
                if "default" in child and key not in result:
                    result[key] = child["default"]
        if not self.custom and self.fill:
            self._structs(result, properties, path)
        return result

    def _structs(self, result: Json, properties: Json, path: str) -> None:
        """Add the structs that Go has where nobody wrote them."""
        for key in _STRUCTS:
            if key in properties and key not in result and not _pointer(properties, key):
                struct = SHAPES.resolve(properties[key])
                if struct.get("properties"):
                    result[key] = self.object({}, struct, f"{path}.{key}" if path else key)

    def _embedded(self, value: Json, schema: Json, path: str) -> None:
        """A whole object inside another says what it is."""
        if not (schema.get("x-kubernetes-embedded-resource") and path):
            return
        causes = Causes()
        for field in ("apiVersion", "kind"):
            if not value.get(field):
                causes.required(f"{path}.{field}")
        version, meta = str(value.get("apiVersion") or ""), value.get("metadata")
        if version.count("/") > 1:
            causes.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        if isinstance(meta, dict):
            meta = {field: inner for field, inner in meta.items() if inner is not None}
        if meta is not None and (error := next(_builtin_validator(_META).iter_errors(meta), None)):
            type_ = {"integer": "number", "boolean": "bool"}.get(json_type(error.instance), json_type(error.instance))
            self.undecodable.append(f"{path}.metadata: Invalid value: json: cannot unmarshal {type_} into ObjectMeta")
        elif meta:
            names.labels(causes, f"{path}.metadata.labels", meta.get("labels"))
            names.annotated(causes, f"{path}.metadata.annotations", meta.get("annotations"))
        self.causes += causes

    def _metadata(self, value: Any, schema: Json, path: str) -> Any:
        """Metadata of a custom kind follows Kubernetes' own definition, with its free-form parts."""
        walk = _Walk(custom=False)
        clean = walk.value(value, schema, path)
        self.unknown += walk.unknown
        self.unreadable += walk.unreadable
        self.causes += walk.causes
        return clean

    def value(self, value: Any, schema: Json, path: str) -> Any:
        if isinstance(value, dict):
            return self.object(value, schema, path)
        if isinstance(value, list):
            items = SHAPES.items(schema)
            if items is None:
                return value
            return [self.value(v, items, f"{path}[{i}]") for i, v in enumerate(value)]
        if isinstance(value, str) and schema is SHAPES.definitions[_MICRO_TIME] and not times.is_micro_time(value):
            self.unreadable.append(f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse {path}')
            return value
        if schema is SHAPES.definitions[_QUANTITY_NAME]:
            return self._quantity(value)
        if isinstance(value, float) and "integer" in schema.get("type", "") and not self.custom:
            self.unreadable.append(f"json: cannot unmarshal number {value} into Go struct field {path} of type integer")
        self._format(value, schema.get("format"), path)
        return value

    def _quantity(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return value
        try:
            return quantities.canonical(str(value))
        except ValueError as error:
            self.unreadable.append(str(error))
            return value

    def _format(self, value: Any, name: str | None, path: str) -> None:
        """Note a value that has the type but cannot be read."""
        if name in _INTEGERS and isinstance(value, int) and not isinstance(value, bool):
            if not -_INTEGERS[name] <= value < _INTEGERS[name]:
                self.unreadable.append(
                    f'"": Checked value must be of type integer with format {name} in {path}'
                    if self.custom
                    else f"json: cannot unmarshal number {value} into Go struct field {path} of type {name}"
                )
        elif name == "date-time" and isinstance(value, str) and not self.custom and not times.is_time(value):
            self.unreadable.append(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse {path}')
        elif name == "byte" and isinstance(value, str):
            try:
                base64.b64decode(value, validate=True)
            except ValueError:
                at = next((i for i, c in enumerate(value) if not (c.isalnum() or c in "+/=")), len(value) // 4 * 4)
                self.unreadable.append(f"illegal base64 data at input byte {at}")


@lru_cache(maxsize=256)
def _builtin_validator(name: str) -> Any:
    return jsonschema.Draft202012Validator({"$ref": f"{_BASE}#/$defs/{name}"}, registry=SHAPES.registry)


_CUSTOM: dict[int, tuple[Json, Any]] = {}
_RULED: dict[int, tuple[Json, bool]] = {}
_BLOCKING = ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")


def _has_rules(schema: Json) -> bool:
    cached = _RULED.get(id(schema))
    if cached is None or cached[0] is not schema:
        cached = _RULED[id(schema)] = (schema, custom.has_rules(schema))
    return cached[1]


def _custom_validator(schema: Json) -> Any:
    # keyed by identity: the registry keeps one schema object per installed version
    cached = _CUSTOM.get(id(schema))
    if cached is None or cached[0] is not schema:
        if len(_CUSTOM) > 200:
            _CUSTOM.clear()
        cached = _CUSTOM[id(schema)] = (schema, validator(schema))
    return cached[1]


_GO = {
    "object": "map",
    "array": "slice",
    "integer": "integer",
    "string": "string",
    "boolean": "bool",
    "number": "float",
}


def check_unknown(resource: Resource, obj: Json) -> tuple[Json, list[str]]:
    """Only the first half of `check`: the object without unknown fields, and their paths."""
    walk = _Walk(custom=resource.schema is not None, fill=False)
    return walk.object(obj, SHAPES.of(resource), ""), walk.unknown


def check_nulls(resource: Resource, obj: Json, name: str) -> None:
    """Refuse the nulls of an object that is applied: in a custom kind nobody prunes them then. Raises ApiError 422."""
    if resource.schema is None:
        return
    clean = _Walk(custom=True, fill=False).object(obj, SHAPES.of(resource), "")
    errors = _custom_validator(resource.schema).iter_errors(clean)
    causes = [cause(error) for error in errors if error.validator == "type" and error.instance is None]
    if causes:
        raise invalid(resource.kind, resource.group, name, causes)


def _scaled(resource: Resource, obj: Json) -> Causes:
    """Judge what a custom kind's scale reads: whole numbers, written without a point."""
    causes = Causes()
    for path in filter(None, (resource.scale.get("specReplicasPath"), resource.scale.get("statusReplicasPath"))):
        value: Any = obj
        for step in path.strip(".").split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, float):
            causes.invalid(path, 0, f"{path} accessor error: {value:g} is of the type float64, expected int64")
    return causes


def check(
    resource: Resource,
    obj: Json,
    *,
    strict: bool,
    name: str,
    old: Json | None = None,
    doubled: Sequence[str] = (),
) -> tuple[Json, list[str]]:
    """Validate an object; returns it without unknown fields and nulls, and what to warn about.

    `doubled` are paths that the client gave twice. Raises ApiError 400 (cannot be decoded, or unknown or doubled fields
    under `strict`) or 422 (decoded, but its values are wrong).
    """
    schema = SHAPES.of(resource)
    walk = _Walk(custom=resource.schema is not None)
    clean = walk.object(obj, schema, "")
    warnings = [f'duplicate field "{path}"' for path in doubled] + [f'unknown field "{path}"' for path in walk.unknown]
    prefix = (
        ""
        if walk.custom
        else f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    )
    if strict and warnings:
        raise UnreadableError(prefix, "strict decoding error: " + ", ".join(warnings))
    if walk.undecodable:
        kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{kind}: {walk.undecodable[0]}")
    causes = list(walk.causes)
    if walk.custom:
        errors = list(_custom_validator(resource.schema or {}).iter_errors(clean))
        errors += list(_builtin_validator(_META).iter_errors(clean.get("metadata") or {}))
        causes += [Cause("FieldValueInvalid", f"Invalid value: {text}", "<nil>") for text in walk.unreadable]
        causes += _scaled(resource, clean)
    elif resource.kind == "CustomResourceDefinition":
        errors = []  # a megabyte of schema about schemas: the walk has seen every field, validation/ checks the rest
    else:
        if walk.unreadable:
            raise UnreadableError(prefix, walk.unreadable[0])
        errors = list(_builtin_validator(SHAPES.name_of(resource) or "").iter_errors(clean))
        decoding = [e for e in errors if e.validator in ("type", "oneOf", "anyOf")]
        if decoding:
            error = decoding[0]
            expected_type = error.validator_value if error.validator == "type" else "int-or-string"
            expected_type = expected_type if isinstance(expected_type, str) else expected_type[0]
            raise UnreadableError(
                prefix,
                f"json: cannot unmarshal {json_type(error.instance)} into Go struct field "
                f"{resource.kind}.{dotted(error.absolute_path)} of type {_GO.get(expected_type, expected_type)}",
            )
    causes += [cause(error) for error in errors]
    if walk.custom and _has_rules(resource.schema or {}):
        if any(each.reason in _BLOCKING for each in causes):
            causes.append(_UNCHECKED)  # rules see values of the right type only
        elif not causes or language.installed():
            violations = Causes()
            custom.check(violations, resource.schema or {}, clean, old)
            causes += violations
    if causes:
        raise invalid(resource.kind, resource.group, name, causes)
    return clean, warnings

"""/openapi/v3 and /openapi/v2: the schemas by which kubectl validates on the server, explains and merges."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hyperpod_ray_sandbox.kubernetes.discovery import GIT_VERSION
from hyperpod_ray_sandbox.kubernetes.resources import Registry, Resource
from hyperpod_ray_sandbox.kubernetes.schema import SHAPES

Json = dict[str, Any]

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]


def _path_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(registry: Registry) -> Json:
    """/openapi/v3: one document per group version, with a hash so that clients can cache."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            mark = hashlib.sha256(f"{group}/{version}/{registry.generation}".encode()).hexdigest()[:32].upper()
            where = _path_of(group, version)
            paths[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={mark}"}
    return {"paths": paths}


def definition_name(resource: Resource) -> str:
    """The schema's name of a kind; custom kinds get their group reversed, as the API server does."""
    if resource.schema is None:
        return SHAPES.name_of(resource) or ""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _kind_of(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _rewrite(schema: Any, prefix: str) -> Any:
    """References to where this document keeps its schemas; `[string, null]` types as plain ones."""
    if isinstance(schema, list):
        return [_rewrite(v, prefix) for v in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#/$defs/"):
            result[key] = prefix + value[8:]
        elif key == "type" and isinstance(value, list):
            result[key] = value[0]
        else:
            result[key] = _rewrite(value, prefix)
    return result


def _closure(names: set[str]) -> dict[str, Json]:
    """The definitions named, and all that they refer to."""
    definitions: dict[str, Json] = {}
    todo = sorted(names)
    while todo:
        name = todo.pop()
        if name in definitions or name not in SHAPES.definitions:
            continue
        definitions[name] = SHAPES.definitions[name]
        text = json.dumps(definitions[name])
        todo += [part.split('"', 1)[0] for part in text.split('"#/$defs/')[1:]]
    return definitions


def _paths(resource: Resource, *, openapi_v2: bool) -> Json:
    base = "/" + _path_of(resource.group, resource.version)
    base += "/namespaces/{namespace}" if resource.namespaced else ""
    parameters = [{**p, "type": "string"} for p in _PARAMETERS] if openapi_v2 else _PARAMETERS
    if openapi_v2:
        parameters = [{k: v for k, v in p.items() if k != "schema"} for p in parameters]

    def operation(action: str) -> Json:
        return {
            "operationId": f"{action}{resource.group}{resource.version}{resource.kind}",
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _kind_of(resource),
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        }

    single = {
        "patch": operation("patch"),
        "put": operation("put"),
        "get": operation("get"),
        "delete": operation("delete"),
    }
    many = {"post": operation("post"), "get": operation("list")}
    return {f"{base}/{resource.plural}": many, f"{base}/{resource.plural}/{{name}}": single}


def _schemas(resources: list[Resource], prefix: str) -> Json:
    names = {definition_name(r) for r in resources if r.schema is None}
    custom = [r for r in resources if r.schema is not None]
    if custom:
        names.add("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    schemas = {name: _rewrite(body, prefix) for name, body in _closure(names).items()}
    for resource in custom:
        body = _rewrite(SHAPES.of(resource), prefix)
        schemas[definition_name(resource)] = {**body, "x-kubernetes-group-version-kind": [_kind_of(resource)]}
    return schemas


def v3(registry: Registry, group: str, version: str) -> Json | None:
    """The OpenAPI v3 document of one group version."""
    resources = [r for r in registry.all() if (r.group, r.version) == (group, version) and "list" in r.verbs]
    if not resources:
        return None
    paths: Json = {}
    for resource in resources:
        paths |= _paths(resource, openapi_v2=False)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes rehearsal", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": _schemas(resources, "#/components/schemas/")},
    }


def v2(registry: Registry) -> Json:
    """The OpenAPI v2 document of everything served (custom kinds by name only)."""
    resources = [r for r in registry.all() if "list" in r.verbs]
    paths: Json = {}
    for resource in resources:
        paths |= _paths(resource, openapi_v2=True)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes rehearsal", "version": GIT_VERSION},
        "paths": paths,
        "definitions": _schemas([r for r in resources if r.schema is None], "#/definitions/"),
    }

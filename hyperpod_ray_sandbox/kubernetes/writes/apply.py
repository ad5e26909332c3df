"""Patch, in its four forms; server-side apply may create."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from hyperpod_ray_sandbox.kubernetes import applied, decoding, patch, schema
from hyperpod_ray_sandbox.kubernetes.json_schema import json_type
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, UnreadableError, bad_request, invalid, not_found
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.strategic import strategic_merge
from hyperpod_ray_sandbox.kubernetes.writes.checks import accept, named, unversioned

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

APPLY = "application/apply-patch+yaml"
_STRATEGIC = "application/strategic-merge-patch+json"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", _STRATEGIC)


def patch_object(  # noqa: PLR0917
    api: Objects,
    resource: Resource,
    namespace: str,
    name: str,
    body: bytes,
    content_type: str,
    options: Options,
    *,
    subresource: str = "",
) -> tuple[Json, bool]:
    """Apply a patch; returns the object and whether it was created (server-side apply of a new one)."""
    stored = api.store.get(api.key(resource, namespace, name))
    if content_type == APPLY:
        return _apply(api, resource, namespace, name, body, options, subresource)
    if content_type not in _PATCHES or (content_type == _STRATEGIC and resource.crd):
        raise _unsupported(content_type)
    if stored is None:
        raise not_found(resource.plural, resource.group, name)
    shape = None if resource.crd else schema.SHAPES.of(resource)
    patched = patched_object(copy(api.present(resource, stored)), body, content_type, shape)
    _keeps_uid(resource, name, patched, stored)
    try:
        return api.update(resource, namespace, name, patched, options, subresource=subresource), False
    except UnreadableError as error:
        # what a patch makes of an object is read again, and not readable is not valid then
        cause = Cause("FieldValueInvalid", f"Invalid value: {json.dumps(json.dumps(patched))}: {error.why}", "patch")
        raise invalid("", "", "", [cause]) from None


def patched_object(current: Json, body: bytes, content_type: str, shape: Json | None) -> Any:
    """What a patch makes of an object; `shape` is the schema of a built-in kind. Raises 400, 415 or 422."""
    strategic = content_type == _STRATEGIC
    if content_type not in _PATCHES or (strategic and shape is None):
        raise _unsupported(content_type)
    try:
        change = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if content_type == "application/json-patch+json":
        return patch.json_patch(current, change)
    if not strategic and not isinstance(change, dict):
        raise bad_request(f"error decoding patch: json: cannot unmarshal {json_type(change)} into Go value of type map")
    change = {} if change is None else change
    return strategic_merge(current, change, shape) if strategic else patch.merge_patch(current, change)


def _apply(  # noqa: PLR0917
    api: Objects, resource: Resource, namespace: str, name: str, body: bytes, options: Options, subresource: str
) -> tuple[Json, bool]:
    config = configuration(resource, body, strict=options.validation == "Strict")
    version_kind = f"{resource.api_version if resource.group else '/v1'}, Kind={resource.kind}"
    where, shape = f"{namespace}/{name}; {version_kind}", schema.SHAPES.of(resource)
    try:
        applied.check_types(config, shape)
    except applied.UntypedError as error:
        raise ApiError(500, "", f"failed to create typed patch object ({where}): {error}") from None
    try:
        return _merged(api, resource, namespace, name, config, options, subresource, where)
    except UnreadableError as error:
        why = f"unable to convert unstructured object to {version_kind.removeprefix('/')}: {error.why}"
        raise ApiError(500, "", f"failed to convert new object ({where}) to proper version: {why}") from None


def _merged(  # noqa: PLR0917
    api: Objects,
    resource: Resource,
    namespace: str,
    name: str,
    config: Json,
    options: Options,
    subresource: str,
    where: str,
) -> tuple[Json, bool]:
    """The object that an apply leaves, and whether it is new; `where` names the request in refusals."""
    shape = schema.SHAPES.of(resource)
    config = accept(resource, namespace, config)
    stored = api.store.get(api.key(resource, namespace, name))
    if stored is None and subresource:
        raise not_found(resource.plural, resource.group, name)
    if config["metadata"].get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if subresource == "status":  # the rest is ignored there, whatever its form: Kueue sends `spec: {podSets: null}`
        config = {field: config[field] for field in ("apiVersion", "kind", "metadata", "status") if field in config}
    # unknown fields are judged on what was sent, before it is merged
    pruned, undeclared = schema.check_unknown(resource, config)
    schema.check_nulls(resource, pruned, name)
    try:
        if undeclared:
            raise applied.UntypedError(f".{undeclared[0]}: field not declared in schema")
        applied.check_doubles(pruned, shape)
    except applied.UntypedError as error:
        raise ApiError(500, "", f"failed to create typed patch object ({where}): {error}") from None
    live = api.present(resource, stored) if stored is not None else None
    merged = applied.apply(
        live, pruned, shape, manager=options.manager or "", force=options.force, subresource=subresource
    )
    if live is None and config["metadata"].get("uid"):
        why = f"uid mismatch: the provided object specified uid {config['metadata']['uid']}, and no existing object was"
        details = {"name": name, "group": resource.group, "kind": resource.plural}
        what_failed = f"Operation cannot be fulfilled on {resource.plural}"
        raise ApiError(409, "Conflict", f'{what_failed} "{name}": {why} found', details)
    named(merged, name)
    if live is None:
        created = api.create(resource, namespace, unversioned(merged), _with(options, manager=""), trusted=False)
        return created, True
    if "resourceVersion" in config["metadata"]:
        merged["metadata"]["resourceVersion"] = config["metadata"]["resourceVersion"]
    _keeps_uid(resource, name, merged, stored or {})
    return api.update(resource, namespace, name, merged, options, subresource=subresource, recorded=True), False


def _keeps_uid(resource: Resource, name: str, patched: Any, stored: Json) -> None:
    """Refuse another uid as a change of a field that stays: only a PUT takes it for a precondition. Raises 422."""
    meta = patched.get("metadata") if isinstance(patched, dict) else None
    uid = meta.get("uid") if isinstance(meta, dict) else None
    if isinstance(uid, str) and uid and uid != stored["metadata"]["uid"]:
        cause = Cause("FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid")
        raise invalid(resource.kind, resource.group, name, [cause])


def configuration(resource: Resource, body: bytes, *, strict: bool) -> Json:
    """The object of an apply: of JSON, or of the first document of YAML. Raises 400."""
    try:
        config, doubled = decoding.read_yaml(body)
    except (yaml.YAMLError, ValueError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    config = {} if config is None else config
    if not isinstance(config, dict):
        raise bad_request(f"error decoding YAML: json: cannot unmarshal {json_type(config)} into Go value of type map")
    version = config.get("apiVersion") or ""
    if version != resource.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. "
            f"Specified patch version: {version}, expected: {resource.api_version}"
        )
    if strict and doubled:
        raise bad_request(f'error strict decoding YAML: key "{doubled[0]}" already set in map')
    return {"kind": "", **config}


def _with(options: Options, **changes: Any) -> Options:
    values = {name: getattr(options, name) for name in Options.__dataclass_fields__}
    return Options(**{**values, **changes})


def _unsupported(content_type: str) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format ({content_type}) - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    )

"""Patch, in its four forms; server-side apply may create."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from hyperpod_ray_sandbox.kubernetes import applied, patch, schema
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, UnreadableError, bad_request, invalid, not_found
from hyperpod_ray_sandbox.kubernetes.store import copy
from hyperpod_ray_sandbox.kubernetes.writes.checks import accept

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


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
    if content_type == "application/apply-patch+yaml":
        return _apply(api, resource, namespace, name, body, options, subresource)
    if stored is None:
        raise not_found(resource.plural, resource.group, name)
    try:
        change = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    current = copy(api.present(resource, stored))
    if content_type == "application/json-patch+json":
        patched = patch.json_patch(current, change)
    elif content_type == "application/merge-patch+json":
        patched = patch.merge_patch(current, change)
    elif content_type == "application/strategic-merge-patch+json":
        if resource.crd:
            raise _unsupported(content_type)
        patched = patch.strategic_merge(current, change, schema.SHAPES.of(resource))
    else:
        raise _unsupported(content_type)
    try:
        return api.update(resource, namespace, name, patched, options, subresource=subresource), False
    except UnreadableError as error:
        # what a patch makes of an object is read again, and not readable is not valid then
        cause = Cause("FieldValueInvalid", f"Invalid value: {json.dumps(json.dumps(patched))}: {error.why}", "patch")
        raise invalid("", "", "", [cause]) from None


def _apply(  # noqa: PLR0917
    api: Objects, resource: Resource, namespace: str, name: str, body: bytes, options: Options, subresource: str
) -> tuple[Json, bool]:
    try:
        config = yaml.safe_load(body) if body[:1] != b"{" else json.loads(body)
    except (yaml.YAMLError, ValueError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    config = accept(resource, namespace, config)
    if config["metadata"].setdefault("name", name) != name:
        sent_name = config["metadata"]["name"]
        raise bad_request(f"the name of the object ({sent_name}) does not match the name on the URL ({name})")
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if subresource == "status":  # the rest is ignored there, whatever its form: Kueue sends `spec: {podSets: null}`
        config = {field: config[field] for field in ("apiVersion", "kind", "metadata", "status") if field in config}
    shape = schema.SHAPES.of(resource)
    # unknown fields are judged on what was sent, before it is merged
    pruned, _ = schema.check_unknown(resource, config, strict=options.validation == "Strict")
    schema.check_nulls(resource, pruned, name)
    try:
        applied.check_doubles(pruned, shape)
    except applied.DoubledError as error:
        where = f"{namespace}/{name}; {resource.api_version if resource.group else '/v1'}, Kind={resource.kind}"
        raise ApiError(500, "", f"failed to create typed patch object ({where}): {error}") from None
    stored = api.store.get(api.key(resource, namespace, name))
    live = api.present(resource, stored) if stored is not None else None
    merged = applied.apply(
        live, pruned, shape, manager=options.manager or "", force=options.force, subresource=subresource
    )
    if live is None:
        created = api.create(resource, namespace, merged, _with(options, manager=""), trusted=False)
        return created, True
    if "resourceVersion" in config["metadata"]:
        merged["metadata"]["resourceVersion"] = config["metadata"]["resourceVersion"]
    return api.update(resource, namespace, name, merged, options, subresource=subresource, recorded=True), False


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

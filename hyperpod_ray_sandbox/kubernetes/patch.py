"""The three classic patches: JSON patch (RFC 6902), merge patch (RFC 7396) and Kubernetes' strategic merge patch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.schema import SHAPES
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def _steps(pointer: str) -> list[str]:
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise bad_request(f"invalid JSON pointer {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _missing(pointer: str) -> ApiError:
    return ApiError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {pointer!r} is not there"
    )


def _lookup(document: Any, pointer: str) -> Any:
    for step in _steps(pointer):
        try:
            document = document[int(step)] if isinstance(document, list) else document[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _missing(pointer) from None
    return document


def _edit(document: Any, pointer: str, *, add: bool, value: Any = None) -> Any:
    """Add (or replace) the value at a pointer, or remove what is there."""
    steps = _steps(pointer)
    if not steps:
        return value
    parent = _lookup(document, pointer.rpartition("/")[0])
    step = steps[-1]
    if isinstance(parent, list):
        if add and step == "-":
            parent.append(value)
        elif step.isdigit() and int(step) <= len(parent) - (0 if add else 1):
            if add:
                parent.insert(int(step), value)
            else:
                parent.pop(int(step))
        else:
            raise _missing(pointer)
    elif isinstance(parent, dict):
        if add:
            parent[step] = value
        elif step in parent:
            del parent[step]
        else:
            raise _missing(pointer)
    else:
        raise _missing(pointer)
    return document


def json_patch(target: Json, operations: Any) -> Any:  # noqa: PLR0912
    """RFC 6902; a `test` that fails or a path that is not there refuses the whole patch."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    document: Any = copy(target)
    for operation in operations:
        if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
            raise bad_request(f"not a JSON patch operation: {operation!r}")
        word, path = operation["op"], operation["path"]
        if word in ("add", "replace", "test") and "value" not in operation:
            raise bad_request(f"JSON patch operation {word!r} needs a value")
        if word == "add":
            document = _edit(document, path, add=True, value=copy(operation["value"]))
        elif word == "remove":
            document = _edit(document, path, add=False)
        elif word == "replace":
            _lookup(document, path)
            steps = _steps(path)
            parent = _lookup(document, path.rpartition("/")[0]) if steps else None
            if isinstance(parent, list):
                parent[int(steps[-1])] = copy(operation["value"])
            else:
                document = _edit(document, path, add=True, value=copy(operation["value"]))
        elif word in ("move", "copy"):
            moved = copy(_lookup(document, operation["from"]))
            if word == "move":
                document = _edit(document, operation["from"], add=False)
            document = _edit(document, path, add=True, value=moved)
        elif word == "test":
            if _lookup(document, path) != operation["value"]:
                raise ApiError(422, "Invalid", f"the server rejected our request: testing value {path} failed")
        else:
            raise bad_request(f"unknown JSON patch operation {word!r}")
    return document


def _strategy(schema: Json | None) -> tuple[str, str | None]:
    """(strategy, merge key) of a field; without a schema lists are replaced."""
    if not schema:
        return "", None
    return schema.get("x-kubernetes-patch-strategy", ""), schema.get("x-kubernetes-patch-merge-key")


def _merge_list(
    target: list[Any], patch: list[Any], schema: Json | None, key: str | None, order: list[Any] | None
) -> list[Any]:
    if key is None:  # a set of plain values
        return _ordered([v for v in target if v not in patch], list(dict.fromkeys(patch)), target, lambda v: v)
    if any(isinstance(v, dict) and v.get("$patch") == "replace" for v in patch):
        return [copy(v) for v in patch if not (isinstance(v, dict) and v.get("$patch") == "replace")]
    items = SHAPES.items(schema) if schema else None
    result = [copy(v) for v in target]
    for element in patch:
        if not isinstance(element, dict) or key not in element:
            raise bad_request(f"map: {element!r} does not contain declared merge key: {key}")
        at = next((i for i, v in enumerate(result) if isinstance(v, dict) and v.get(key) == element[key]), None)
        if element.get("$patch") == "delete":
            if at is not None:
                result.pop(at)
        elif at is None:
            result.append(strategic_merge({}, element, items))
        else:
            result[at] = strategic_merge(result[at], element, items)
    listed = [o.get(key) if isinstance(o, dict) else o for o in order or patch]
    sent = [v for v in result if v.get(key) in listed]
    sent.sort(key=lambda v: listed.index(v.get(key)))
    rest = [v for v in result if v.get(key) not in listed]
    return _ordered(rest, sent, target, lambda v: v.get(key))


def _ordered(rest: list[Any], sent: list[Any], target: list[Any], mark: Callable[[Any], Any]) -> list[Any]:
    """What was sent in its order, and between it the rest where the server had it."""
    places = {json.dumps(mark(v)): i for i, v in reversed(list(enumerate(target)))}
    merged: list[Any] = []
    rest, sent = list(rest), list(sent)
    while rest and sent:
        server_place, sent_place = (places.get(json.dumps(mark(queue[0])), -1) for queue in (rest, sent))
        merged.append((rest if server_place < sent_place else sent).pop(0))
    return merged + rest + sent


def strategic_merge(target: Any, patch: Any, schema: Json | None) -> Any:  # noqa: PLR0912
    """Kubernetes' strategic merge: lists merge by the key that the schema names.

    `$patch`, `$retainKeys` and the like are obeyed.

    Source:
    https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
    """
    if not isinstance(patch, dict):
        return copy(patch)
    if patch.get("$patch") == "replace":
        return {k: copy(v) for k, v in patch.items() if k != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result: Json = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if isinstance(retain, list):
        result = {k: v for k, v in result.items() if k in retain}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            result[name] = [v for v in result.get(name) or [] if v not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
            continue
        child = SHAPES.child(schema, key) if schema else None
        if schema and child is not None:
            declared = (SHAPES.resolve(schema).get("properties") or {}).get(key) or {}
            strategy, merge_key = _strategy({**child, **declared})
        else:
            strategy, merge_key = "", None
        if isinstance(value, list) and "merge" in strategy.split(","):
            order = patch.get(f"$setElementOrder/{key}")
            result[key] = _merge_list(result.get(key) or [], value, child, merge_key, order)
        elif isinstance(value, list) or (isinstance(value, dict) and "replace" in strategy.split(",")):
            result[key] = copy(value)
        elif isinstance(value, dict):
            result[key] = strategic_merge(result.get(key), value, child)
        else:
            result[key] = value
    return result

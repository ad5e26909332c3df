"""JSON patch (RFC 6902) and merge patch (RFC 7396)."""

from __future__ import annotations

import re
from typing import Any

from hyperpod_ray_sandbox.kubernetes.json_schema import json_type
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]

_MOST_OPERATIONS = 10_000


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


def _rejected(why: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _missing(pointer: str) -> ApiError:
    return _rejected(f"{pointer!r} is not there")


def _index(elements: list[Any], step: str, room: int) -> int:
    """The place in a list that a step names, counted from the end where it is negative; raises 422."""
    if not re.fullmatch(r"[+-]?[0-9]+", step):
        raise _rejected(f"value was not a proper array index: {step!r}")
    index = int(step)
    if not -room <= index < room:
        raise _rejected(f"Unable to access invalid index: {index}")
    return index + room if index < 0 else index


def _get(parent: Any, step: str) -> Any:
    """The member at a step; None for a field that is not there."""
    return parent[_index(parent, step, len(parent))] if isinstance(parent, list) else parent.get(step)


def _place(document: Any, pointer: str) -> tuple[Any, str]:
    """The object or list that a pointer leads into, and the step in it; raises 422. A slash in front may be missing."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if not steps:
        raise _missing(pointer)
    for step in steps[:-1]:
        document = _get(document, step)
        if not isinstance(document, dict | list):
            raise _missing(pointer)
    return document, steps[-1]


def _add(document: Any, pointer: str, value: Any) -> None:
    parent, step = _place(document, pointer)
    if isinstance(parent, dict):
        parent[step] = value
    elif step == "-":
        parent.append(value)
    else:
        parent.insert(_index(parent, step, len(parent) + 1), value)


def _remove(document: Any, pointer: str) -> Any:
    parent, step = _place(document, pointer)
    if isinstance(parent, list):
        return parent.pop(_index(parent, step, len(parent)))
    if step not in parent:
        raise _missing(pointer)
    return parent.pop(step)


def _replace(document: Any, pointer: str, value: Any) -> None:
    parent, step = _place(document, pointer)
    if isinstance(parent, list):
        parent[_index(parent, step, len(parent))] = value
    else:
        parent[step] = value


def _alike(one_side: Any, other_side: Any) -> bool:
    """Equal as JSON text is: 0 and 0.0 are not."""
    if isinstance(one_side, dict) and isinstance(other_side, dict):
        return one_side.keys() == other_side.keys() and all(_alike(one_side[k], other_side[k]) for k in one_side)
    if isinstance(one_side, list) and isinstance(other_side, list):
        return len(one_side) == len(other_side) and all(map(_alike, one_side, other_side))
    return type(one_side) is type(other_side) and bool(one_side == other_side)


def _tested(document: Any, pointer: str, value: Any) -> None:
    parent, step = (document, None) if pointer == "" else _place(document, pointer)
    if not _alike(parent if step is None else _get(parent, step), value):
        raise _rejected(f"testing value {pointer} failed")


def json_patch(target: Json, operations: Any) -> Any:
    """RFC 6902, as the API server's library reads it: a `replace` of a field that is not there adds it.

    Raises 400 for what is no list of operations, and 422 for a `test` that fails or a place that is not there.
    """
    if operations is None:
        operations = []
    if not isinstance(operations, list) or any(not isinstance(o, dict | None) for o in operations):
        type_name = json_type(
            operations if not isinstance(operations, list) else next(o for o in operations if type(o) is not dict)
        )
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {type_name} into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MOST_OPERATIONS:
        why = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", why)
    document: Any = copy(target)
    for operation in operations:
        document = _operated(document, operation or {})
    return document


def _operated(document: Any, operation: Json) -> Any:
    word, path, source = operation.get("op"), operation.get("path"), operation.get("from")
    for field in ("op", "path", "from"):
        if operation.get(field) is not None and not isinstance(operation[field], str):
            raise bad_request(f"error decoding patch: json: cannot unmarshal into Go struct field jsonPatchOp.{field}")
    value = copy(operation.get("value"))
    if path is None or (word in ("move", "copy") and source is None):
        raise _rejected("operation missing path field" if path is None else "operation, missing from field")
    if word == "add":
        _add(document, path, value)
    elif word == "remove":
        _remove(document, path)
    # the whole document: a pointer without a slash has no parent to set it in
    elif word == "replace" and path == "":
        if not isinstance(value, dict | list):
            raise _rejected("replace operation value must be object or array")
        return value
    elif word == "replace":
        _replace(document, path, value)
    elif word == "move":
        _add(document, path, _remove(document, str(source)))
    elif word == "copy":
        _add(document, path, copy(_get(*_place(document, str(source)))))
    elif word == "test":
        _tested(document, path, value)
    else:
        raise _rejected(f"Unexpected kind: {word}")
    return document

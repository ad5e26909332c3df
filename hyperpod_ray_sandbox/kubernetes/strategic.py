"""Kubernetes' strategic merge patch: lists merge by the key that the schema names, and directives say what else.

Source:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hyperpod_ray_sandbox.kubernetes.schema import SHAPES
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_REMOVE = "$deleteFromPrimitiveList/"


def _failed(why: str) -> ApiError:
    """500, which the API server answers a patch whose directives contradict it."""
    return ApiError(500, "", why)


def _unknown(directive: Any) -> ApiError:
    return _failed(f"unknown patch type: {directive}")


def _keyless(element: Any, key: str) -> ApiError:
    return _failed(f"map: {element!r} does not contain declared merge key: {key}")


class _Field:
    """How a field of a schema merges."""

    def __init__(self, schema: Json | None, name: str) -> None:
        self.schema = SHAPES.child(schema, name) if schema else None
        declared = (SHAPES.resolve(schema).get("properties") or {}).get(name) or {} if schema else {}
        marks = {**(self.schema or {}), **declared}
        strategies = marks.get("x-kubernetes-patch-strategy", "").split(",")
        self.merges, self.replaces = "merge" in strategies, "replace" in strategies
        self.key: str | None = marks.get("x-kubernetes-patch-merge-key")
        self.is_list = "array" in marks.get("type", "")


def strategic_merge(target: Any, patch: Any, schema: Json | None) -> Any:
    """Merge a patch into an object; raises 400 or 500 for directives that make no sense."""
    if not isinstance(patch, dict):
        raise bad_request(
            f"json: cannot unmarshal {type(patch).__name__} into Go value of type map[string]interface {{}}"
        )
    return _merged(copy(target), copy(patch), schema)


def _merged(result: Json | None, patch: Json, schema: Json | None) -> Json:
    if _DIRECTIVE in patch:
        directive = patch.pop(_DIRECTIVE)
        if directive not in ("replace", "delete"):
            raise _unknown(directive)
        return patch if directive == "replace" else {}
    result = dict(result or {})
    _retain(result, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _arrange(result, patch, name.removeprefix(_ORDER), patch.pop(name), schema)
    for name, value in patch.items():
        if name.startswith(_REMOVE):
            field = name.removeprefix(_REMOVE)
            if field not in result:
                continue
            if not isinstance(value, list) or not isinstance(result[field], list):
                raise bad_request("invalid patch format of primitive list")
            result[field] = [element for element in result[field] if element not in value]
        elif value is None:
            result.pop(name, None)
        else:
            _set(result, name, value, _Field(schema, name))
    return result


def _set(result: Json, name: str, value: Any, field: _Field) -> None:
    """Give a field of the result what a patch says of it."""
    current = result.get(name)
    if isinstance(current, dict) and isinstance(value, dict):
        result[name] = value if field.replaces else _merged(current, value, field.schema)
    elif isinstance(current, list) and isinstance(value, list):
        result[name] = _list(current, value, field) if field.merges else value
    else:
        plain, stays = _plain(value)
        if stays:
            result[name] = plain
        else:
            result.pop(name, None)


def _plain(value: Any) -> tuple[Any, bool]:
    """A value without directives and nulls, and whether anything is left of it."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        members = {name: _plain(member) for name, member in value.items() if member is not None}
        return {name: plain for name, (plain, stays) in members.items() if stays}, True
    if isinstance(value, list):
        return [plain for plain, stays in map(_plain, value) if stays], True
    return value, True


def _retain(result: Json, patch: Json) -> None:
    """Drop what `$retainKeys` does not name; raises 400 where the patch itself sets more than it names."""
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    changed = [n for n, v in patch.items() if v is not None and not n.startswith((_ORDER, _REMOVE))]
    if not isinstance(kept, list) or any(name not in kept for name in changed):
        raise bad_request("invalid patch format of retainKeys")
    for name in [name for name in result if name not in kept]:
        del result[name]


def _arrange(result: Json, patch: Json, name: str, order: Any, schema: Json | None) -> None:
    """Merge a list together with the order that a patch gives its elements."""
    current, sent = result.get(name), patch.get(name)
    for part in (order, *(value for value in (current, sent) if value is not None)):
        if not isinstance(part, list):
            raise _failed(f"expected a list in {_ORDER}{name}, but received: {part!r}")
    field = _Field(schema, name)
    if schema and not field.is_list:
        raise _failed(f"unable to find api field in struct for the json field {name!r}")
    _check_order(sent or [], order, field.key)
    patch.pop(name, None)
    if current is None and sent is None:
        return
    if current is None:
        merged, _ = _plain(sent)
    elif sent is None:
        merged = current
    else:
        merged = _list(current, sent, field) if field.merges else sent
    result[name] = _ordered(merged, order, current or [], field.key)


def _check_order(sent: list[Any], order: list[Any], key: str | None) -> None:
    """The elements of a patch must be in the order that it gives them; raises 500."""
    rest = [element for element in sent if not (isinstance(element, dict) and _DIRECTIVE in element)]
    if not order or not sent:
        return
    for place in order:
        if rest and _mark(rest[0], key) == _mark(place, key):
            rest.pop(0)
    if rest:
        raise _failed(f"The order in patch list:\n{sent}\n doesn't match {_ORDER} list:\n{order}\n")


def _mark(element: Any, key: str | None) -> str:
    if key is None:
        return json.dumps(element)
    if not isinstance(element, dict) or key not in element:
        raise _keyless(element, key)
    return json.dumps(element[key])


def _list(current: list[Any], sent: list[Any], field: _Field) -> list[Any]:
    """Two lists, merged by their elements' key, or as sets of plain values."""
    elements = [*current, *sent]
    if not elements:
        return current
    kinds = {type(element) for element in elements}
    if len(kinds) > 1 or list in kinds:
        raise _failed(
            "list element types are not identical" if list not in kinds else "lists of lists are not supported"
        )
    if dict not in kinds:
        return _ordered(list(dict.fromkeys(elements)), sent, current, None)
    if field.key is None:
        raise _failed("cannot merge lists without merge key")
    current, sent = _directed(current, sent, field.key)
    merged = list(current)
    for element in sent:
        mark = _mark(element, field.key)
        place = next((i for i, other in enumerate(merged) if _mark(other, field.key) == mark), None)
        if place is None:
            merged.append(element)
        else:
            items = SHAPES.items(field.schema) if field.schema else None
            merged[place] = _merged(merged[place], element, items)
    return _ordered(merged, sent, current, field.key)


def _directed(current: list[Any], sent: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """A list without the elements that a patch deletes, and the elements of the patch that are no directive."""
    rest, replaces = [], False
    for element in sent:
        directive = element.get(_DIRECTIVE)
        if _DIRECTIVE not in element:
            rest.append(element)
        elif directive == "delete":
            mark = _mark(element, key)
            current = [other for other in current if _mark(other, key) != mark]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise _failed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown(directive)
    return (rest, []) if replaces else (current, rest)


def _ordered(merged: list[Any], order: list[Any], current: list[Any], key: str | None) -> list[Any]:
    """What a patch names in its order, and between it the rest where the server had it."""
    mark: Callable[[Any], str] = lambda element: _mark(element, key)  # noqa: E731
    ranks = {mark(element): i for i, element in reversed(list(enumerate(order)))}
    places = {mark(element): i for i, element in reversed(list(enumerate(current)))}
    sent = sorted((e for e in merged if mark(e) in ranks), key=lambda e: ranks[mark(e)])
    rest = sorted((e for e in merged if mark(e) not in ranks), key=lambda e: places.get(mark(e), len(places)))
    result: list[Any] = []
    while rest and sent:
        server_place, sent_place = (places.get(mark(queue[0]), -1) for queue in (rest, sent))
        result.append((rest if -1 < server_place < sent_place else sent).pop(0))
    return result + sent + rest

"""Server-side apply and `metadata.managedFields`: who set which field.

A field set is a set of paths; a path is a tuple of steps as `fieldsV1` writes them: `f:name` for a field, `k:{…}` for
an item of a list with keys, `v:…` for an item of a set. The path of a list item itself ends in ".". Source:
https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_sandbox.kubernetes.schema import SHAPES
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import copy

Json = dict[str, Any]
Path = tuple[str, ...]

# set by the server or identifying the object: nobody's field
_UNOWNED = {
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    ("f:metadata", "f:name"),
    ("f:metadata", "f:namespace"),
    ("f:metadata", "f:uid"),
    ("f:metadata", "f:resourceVersion"),
    ("f:metadata", "f:creationTimestamp"),
    ("f:metadata", "f:generation"),
    ("f:metadata", "f:selfLink"),
    ("f:metadata", "f:managedFields"),
    ("f:metadata", "f:deletionTimestamp"),
    ("f:metadata", "f:deletionGracePeriodSeconds"),
}
# the one key the API defaults: a port without a protocol is TCP
_KEY_DEFAULTS = {"protocol": "TCP"}


def list_keys(schema: Json | None) -> list[str] | None:
    """Keys of an associative list, [] for a set, None for an atomic list."""
    if not schema:
        return None
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "map":
        return list(schema.get("x-kubernetes-list-map-keys") or [])
    if list_type == "set":
        return []
    if (
        list_type is None
        and schema.get("x-kubernetes-patch-merge-key")
        and "merge" in schema.get("x-kubernetes-patch-strategy", "")
    ):
        return [schema["x-kubernetes-patch-merge-key"]]
    return None


def item_step(element: Any, keys: list[str]) -> str:
    """The step of a list item."""
    if not keys:
        return "v:" + json.dumps(element, separators=(",", ":"))
    values = {k: element.get(k, _KEY_DEFAULTS.get(k)) for k in keys} if isinstance(element, dict) else {}
    return "k:" + json.dumps({k: v for k, v in values.items() if v is not None}, separators=(",", ":"), sort_keys=True)


_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "string"),
    "boolean": ((bool,), "boolean"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
}


def check_types(value: Any, schema: Json | None, path: str = "") -> None:
    """Refuse a value of another type than its field's: nobody could own it. Raises UntypedError."""
    declared_type = _one_type(schema)
    if declared_type == "object" and value is not None and not isinstance(value, dict):
        raise UntypedError(f"{path}: expected map, got &{{{value}}}")
    if declared_type == "array" and value is not None and not isinstance(value, list):
        raise UntypedError(f"{path}: expected list, got &{{{value}}}")
    if isinstance(value, dict):
        for key, child in value.items():
            check_types(child, _declared(schema, key), f"{path}.{key}")
    elif isinstance(value, list):
        items = SHAPES.items(schema) if schema else None
        for index, element in enumerate(value):
            check_types(element, items, f"{path}[{index}]")
    expected = _SCALARS.get(declared_type)
    if expected is None or value is None:
        return
    types, word = expected
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise UntypedError(f"{path}: expected {word}, got &value.valueUnstructured{{Value:{_in_go(value)}}}")


def _one_type(schema: Json | None) -> str:
    """The type of a field that has one; empty where it may be several, as for quantities and percentages."""
    if not schema or schema.get("x-kubernetes-int-or-string") or schema.get("oneOf") or schema.get("format"):
        return "integer" if str((schema or {}).get("format", "")).startswith("int3") else ""
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = [word for word in declared if word != "null"]
        declared = declared[0] if len(declared) == 1 else ""
    return declared if isinstance(declared, str) else ""


def _in_go(value: Any) -> str:
    """A value as Go's `%#v` writes it, where it is short."""
    return json.dumps(value) if isinstance(value, str | bool | int | float) else "..."


def check_doubles(value: Any, schema: Json | None, path: str = "") -> None:
    """Refuse a list with two items of one key: nobody could own them apart. Raises ApiError 500, as the server does."""
    if isinstance(value, dict):
        for key, child in value.items():
            check_doubles(child, _declared(schema, key), f"{path}.{key}")
    elif isinstance(value, list) and (keys := list_keys(schema)) is not None:
        items = SHAPES.items(schema) if schema else None
        steps: set[str] = set()
        for element in value:
            step = item_step(element, keys)
            marks = json.loads(step[2:])
            shown = ",".join(f"{k}={json.dumps(v)}" for k, v in marks.items()) if keys else f"={json.dumps(marks)}"
            if step in steps:
                raise UntypedError(f"{path}: duplicate entries for key [{shown}]")
            steps.add(step)
            check_doubles(element, items, f"{path}[{shown}]")


class UntypedError(Exception):
    """What was sent cannot be owned by its fields: a field is unknown, or a list has two items of one key."""


def _declared(schema: Json | None, key: str) -> Json | None:
    if not schema:
        return None
    child = SHAPES.child(schema, key)
    beside = (SHAPES.resolve(schema).get("properties") or {}).get(key)
    return {**child, **beside} if child is not None and isinstance(beside, dict) and "$ref" in beside else child


def fields(value: Any, schema: Json | None, at: Path = ()) -> set[Path]:
    """All paths of an object that someone can own."""
    if isinstance(value, dict) and (schema or {}).get("x-kubernetes-map-type") != "atomic" and (value or not at):
        paths: set[Path] = set()
        for key, child in value.items():
            path = (*at, f"f:{key}")
            if path in _UNOWNED and path != ("f:metadata",):
                continue
            paths |= fields(child, _declared(schema, key), path)
        return paths - {("f:metadata",)}
    if isinstance(value, list) and (keys := list_keys(schema)) is not None:
        items = SHAPES.items(schema) if schema else None
        paths = set()
        for child in value:
            path = (*at, item_step(child, keys))
            paths.add((*path, "."))
            if isinstance(child, dict):
                paths |= fields(child, items, path)
        return paths or {at}
    return {at}


def lookup(value: Any, path: Path, schema: Json | None) -> Any:
    """The value at a path, or None."""
    for step in path:
        if step == ".":
            return value
        if step.startswith("f:"):
            if not isinstance(value, dict):
                return None
            value, schema = value.get(step[2:]), _declared(schema, step[2:])
        else:
            keys = list_keys(schema) or []
            value = next((v for v in value if item_step(v, keys) == step), None) if isinstance(value, list) else None
            schema = SHAPES.items(schema) if schema else None
    return value


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """The nested form of a field set."""
    root: Json = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def from_fields_v1(node: Json, at: Path = ()) -> set[Path]:
    """A field set from its nested form."""
    paths: set[Path] = set()
    for step, below in node.items():
        path = (*at, step)
        if step == "." or not below:
            paths.add(path)
        else:
            paths |= from_fields_v1(below, path)
    return paths


Manager = tuple[str, str, str]  # name, operation (Apply | Update), subresource


def read_managers(obj: Json | None) -> dict[Manager, set[Path]]:
    """The field sets of an object's managers."""
    managers: dict[Manager, set[Path]] = {}
    for record in ((obj or {}).get("metadata") or {}).get("managedFields") or []:
        key = (record.get("manager", ""), record.get("operation", "Update"), record.get("subresource", ""))
        managers[key] = from_fields_v1(record.get("fieldsV1") or {})
    return managers


def write_managers(obj: Json, managers: dict[Manager, set[Path]], old: Json | None) -> None:
    """Put field sets into an object; an entry that did not change keeps its time."""
    before = {
        (e.get("manager", ""), e.get("operation", ""), e.get("subresource", "")): e
        for e in ((old or {}).get("metadata") or {}).get("managedFields") or []
    }
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entries = []
    for key, paths in managers.items():
        if not paths:
            continue
        tree = to_fields_v1(paths)
        same = before.get(key)
        if same and same.get("fieldsV1") == tree:
            entries.append(same)
            continue
        record = {
            "manager": key[0],
            "operation": key[1],
            "apiVersion": obj["apiVersion"],
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        if key[2]:
            record["subresource"] = key[2]
        entries.append(record)
    entries.sort(key=lambda entry: (entry["operation"], entry["time"], entry["manager"]))
    obj["metadata"]["managedFields"] = entries
    if not entries:
        del obj["metadata"]["managedFields"]


def record_update(new: Json, old: Json | None, schema: Json, manager: str, subresource: str = "") -> None:
    """Note in `new` that `manager` wrote what differs from `old` (a create, a PUT or a patch)."""
    managers = read_managers(old)
    managed = (new.get("metadata") or {}).get("managedFields")
    if old is not None and managed is not None and managed != (old["metadata"].get("managedFields")):
        # a client may rewrite the record itself, as kubectl does when it moves from client-side to server-side apply
        managers = read_managers(new)
    have = fields(new, schema)
    before = fields(old, schema) if old is not None else set()
    changed = {p for p in have if p not in before or lookup(new, p, schema) != lookup(old, p, schema)}
    if not subresource:
        changed = {p for p in changed if p[0] != "f:status"}
    manager_key = (manager, "Update", subresource)
    result: dict[Manager, set[Path]] = {}
    for key, paths in managers.items():
        kept = {p for p in paths if p in have}
        result[key] = kept - changed if key != manager_key else kept
    if changed:
        result[manager_key] = result.get(manager_key, set()) | changed
    write_managers(new, result, old)


def _merge(live: Any, config: Any, schema: Json | None) -> Any:
    if isinstance(config, dict) and (schema or {}).get("x-kubernetes-map-type") != "atomic":
        result = dict(live) if isinstance(live, dict) else {}
        for key, value in config.items():
            result[key] = _merge(result.get(key), value, _declared(schema, key))
        return result
    if isinstance(config, list) and (keys := list_keys(schema)) is not None:
        items = SHAPES.items(schema) if schema else None
        existing = {item_step(v, keys): v for v in live} if isinstance(live, list) else {}
        order = [item_step(v, keys) for v in config]
        merged = {**existing, **{s: _merge(existing.get(s), v, items) for s, v in zip(order, config, strict=True)}}
        return [merged[step] for step in _interleaved(list(existing), list(dict.fromkeys(order)))]
    return copy(config)


def _interleaved(live: list[str], config: list[str]) -> list[str]:
    """The items of two lists in one order: the applied one's, with what only the other has where it stood.

    Source: sigs.k8s.io/structured-merge-diff, typed/merge.go, visitListItems.
    """
    shared = [step for step in config if step in live]
    result: list[str] = []
    live_index = config_index = 0
    while live_index < len(live) or config_index < len(config):
        if live_index < len(live) and config_index < len(config):
            if live[live_index] == config[config_index]:
                result.append(live[live_index])
                shared = shared[1:] if shared[:1] == [live[live_index]] else shared
                live_index, config_index = live_index + 1, config_index + 1
                continue
            if live[live_index] in config and shared and shared[0] != live[live_index]:
                live_index += 1
                continue
        if live_index < len(live):
            if live[live_index] not in config:
                result.append(live[live_index])
                live_index += 1
                continue
            if live[live_index] in result:
                live_index += 1
                continue
        if config_index < len(config):
            result.append(config[config_index])
            shared = shared[1:] if shared[:1] == [config[config_index]] else shared
            config_index += 1
    return result


def _remove(value: Any, path: Path, schema: Json | None) -> None:
    step, rest = path[0], path[1:]
    if step.startswith("f:") and isinstance(value, dict):
        key = step[2:]
        if not rest:
            value.pop(key, None)
        elif key in value:
            _remove(value[key], rest, _declared(schema, key))
            if value[key] in ({}, []):
                del value[key]
    elif isinstance(value, list):
        keys = list_keys(schema) or []
        for index, element in enumerate(value):
            if item_step(element, keys) == step:
                if rest in ((), (".",)):
                    value.pop(index)
                else:
                    _remove(element, rest, SHAPES.items(schema) if schema else None)
                return


def apply(live: Json | None, config: Json, schema: Json, *, manager: str, force: bool, subresource: str = "") -> Json:
    """The object after server-side apply of `config`; raises ApiError 409 naming every field another manager holds."""
    config = copy(config)
    (config.get("metadata") or {}).pop("managedFields", None)
    desired = fields(config, schema)
    if not subresource:
        desired = {p for p in desired if p[0] != "f:status"}
    managers = read_managers(live)
    manager_key: Manager = (manager, "Apply", subresource)
    conflicts: list[tuple[str, str, Path]] = []
    for key, paths in managers.items():
        if key == manager_key:
            continue
        for path in desired & paths:
            if path[-1] != "." and lookup(live, path, schema) != lookup(config, path, schema):
                conflicts.append((key[0], key[1], path))
    if conflicts and not force:
        raise _conflict(conflicts)
    taken = {path for _, _, path in conflicts}
    result: dict[Manager, set[Path]] = {k: (p - taken if k != manager_key else p) for k, p in managers.items()}
    foreign: set[Path] = set().union(*(p for k, p in result.items() if k != manager_key))
    merged = copy(live) if live is not None else {}
    gone = result.get(manager_key, set()) - desired
    # deepest first; an item before its fields, because without its key field it would not be found any more
    for path in sorted(gone, key=lambda p: (-len(p), p[-1] != ".", p)):
        # a field that someone else holds too, or that holds someone else's field, stays
        if path not in foreign and not any(o[: len(path)] == path for o in foreign):
            stem = path[:-1] if path[-1] == "." else path
            if path[-1] == "." and any(o[: len(stem)] == stem for o in foreign | desired):
                continue
            _remove(merged, path, schema)
    merged = _merge(merged, config, schema)
    result[manager_key] = desired
    write_managers(merged, result, live)
    return dict(merged)


def _conflict(conflicts: list[tuple[str, str, Path]]) -> ApiError:
    causes = []
    for name, operation, path in conflicts:
        field = "." + ".".join(s[2:] if s.startswith("f:") else s for s in path)
        using = "" if operation == "Apply" else " using Update"
        causes.append({"reason": "FieldManagerConflict", "message": f'conflict with "{name}"{using}', "field": field})
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    text = f"Apply failed with {count}: " + ", ".join(f"{c['message']}: {c['field']}" for c in causes)
    return ApiError(409, "Conflict", text, {"causes": causes})

"""Reads JSON as the API server does: a key that comes twice in one object is noticed.

Source: sigs.k8s.io/json, which kube-apiserver decodes strictly with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

Json = dict[str, Any]


class _Object(dict[str, Any]):
    doubled: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    if len({k for k, _ in pairs}) == len(pairs):
        return dict(pairs)
    mapping = _Object(pairs)
    names = [k for k, _ in pairs]
    mapping.doubled = tuple(dict.fromkeys(n for n in names if names.count(n) > 1))
    return mapping


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value.doubled if isinstance(value, _Object) else ():
            yield f"{path}.{name}" if path else name
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, f"{path}[{index}]")


def read(body: bytes) -> tuple[Any, list[str]]:
    """The value of a JSON text, and the paths of the fields that it gives twice."""
    value = json.loads(body or b"null", object_pairs_hook=_pairs)
    return value, list(_paths(value, ""))


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML whose objects remember the keys that they have twice."""


def _mapping(loader: Any, node: yaml.MappingNode) -> Any:
    loader.flatten_mapping(node)
    pairs = [
        (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
        for key, value in node.value
    ]
    return _pairs([(key if isinstance(key, str) else json.dumps(key), value) for key, value in pairs])


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value of a YAML text's first document, and the paths of the fields that it gives twice."""
    if body[:1] == b"{":
        return read(body)
    value = next(yaml.load_all(body, Loader=_Loader), None)
    return value, list(_paths(value, ""))

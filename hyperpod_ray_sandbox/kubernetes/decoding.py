"""Reads JSON as the API server does: a key that comes twice in one object is noticed.

Source: sigs.k8s.io/json, which kube-apiserver decodes strictly with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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

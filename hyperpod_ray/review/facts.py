"""`facts.yaml`: what the registry schemas do not know, with sources."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from hyperpod_ray_rules import data_file


def facts() -> dict[str, Any]:
    """The whole file."""
    return load_yaml("facts.yaml")


@functools.cache
def load_yaml(name: str) -> dict[str, Any]:
    """A data file of this package, read once; nobody changes what is returned."""
    data = data_file.read(Path(__file__).parent / name)
    assert isinstance(data, dict)  # noqa: S101  (narrowing only)
    return data


def source(name: str) -> str:
    """Address of a source by its name in `facts.yaml`. KeyError when there is none."""
    address: str = facts()["sources"][name]
    return address


def extra_create_only(resource_type: str) -> tuple[tuple[str, ...], ...]:
    """Create-only pointers that the registry schema does not list."""
    create_only = facts()["create_only"].get(resource_type, {})
    return tuple(tuple(pointer.split("/")) for pointer in create_only.get("properties", []))

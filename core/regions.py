"""Which instance types a region offers (`core/catalogue/instance_type_regions.yaml`)."""

from __future__ import annotations

import functools

from core.plan import catalogue, read_data

HEAD_TYPES = ("ml.m5.2xlarge", "ml.m6i.2xlarge", "ml.m7i.2xlarge", "ml.m6a.2xlarge")
"""Types for Ray's head, the first choice first: eight vCPUs without an accelerator."""


@functools.cache
def _missing() -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    data = read_data("instance_type_regions.yaml")
    return frozenset(data["regions"]), {name: frozenset(regions) for name, regions in data["missing"].items()}


def regions() -> list[str]:
    """Regions whose types are known, sorted."""
    return sorted(_missing()[0])


def offers(region: str, instance_type: str) -> bool:
    """Whether a region offers a type, as far as the catalogue knows; False for a region that it does not hold."""
    known, missing = _missing()
    return instance_type in catalogue() and region in known and region not in missing.get(instance_type, frozenset())


def accelerated(region: str) -> list[str]:
    """Types with GPUs or Neuron devices that a region offers, in the catalogue's order."""
    return [name for name, row in catalogue().items() if row.accelerators and offers(region, name)]


def head_type(region: str) -> str:
    """A type for Ray's head that a region offers.

    Raises:
        LookupError: the region offers none of them.
    """
    for name in HEAD_TYPES:
        if offers(region, name):
            return name
    raise LookupError(f"no type for Ray's head is known in {region}: expected one of {', '.join(HEAD_TYPES)}")

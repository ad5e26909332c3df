"""What EC2 asks for a family in each Region, for estimates of what HyperPod asks there (`ec2_by_region.yaml`)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from hyperpod_ray_rules import data_file

FILE = Path(__file__).resolve().parent / "ec2_by_region.yaml"
HOME = "us-east-1"
"""The Region whose HyperPod prices are on file by type."""


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = data_file.read(FILE)
    return data


def checks() -> list[dict[str, Any]]:
    """Prices of SageMaker's own that were recorded in other Regions."""
    return list(_data()["checks"])


def family(instance_type: str) -> str:
    """`g5` of `ml.g5.48xlarge`."""
    return instance_type.removeprefix("ml.").partition(".")[0]


def ratio(region: str, instance_type: str) -> float | None:
    """What EC2 asks for the type's family in a Region, in parts of what it asks in us-east-1; None where unknown."""
    prices = _prices(instance_type)
    return prices[region] / prices[HOME] if region in prices else None


def regions(instance_type: str) -> list[str]:
    """Regions in which EC2 asks a price for the type's family."""
    return sorted(_prices(instance_type))


def _prices(instance_type: str) -> dict[str, float]:
    """What EC2 asks for the type's family, by Region; empty where no type of it is on file."""
    types = _data()["types"].items()
    return next((prices for listed, prices in types if family(listed) == family(instance_type)), {})

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
    for listed, prices in _data()["types"].items():
        if family(listed) == family(instance_type):
            price = prices.get(region)
            return float(price) / float(prices[HOME]) if price else None
    return None


def regions(instance_type: str) -> list[str]:
    """Regions in which EC2 asks a price for the type's family."""
    for listed, prices in _data()["types"].items():
        if family(listed) == family(instance_type):
            return sorted(prices)
    return []

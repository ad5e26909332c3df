"""What rules and simulated nodes go by, with its sources: figures of instance types, versions, zones."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from hyperpod_ray_rules import data_file

FOLDER = Path(__file__).parent


@functools.cache
def read(name: str) -> Any:
    """Parse one of this folder's files, less its `about`."""
    return {key: value for key, value in data_file.read(FOLDER / name).items() if key != "about"}


def instance_types() -> dict[str, dict[str, Any]]:
    """Figures by instance type."""
    types: dict[str, dict[str, Any]] = read("instance_types.yaml")
    return types


def kubernetes_versions() -> tuple[str, ...]:
    """Kubernetes versions that HyperPod supports on EKS, in order."""
    return tuple(read("platform_versions.yaml")["hyperpod"]["kubernetes_versions"])


def refused_zone_ids() -> tuple[str, ...]:
    """Availability zone IDs in which EKS takes no subnet for its control plane."""
    return tuple(read("platform_versions.yaml")["eks"]["refused_zone_ids"])


def training_plan_types() -> tuple[str, ...]:
    """Instance types that training plans exist for."""
    return tuple(read("platform_versions.yaml")["hyperpod"]["training_plan_types"])


def ultraservers() -> dict[str, int]:
    """Instances of one UltraServer, by instance type."""
    sizes: dict[str, int] = read("platform_versions.yaml")["hyperpod"]["ultraservers"]
    return sizes

"""What the services accept today, as data with sources (`hyperpod_ray_rules/data/platform_versions.yaml`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from hyperpod_ray_rules import data as rules_data
from hyperpod_ray_rules import hyperpod

Phase = Literal["standard", "extended", "ended"]
SUPPORT_WARNING_DAYS = 60
"""Days before the end of standard support from which `env check` and `preflight` warn."""


@dataclass(frozen=True, kw_only=True)
class Support:
    """How long EKS supports a Kubernetes version; days in UTC, on which the support named has ended."""

    standard: date
    """Extended support, which costs more, begins."""
    extended: date
    """EKS makes no new cluster of it, and updates those there are to a newer version by itself."""

    def phase(self, day: date) -> Phase:
        """In which a cluster is on that day; extended support is billed from the beginning of its first day.

        https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html#kubernetes-release-calendar
        """
        if day < self.standard:
            return "standard"
        return "extended" if day < self.extended else "ended"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Versions and lists that change with the services rather than with this project."""

    instance_types: frozenset[str]
    """Types that the CreateCluster call accepts."""
    kubernetes_versions: tuple[str, ...]
    """Kubernetes versions that HyperPod supports on EKS, in order."""
    eks_support: Mapping[str, Support]
    """Kubernetes version, then how long EKS supports it."""
    refused_zone_ids: tuple[str, ...]
    """Availability zone IDs in which EKS takes no subnet for its control plane."""
    kubectl_versions: tuple[str, ...]
    """Minor versions of the kubectl layers that a deployment can use, in order."""
    regions: tuple[str, ...]
    """Regions known when the list was written."""


@functools.cache
def platform() -> Platform:
    """The data, read once."""
    data = rules_data.read("platform_versions.yaml")
    return Platform(
        instance_types=frozenset(data["hyperpod"]["instance_types"]),
        kubernetes_versions=tuple(data["hyperpod"]["kubernetes_versions"]),
        eks_support={version: Support(**ends) for version, ends in data["eks"]["support_ends"].items()},
        refused_zone_ids=tuple(data["eks"]["refused_zone_ids"]),
        kubectl_versions=tuple(data["kubectl"]["versions"]),
        regions=tuple(data["regions"]),
    )


def in_standard_support(*, after: str, on: date) -> list[str]:
    """Versions newer than one that HyperPod supports and that are in standard support on a day, in order."""
    versions = platform().kubernetes_versions
    return [
        version
        for version in versions[versions.index(after) + 1 :]
        if platform().eks_support[version].phase(on) == "standard"
    ]


def minor_of(version: str) -> int:
    """The minor version of a Kubernetes version: 35 of `1.35`."""
    return int(version.split(".")[1])


def kubectl_for(version: str) -> str:
    """The kubectl that applies manifests to a cluster of that version: the nearest one, of two the newer.

    At most one minor version apart for every version that HyperPod supports:
    https://kubernetes.io/releases/version-skew-policy/#kubectl
    """
    minor = minor_of(version)
    return min(
        platform().kubectl_versions, key=lambda candidate: (abs(minor_of(candidate) - minor), -minor_of(candidate))
    )


def partition_of(region: str) -> str:
    """ARN partition of a region.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
    """
    return hyperpod.partition_of(region)


def zone_prefix_of(region: str) -> str:
    """What the region's availability zone IDs begin with: `us-west-2` → `usw2`, `ap-southeast-1` → `apse1`.

    https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
    """
    *words, number = region.split("-")
    initials = {"southeast": "se", "northeast": "ne", "northwest": "w", "southwest": "sw"}
    return words[0] + "".join(initials.get(word, word[0]) for word in words[1:]) + number

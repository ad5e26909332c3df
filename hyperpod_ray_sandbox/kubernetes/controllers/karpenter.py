"""The definitions that HyperPod installs with its managed Karpenter. Nothing here adds a node.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_sandbox.kubernetes.api import Api

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "karpenter"
VERSION, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"


class Karpenter:
    """Watches the HyperPod cluster of this control plane, and installs the definitions once autoscaling is on."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def follow(self, clusters: Iterable[Json]) -> None:
        """Bring the definitions in line with this control plane's HyperPod clusters, as they were just described.

        Definitions stay when autoscaling is switched off.
        """
        if (
            any((cluster.get("AutoScaling") or {}).get("Mode") == "Enable" for cluster in clusters)
            and not self._there()
        ):
            self._install()

    def _there(self) -> bool:
        return all(self._api.find(VERSION, KIND, "", definition["metadata"]["name"]) for definition in definitions())

    def _install(self) -> None:
        for definition in definitions():
            if self._api.find(VERSION, KIND, "", definition["metadata"]["name"]) is None:
                self._api.create(self._api.kind(VERSION, KIND), "", definition)


@functools.cache
def definitions() -> list[Json]:
    """NodePool and HyperpodNodeClass; every look at the service asks."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [yaml.load(path.read_text(), Loader=loader) for path in sorted(FOLDER.glob("*.yaml"))]  # noqa: S506

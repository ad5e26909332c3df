"""The definitions that HyperPod installs with its managed Karpenter. Nothing here adds a node.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from sandbox.kubernetes.api import Api
from sandbox.kubernetes.controllers.aws import Aws

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "karpenter"
VERSION, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"


class Karpenter:
    """Watches the HyperPod cluster of this control plane, and installs the definitions once autoscaling is on."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def poll(self, aws: Aws, eks_arn: str) -> None:
        """Read the service once; definitions stay when autoscaling is switched off."""
        if self._there():
            return
        for summary in await aws.pages("sagemaker", "list_clusters", "ClusterSummaries"):
            cluster = await aws.call("sagemaker", "describe_cluster", ClusterName=summary["ClusterName"])
            orchestrator = ((cluster.get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn", "")
            if orchestrator == eks_arn and (cluster.get("AutoScaling") or {}).get("Mode") == "Enable":
                self._install()

    def _there(self) -> bool:
        return all(self._api.find(VERSION, KIND, "", item["metadata"]["name"]) for item in definitions())

    def _install(self) -> None:
        for item in definitions():
            if self._api.find(VERSION, KIND, "", item["metadata"]["name"]) is None:
                self._api.create(self._api.kind(VERSION, KIND), "", item)


@functools.cache
def definitions() -> list[Json]:
    """NodePool and HyperpodNodeClass; every poll asks."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [yaml.load(path.read_text(), Loader=loader) for path in sorted(FOLDER.glob("*.yaml"))]  # noqa: S506

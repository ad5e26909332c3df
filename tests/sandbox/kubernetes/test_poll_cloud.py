"""What one look at the embedded AWS asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.cloud import Cloud
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import Nodes
from hyperpod_ray_sandbox.kubernetes.controllers.settings import Settings
from hyperpod_ray_sandbox.kubernetes.store import Store

EKS = "arn:aws:eks:us-west-2:000000000001:cluster/ray"
HYPERPOD = {"ClusterName": "ray", "ClusterArn": EKS, "Orchestrator": {"Eks": {"ClusterArn": EKS}}}


class Aws:
    """An EKS cluster with a HyperPod cluster without nodes, and these add-ons."""

    def __init__(self, addons: list[str]) -> None:
        self.addons, self.asked = addons, []  # type: ignore[var-annotated]

    async def look(self) -> None:
        pass

    async def pages(self, service: str, operation: str, *_: object, **__: object) -> list[Any]:
        self.asked.append(operation)
        if operation == "list_clusters":
            return ["ray"] if service == "eks" else [HYPERPOD]
        return self.addons if operation == "list_addons" else []

    async def call(self, service: str, operation: str, **_: object) -> Any:
        self.asked.append(operation)
        return {"cluster": {"arn": EKS, "createdAt": "now"}} if service == "eks" else HYPERPOD


@pytest.mark.parametrize("governed", [False, True])
def test_quotas_are_asked_for_with_their_add_on_alone(tmp_path: Path, governed: bool) -> None:
    """Each look costs processor time of both servers, several times a second while an environment is deployed."""
    api = Api(Store(tmp_path / "objects.sqlite"))
    cloud = Cloud(api, Settings(aws_endpoint="http://127.0.0.1:1"), Nodes(api, 1.0))
    aws: Any = Aws([names.GOVERNANCE_ADDON] if governed else [])
    cloud.aws = aws
    asyncio.run(cloud._poll())
    assert ("list_compute_quotas" in aws.asked) == governed
    assert len(aws.asked) == (8 if governed else 6)

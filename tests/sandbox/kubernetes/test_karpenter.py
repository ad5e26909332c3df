"""HyperPod's managed Karpenter: its definitions come with autoscaling, and judge what this project renders."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, load
from hyperpod_ray.core.model import Environment
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.karpenter import Karpenter, definitions
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import Nodes
from hyperpod_ray_sandbox.kubernetes.status import ApiError
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]
ARN = "arn:aws:eks:us-west-2:000000000001:cluster/ray"
VARIANTS = Path(__file__).parents[2] / "stacks" / "variants"


class Aws:
    """SageMaker with one cluster, which has no nodes yet."""

    def __init__(self, **cluster: Any) -> None:
        self.cluster = {"ClusterName": "ray", "Orchestrator": {"Eks": {"ClusterArn": ARN}}, **cluster}

    async def pages(self, _service: str, operation: str, *_: object, **__: object) -> list[Json]:
        return [self.cluster] if operation == "list_clusters" else []

    async def call(self, *_: object, **__: object) -> Json:
        return self.cluster


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(Store(tmp_path / "objects.sqlite"))


def follow(api: Api, **cluster: Any) -> set[str]:
    aws: Any = Aws(**cluster)
    Karpenter(api).follow(asyncio.run(Nodes(api, 1.0).poll(aws, ARN)))
    return {item["metadata"]["name"] for item in api.all("apiextensions.k8s.io/v1", "CustomResourceDefinition")}


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"AutoScaling": {"Mode": "Disable"}},
        {"AutoScaling": {"Mode": "Enable"}, "Orchestrator": {"Eks": {"ClusterArn": f"{ARN}-2"}}},
    ],
)
def test_without_autoscaling_there_are_none(api: Api, cluster: Json) -> None:
    assert follow(api, **cluster) == set()


def test_they_come_with_autoscaling_and_stay(api: Api) -> None:
    both = {definition["metadata"]["name"] for definition in definitions()}
    assert both == {"nodepools.karpenter.sh", "hyperpodnodeclasses.karpenter.sagemaker.amazonaws.com"}
    assert follow(api, AutoScaling={"Mode": "Enable"}) == both
    assert follow(api, AutoScaling={"Mode": "Enable"}) == both
    assert follow(api) == both


def rendered() -> dict[str, Json]:
    """What the variant with a group from 0 renders."""
    settings = load("everything", folder=VARIANTS).settings
    plan = Plan(name="everything", settings=Environment.model_validate(settings.model_dump()))
    made = k8s.platform_manifests(plan, k8s.Bindings(image_uri="image"))
    return {item["kind"]: item for manifest in made for item in manifest.objects if manifest.name == "NodePools"}


def apply(api: Api, item: Json) -> Json:
    return api.create(api.kind(item["apiVersion"], item["kind"]), "", copy.deepcopy(item))


@pytest.mark.emulator
@pytest.mark.slow
def test_karpenters_own_definition_accepts_what_is_rendered(cluster: Any) -> None:
    """By the server, whose environment has what evaluates the definition's CEL rules."""
    cluster.apply(*definitions())
    cluster.apply(*rendered().values())
    assert cluster.get("nodepools.karpenter.sh", "burst")["spec"]["limits"] == {"nvidia.com/gpu": "3"}
    cluster.kubectl(
        "delete", "nodepools.karpenter.sh/burst", "hyperpodnodeclasses.karpenter.sagemaker.amazonaws.com/burst"
    )
    for definition in definitions():
        cluster.kubectl("delete", "crd", definition["metadata"]["name"])


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("NodePool", "disruption.consolidationPolicy", "Sometimes"),
        ("NodePool", "disruption.consolidateAfter", "10 minutes"),
        ("NodePool", "template.spec.expireAfter", "never"),
        ("NodePool", "template.spec.nodeClassRef", {"name": "burst"}),
        ("NodePool", "limits", {"cpu": "many"}),
        ("HyperpodNodeClass", "instanceGroups", []),
    ],
)
def test_it_refuses_what_karpenter_would(api: Api, kind: str, path: str, value: object) -> None:
    follow(api, AutoScaling={"Mode": "Enable"})
    item = rendered()[kind]
    *way, last = path.split(".")
    here = item["spec"]
    for step in way:
        here = here[step]
    here[last] = value
    with pytest.raises(ApiError) as caught:
        apply(api, item)
    assert caught.value.code == 422

"""The requests that the rules judge are the ones that the templates make."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core import Plan, environment_names, load, requests
from tests.stacks.assembled import Assembly


def agrees(judged: Any, made: Any) -> bool:
    """Whether everything judged stands in the template; references stand for ids there."""
    if isinstance(judged, dict):
        return isinstance(made, dict) and all(key in made and agrees(judged[key], made[key]) for key in judged)
    if isinstance(judged, list):
        return isinstance(made, list) and len(judged) == len(made) and all(map(agrees, judged, made))
    return bool(judged == made)


@pytest.mark.parametrize("name", environment_names())
def test_of_the_cluster(name: str, assemblies: dict[str, Assembly]) -> None:
    judged = requests.create_cluster(Plan(name=name, settings=load(name).settings))
    (made,) = [r["Properties"] for r in assemblies[name].of_type("AWS::SageMaker::Cluster").values()]
    for group in judged["InstanceGroups"]:
        group.pop("InstanceStorageConfigs", None)  # the template has the root volume beside it
    assert agrees(judged, made)
    optional = ("MinInstanceCount", "CapacityRequirements", "TrainingPlanArn", "OnStartDeepHealthChecks",
                "ScheduledUpdateConfig", "AutoPatchConfig", "ImageId", "ImageReleaseVersion",
                "NetworkInterface")  # fmt: skip
    for ours, theirs in zip(judged["InstanceGroups"], made["InstanceGroups"], strict=True):
        assert {member for member in optional if member in theirs} <= set(ours)
    assert ("AutoScaling" in made) == ("AutoScaling" in judged)


@pytest.mark.parametrize("name", environment_names())
def test_of_the_file_system(name: str, assemblies: dict[str, Assembly]) -> None:
    made = [r["Properties"] for r in assemblies[name].of_type("AWS::FSx::FileSystem").values()]
    judged = requests.create_file_system(Plan(name=name, settings=load(name).settings))
    for properties in made:
        assert judged
        assert len(properties["SubnetIds"]) == len(judged.pop("SubnetIds"))
        assert agrees(judged, properties), (judged, properties)

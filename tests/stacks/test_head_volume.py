"""A head's state on a volume: the driver, its rights, and the order in which they go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyperpod_ray.core import needs
from hyperpod_ray.core.loader import FOLDER, load_any
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.reachable_helpers import World
from tests.support.iam import Request, allows

NAME = "head-fault-tolerance"
EXAMPLES = FOLDER / "examples"
ENVIRONMENT = "hyperpod-ray:environment"
EC2 = "arn:aws:ec2:us-west-2:111122223333"


@pytest.fixture(scope="module")
def world() -> World:
    return World(load_any(NAME, folder=EXAMPLES).plan, synthesize(NAME, folder=EXAMPLES))


@pytest.fixture(scope="module")
def driver(world: World) -> dict[str, Any]:
    (properties_of_driver,) = [
        properties
        for _, properties in world.resolved("AWS::EKS::Addon")
        if properties["AddonName"] == "aws-ebs-csi-driver"
    ]
    return properties_of_driver


def test_its_controller_keeps_off_accelerated_nodes(driver: dict[str, Any]) -> None:
    controller = json.loads(driver["ConfigurationValues"])["controller"]
    assert controller["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "head"}
    assert "AddonVersion" not in driver, "EKS chooses it, as of the other add-ons"


def test_an_environment_that_does_not_ask_has_none(assembly: Assembly) -> None:
    text = json.dumps([assembly.of_type(type_) for type_ in ("AWS::EKS::Addon", "AWS::IAM::Policy")])
    assert "ebs-csi" not in text
    assert "ClusterNodeVolume" not in text
    assert assembly.of_type("Custom::VolumesOfClaims") == {}


def test_its_controller_alone_takes_the_role(world: World) -> None:
    account = "system:serviceaccount:kube-system:ebs-csi-controller-sa"
    trusts = [json.dumps(trust) for trust in world.assembly.of_type("Custom::AWSCDKCfnJson").values()]
    assert len([trust for trust in trusts if account in trust and "sts.amazonaws.com" in trust]) == 1


def may(world: World, driver: dict[str, Any], action: str, resource: str, **context: str) -> bool:
    keys: dict[str, str | list[str]] = {key.replace("__", ":"): value for key, value in context.items()}
    statements = world.permissions(driver["ServiceAccountRoleArn"])
    return allows(statements, Request(action=action, resource=resource, context=keys))


def test_its_role_may_do_what_the_catalogue_says(world: World, driver: dict[str, Any]) -> None:
    """pkg/cloud/cloud.go of the driver, and `head_volume_calls`."""
    (cluster,) = [world.references.arn(*key.split("/")) for key in world.assembly.of_type("AWS::SageMaker::Cluster")]
    (eks,) = [world.references.arn(*key.split("/")) for key in world.assembly.of_type("AWS::EKS::Cluster")]
    resources = {
        "*": ["*"], "volume": [f"{EC2}:volume/vol-0"], "hyperpod-cluster": [cluster], "eks-cluster": [eks],
    }  # fmt: skip
    statements = world.permissions(driver["ServiceAccountRoleArn"])
    context: dict[str, str | list[str]] = {
        f"aws:ResourceTag/{ENVIRONMENT}": NAME,
        f"aws:RequestTag/{ENVIRONMENT}": NAME,
        "ec2:CreateAction": "CreateVolume",
    }
    judged = 0
    for call in needs.calls(world.plan):
        if call.role == "ebs-csi" and call.resource in resources:
            for action in call.actions:
                for resource in resources[call.resource]:
                    assert allows(statements, Request(action=action, resource=resource, context=context)), action
                    judged += 1
    assert judged >= 14


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("ec2:DeleteVolume", f"{EC2}:volume/vol-0"),
        ("ec2:AttachVolume", f"{EC2}:volume/vol-0"),
        ("ec2:CreateVolume", f"{EC2}:volume/*"),
        ("ec2:CreateTags", f"{EC2}:volume/vol-0"),
    ],
)
def test_it_touches_no_volume_of_others(world: World, driver: dict[str, Any], action: str, resource: str) -> None:
    statements = world.permissions(driver["ServiceAccountRoleArn"])
    for environment in ("prod", ""):
        keys = (
            {f"aws:{origin}Tag/{ENVIRONMENT}": environment for origin in ("Request", "Resource")} if environment else {}
        )
        context: dict[str, str | list[str]] = {**keys, "ec2:CreateAction": "CreateVolume"}
        assert not allows(statements, Request(action=action, resource=resource, context=context))


def test_it_tags_a_volume_only_as_it_makes_it(world: World, driver: dict[str, Any]) -> None:
    statements = world.permissions(driver["ServiceAccountRoleArn"])
    context: dict[str, str | list[str]] = {f"aws:RequestTag/{ENVIRONMENT}": NAME}
    asked = Request(action="ec2:CreateTags", resource=f"{EC2}:volume/vol-0", context=context)
    assert not allows(statements, asked), "the tag is what its rights hang on"


def test_it_attaches_to_nodes_of_this_cluster_alone(world: World, driver: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-ebs.html"""
    other = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abcdefghijkl"
    for action in ("sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume"):
        assert not may(world, driver, action, other)
    for resource in (f"{EC2}:instance/i-0", "*"):
        assert not may(world, driver, "ec2:AttachVolume", resource)
    assert not may(world, driver, "eks:DescribeCluster", "arn:aws:eks:us-west-2:111122223333:cluster/other")
    for action in ("ec2:ModifyVolume", "ec2:CreateSnapshot", "ec2:DeleteSnapshot", "kms:CreateGrant"):
        assert not may(world, driver, action, "*")


def test_on_destroy_the_volume_goes_before_its_driver(world: World) -> None:
    """The RayCluster's manifest depends on the guard, which waits; the add-on is of a stack that goes later."""
    ((guard_key, _),) = world.assembly.of_type("Custom::VolumesOfClaims").items()
    stack, _, guard = guard_key.partition("/")
    assert "Ray" in stack
    manifests = world.assembly.of_type("Custom::AWSCDK-EKS-KubernetesResource")
    (ray,) = [resource for resource in manifests.values() if '\\"kind\\":\\"RayCluster\\"' in json.dumps(resource)]
    assert guard in ray["DependsOn"]
    ((driver_key, addon),) = [
        (key, resource)
        for key, resource in world.assembly.of_type("AWS::EKS::Addon").items()
        if resource["Properties"]["AddonName"] == "aws-ebs-csi-driver"
    ]
    assert "Platform" in driver_key.partition("/")[0]
    assert any("EbsCsi" in name and "Role" in name for name in addon["DependsOn"])

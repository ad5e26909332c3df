"""What a project's own stacks get of an environment, and what they may add to its cluster. docs/extend.md"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions

from hyperpod_ray import core
from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.stacks.environment import EnvironmentStage
from tests.stacks.assembled import PROJECT


def built(name: str, folder: Path) -> EnvironmentStage:
    return EnvironmentStage(cdk.App(), plan=core.load_any(name, folder=folder).plan, project=PROJECT)


@pytest.fixture(scope="module")
def eks() -> Iterator[EnvironmentStage]:
    yield built("dev", FOLDER)


@pytest.fixture(scope="module")
def slurm() -> Iterator[EnvironmentStage]:
    yield built("slurm", FOLDER / "examples")


def type_of(construct: Any, attribute: str) -> str:
    """CloudFormation type of the resource that an attribute is of."""
    stack = cdk.Stack.of(construct)
    resolved = stack.resolve(attribute)
    logical_id = resolved["Ref"] if "Ref" in resolved else resolved["Fn::GetAtt"][0]
    (resource,) = [child for child in resources(stack) if stack.resolve(child.logical_id) == logical_id]
    return str(resource.cfn_resource_type)


def resources(of: Any) -> list[Any]:
    return [child for child in of.node.find_all() if cdk.CfnResource.is_cfn_resource(child)]


def test_what_your_own_stacks_refer_to(eks: EnvironmentStage) -> None:
    vpc, group, role, topic = eks.vpc, eks.node_security_group, eks.node_role, eks.alarm_topic
    assert type_of(vpc, vpc.vpc_id) == "AWS::EC2::VPC"
    assert type_of(group, group.security_group_id) == "AWS::EC2::SecurityGroup"
    assert type_of(role, role.role_name) == "AWS::IAM::Role"
    assert type_of(topic, topic.topic_arn) == "AWS::SNS::Topic"
    assert eks.lifecycle_bucket is not None and eks.repository is not None and eks.eks_cluster is not None
    assert type_of(eks.lifecycle_bucket, eks.lifecycle_bucket.bucket_name) == "AWS::S3::Bucket"
    assert type_of(eks.repository, eks.repository.repository_name) == "AWS::ECR::Repository"
    assert type_of(eks.hyperpod, eks.cluster_arn) == "AWS::SageMaker::Cluster"
    zones = eks.plan.settings.network.availability_zone_ids
    assert sorted(eks.node_subnets) == sorted(zones)
    assert {type_of(subnet, subnet.subnet_id) for subnet in eks.node_subnets.values()} == {"AWS::EC2::Subnet"}
    assert eks.namespaces == ["ray"]


def test_on_slurm_there_is_no_cluster_of_kubernetes(slurm: EnvironmentStage) -> None:
    assert slurm.eks_cluster is None
    assert slurm.namespaces == []
    assert type_of(slurm.hyperpod, slurm.cluster_arn) == "AWS::SageMaker::Cluster"
    own = cdk.Stack(slurm, "Company")
    for add, refused in (
        (lambda: slurm.add_manifests(own, "Mine", []), "add_manifests: 'slurm' has no control plane"),
        (
            lambda: slurm.add_chart(own, "Chart", lock="x", key="x", namespace="x"),
            "add_chart: 'slurm' has no control plane",
        ),
    ):
        with pytest.raises(ValueError, match=refused):
            add()


def test_objects_of_your_own_are_applied_one_after_the_other(eks: EnvironmentStage) -> None:
    own = cdk.Stack(eks, "Objects")
    objects = [{"kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]
    manifests = eks.add_manifests(own, "Mine", objects)
    names = sorted(str(own.resolve(child.logical_id)) for child in resources(manifests))
    assert len(names) == 2 and "ConfigMapa" in names[0] and "ConfigMapb" in names[1]
    assert eks.platform in own.dependencies, "namespaces, drivers and operators come first"


def test_what_a_stack_of_your_own_gives_cloudformation() -> None:
    """An object comes after those before it, and Helm makes a namespace that is not there."""
    stage = built("dev", FOLDER)
    own = cdk.Stack(stage, "Company")
    names = ("a", "b", "c")
    stage.add_manifests(own, "Mine", [{"kind": "ConfigMap", "metadata": {"name": name}} for name in names])
    lock = "hyperpod_ray/locks/charts.lock.yaml"
    stage.add_chart(own, "Chart", lock=lock, key="kuberay-operator", namespace="mine")
    template = assertions.Template.from_stack(own)
    applied = template.find_resources("Custom::AWSCDK-EKS-KubernetesResource")
    ids = [next(key for key, each in applied.items() if f'"name":"{name}"' in str(each)) for name in names]
    assert ids[0] in applied[ids[1]]["DependsOn"] and ids[1] in applied[ids[2]]["DependsOn"]
    (chart,) = template.find_resources("Custom::AWSCDK-EKS-HelmChart").values()
    assert (chart["Properties"]["Namespace"], chart["Properties"]["CreateNamespace"]) == ("mine", True)


@pytest.mark.parametrize(
    "wrong", [{"metadata": {"name": "a"}}, {"kind": "ConfigMap"}, {"kind": "ConfigMap", "metadata": None}, {}]
)
def test_an_object_without_a_name_is_refused(eks: EnvironmentStage, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Expected an object with kind and metadata\.name"):
        eks.add_manifests(cdk.Stack(eks, f"Wrong{len(str(wrong))}"), "Mine", [wrong])


def test_a_chart_that_the_lock_does_not_have_is_refused(eks: EnvironmentStage) -> None:
    lock = "hyperpod_ray/locks/charts.lock.yaml"
    with pytest.raises(ChartError) as refused:
        eks.add_chart(cdk.Stack(eks, "Charts"), "Chart", lock=lock, key="nobodys", namespace="x")
    assert refused.value.what == f"{lock}: charts.nobodys: missing"
    assert refused.value.expected.startswith("one of ") and "kuberay-operator" in refused.value.expected
    assert refused.value.fix == "correct the name, or add the chart to the lock"

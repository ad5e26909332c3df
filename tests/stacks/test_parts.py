"""Which stacks a Stage has is said by its orchestrator's module: a third one is registered here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import assertions

from hyperpod_ray import core
from hyperpod_ray.core import orchestrators as registry
from hyperpod_ray.stacks.base import EnvironmentStack
from hyperpod_ray.stacks.environment import EnvironmentStage
from hyperpod_ray.stacks.parts import Parts
from tests.ops.kuberay import KubeRayEnvironment, KubeRayPlan

PROJECT = Path(__file__).resolve().parents[2]
EXISTING_LUSTRE = {
    "existing": {"file_system_id": "fs-0123456789abcdef0", "mount_name": "fsx", "availability_zone_id": "usw2-az2"}
}


def test_a_third_orchestrator_builds_its_own_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = registry.Orchestrator(
        settings=KubeRayEnvironment, plan=KubeRayPlan, stacks="tests.ops.kuberay.stacks", operations="tests.ops.kuberay"
    )
    monkeypatch.setitem(registry.ORCHESTRATORS, "kuberay", line)
    text = (PROJECT / "environments" / "examples" / "existing-cluster.yaml").read_text("utf-8")
    (tmp_path / "third.yaml").write_text(f"orchestrator: kuberay\n{text}")
    stage = EnvironmentStage(cdk.App(), plan=core.load_any("third", folder=tmp_path).plan, project=PROJECT)
    assert [child.node.id for child in stage.node.children] == ["Network"]
    assert stage.namespaces == ["ray"]
    assert stage.eks_cluster is None
    with pytest.raises(ValueError, match="no control plane"):
        stage.add_manifests(stage.network, "Mine", [])


def parts_of(settings: dict[str, Any], folder: Path) -> Parts:
    """The network of an environment, and what a test adds to it: no other stack is synthesized."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return Parts(cdk.App(), plan=core.load_any("mine", folder=folder).plan, project=PROJECT)


def resources(stack: cdk.Stack, of: str) -> list[dict[str, Any]]:
    """Properties of a stack's resources of one type."""
    found = assertions.Template.from_stack(stack).find_resources(of).values()
    return [dict(resource["Properties"]) for resource in found]


def test_each_file_system_is_in_the_zone_of_the_nodes_that_train(tmp_path: Path) -> None:
    """Traffic between zones is charged, and slower: https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance.html"""
    settings = yaml.safe_load((PROJECT / "environments" / "examples" / "slurm-homes.yaml").read_text("utf-8"))
    (workers,) = (each for each in settings["hyperpod"]["instance_groups"] if each["slurm"]["role"] == "compute")
    second = workers["availability_zone_id"] = settings["network"]["availability_zone_ids"][1]
    stage = parts_of(settings, tmp_path)
    stage.add_file_system()
    assert stage.storage is not None
    file_systems = resources(stage.storage, "AWS::FSx::FileSystem")
    network = assertions.Template.from_stack(stage.network).to_json()
    subnets = {output["Export"]["Name"]: output["Value"].get("Ref", "") for output in network["Outputs"].values()}
    zones = {}
    for file_system in file_systems:
        (subnet,) = file_system["SubnetIds"]
        resource = network["Resources"][subnets[subnet["Fn::ImportValue"]]]
        zones[file_system["FileSystemType"]] = resource["Properties"]["AvailabilityZoneId"]
    assert zones == {"LUSTRE": second, "OPENZFS": second}


def test_a_build_that_needs_nothing_else_runs_inside_the_vpc_all_the_same(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/codebuild/latest/userguide/vpc-support.html: without VpcConfig it runs outside."""
    settings = yaml.safe_load((PROJECT / "environments" / "dev.yaml").read_text("utf-8"))
    inside = {}
    for in_vpc in (False, True):
        folder = tmp_path / str(in_vpc)
        folder.mkdir()
        stage = parts_of({**settings, "image": {"in_vpc": in_vpc}}, folder)
        way_out = EnvironmentStack(stage, "WayOut", plan=stage.plan, description="routes to the internet")
        image = stage.add_image(way_out=way_out)
        assert image is not None
        assert (way_out in image.dependencies) is in_vpc, "before there is a route, the build fails"
        (project,) = resources(image, "AWS::CodeBuild::Project")
        inside[in_vpc] = len(project.get("VpcConfig", {}).get("Subnets", []))
    assert inside == {False: 0, True: len(settings["network"]["availability_zone_ids"])}


def test_a_base_of_another_region_is_pulled_from_there(tmp_path: Path) -> None:
    """A token of Amazon ECR and the ARN of a repository are of the registry's own Region.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html
    """
    settings = yaml.safe_load((PROJECT / "environments" / "dev.yaml").read_text("utf-8"))
    registry = "444455556666.dkr.ecr.eu-west-1.amazonaws.com"
    stage = parts_of({**settings, "image": {"base": f"{registry}/copies/ray@sha256:{'0' * 64}"}}, tmp_path)
    image = stage.add_image(way_out=stage.network)
    assert image is not None and settings["region"] != "eu-west-1"
    rows = [row for policy in resources(image, "AWS::IAM::Policy") for row in policy["PolicyDocument"]["Statement"]]
    pulls = [
        row["Resource"] for row in rows if "ecr:BatchGetImage" in row["Action"] and isinstance(row["Resource"], str)
    ]
    assert pulls == ["arn:aws:ecr:eu-west-1:444455556666:repository/copies/ray"]
    (project,) = resources(image, "AWS::CodeBuild::Project")
    commands = str(project["Source"]["BuildSpec"])
    assert "get-login-password --region eu-west-1" in commands and registry in commands


def test_each_link_to_s3_is_as_the_file_has_it(tmp_path: Path) -> None:
    """No two links agree in a member, so that none can stand for another one's.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-datarepositoryassociation.html
    """
    settings = yaml.safe_load((PROJECT / "environments" / "examples" / "data-in-s3.yaml").read_text("utf-8"))
    settings["storage"]["data_repositories"] = [
        {"bucket": "first", "prefix": "a/", "path": "/one", "import_metadata": False, "auto_import": ["NEW"]},
        {"bucket": "second", "path": "/two", "auto_import": [], "auto_export": ["CHANGED", "DELETED"]},
    ]
    stage = parts_of(settings, tmp_path)
    stage.add_file_system()
    assert stage.storage is not None
    links = {link["FileSystemPath"]: link for link in resources(stage.storage, "AWS::FSx::DataRepositoryAssociation")}
    assert {path: link["DataRepositoryPath"] for path, link in links.items()} == {
        "/one": "s3://first/a/", "/two": "s3://second/",
    }  # fmt: skip
    assert {path: link["BatchImportMetaDataOnCreate"] for path, link in links.items()} == {"/one": False, "/two": True}
    events = {
        path: [link["S3"][f"Auto{way}Policy"]["Events"] for way in ("Import", "Export")] for path, link in links.items()
    }
    assert events == {"/one": [["NEW"], []], "/two": [[], ["CHANGED", "DELETED"]]}


@pytest.mark.parametrize(
    ("storage", "homes", "types"),
    [
        ({}, {"capacity_gib": 256}, ["LUSTRE", "OPENZFS"]),
        (EXISTING_LUSTRE, {"capacity_gib": 256}, ["OPENZFS"]),
        ({}, None, ["LUSTRE"]),
        (EXISTING_LUSTRE, None, []),
    ],
)
def test_either_file_system_may_be_there_already(
    storage: dict[str, Any], homes: dict[str, Any] | None, types: list[str], tmp_path: Path
) -> None:
    settings = yaml.safe_load((PROJECT / "environments" / "examples" / "slurm.yaml").read_text("utf-8"))
    stage = parts_of({**settings, "storage": storage, "homes": homes}, tmp_path)
    stage.add_file_system()
    file_systems = resources(stage.storage, "AWS::FSx::FileSystem") if stage.storage is not None else []
    assert sorted(properties["FileSystemType"] for properties in file_systems) == types

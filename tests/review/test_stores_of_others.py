"""Changes in stacks that somebody else's project adds: nothing that deletes data, nodes or a cluster is called safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import review
from tests.review.small import resources, write

Json = dict[str, Any]
ROLE = "arn:aws:iam::999988887777:role/zug"
EKS = "arn:aws:eks:eu-central-1:999988887777:cluster/zug"


def of(form: str, policy: str = "", **properties: Any) -> Json:
    kept = {"DeletionPolicy": policy, "UpdateReplacePolicy": policy} if policy else {}
    return {"Type": f"AWS::{form}", "Properties": properties, **kept}


def lustre(**properties: Any) -> Json:
    usual: Json = {
        "FileSystemType": "LUSTRE", "StorageCapacity": 4800, "SubnetIds": ["subnet-1"],
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    }  # fmt: skip
    return of("FSx::FileSystem", **(usual | properties))


def group(name: str = "gpu", form: str = "ml.p4d.24xlarge", count: int = 4) -> Json:
    script = {"SourceS3Uri": "s3://zug/life", "OnCreate": "run.sh"}
    return {
        "InstanceGroupName": name, "InstanceType": form, "InstanceCount": count, "ExecutionRole": ROLE,
        "LifeCycleConfig": script,
    }  # fmt: skip


def cluster(*groups: Json, **properties: Any) -> Json:
    usual: Json = {
        "ClusterName": "zurich", "InstanceGroups": list(groups) or [group()],
        "Orchestrator": {"Eks": {"ClusterArn": EKS}},
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
    }  # fmt: skip
    return of("SageMaker::Cluster", **(usual | properties))


def eks(**properties: Any) -> Json:
    usual: Json = {"RoleArn": ROLE, "ResourcesVpcConfig": {"SubnetIds": ["subnet-1", "subnet-2"]}}
    return of("EKS::Cluster", **(usual | properties))


# each with what CloudFormation's page of the type says of the property
PAIRS: dict[str, tuple[Json, Json | None, str]] = {
    "a file system in another subnet": (lustre(), lustre(SubnetIds=["subnet-2"]), "loses-data"),
    "a file system of another key": (lustre(), lustre(KmsKeyId="arn:aws:kms:eu-central-1:1:key/1"), "loses-data"),
    "a file system of scratch": (lustre(), lustre(LustreConfiguration={"DeploymentType": "SCRATCH_2"}), "loses-data"),
    "a file system that goes": (lustre(), None, "loses-data"),
    "files encrypted": (of("EFS::FileSystem"), of("EFS::FileSystem", Encrypted=True), "loses-data"),
    "files that go": (of("EFS::FileSystem"), None, "loses-data"),
    "files that stay": (of("EFS::FileSystem", policy="Retain"), None, "interrupts"),
    "a bucket renamed": (of("S3::Bucket", BucketName="zug"), of("S3::Bucket", BucketName="bern"), "loses-data"),
    "a table renamed": (of("DynamoDB::Table", TableName="a"), of("DynamoDB::Table", TableName="b"), "loses-data"),
    "a database that goes": (of("RDS::DBInstance", Engine="postgres"), None, "loses-data"),
    "a database with a snapshot": (of("RDS::DBInstance", policy="Snapshot", Engine="postgres"), None, "interrupts"),
    "a tracking server that goes": (of("SageMaker::MlflowTrackingServer", RoleArn=ROLE), None, "loses-data"),
    "images that go": (of("ECR::Repository", EmptyOnDelete=True), None, "loses-data"),
    "log events that go": (of("Logs::LogGroup", LogGroupName="/zug"), None, "loses-data"),
    "a key that goes": (of("KMS::Key", KeyPolicy={}), None, "loses-data"),
    "a secret renamed": (
        of("SecretsManager::Secret", Name="zug/hub"), of("SecretsManager::Secret", Name="bern/hub"), "loses-data",
    ),
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-volume.html
    "a volume in another zone": (
        of("EC2::Volume", AvailabilityZone="eu-central-1a", Size=100),
        of("EC2::Volume", AvailabilityZone="eu-central-1b", Size=100), "rejected",
    ),
    "a larger volume": (
        of("EC2::Volume", AvailabilityZone="eu-central-1a", Size=100),
        of("EC2::Volume", AvailabilityZone="eu-central-1a", Size=200), "safe",
    ),
    "a cluster renamed": (cluster(), cluster(ClusterName="bern"), "loses-nodes"),
    "a cluster in another subnet": (
        cluster(), cluster(VpcConfig={"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-9"]}), "rejected",
    ),
    "a group that goes": (cluster(group(), group("cpu", "ml.m5.4xlarge")), cluster(group()), "loses-nodes"),
    "a group of another type": (cluster(), cluster(group(form="ml.p5.48xlarge")), "loses-nodes"),
    "a group renamed": (cluster(), cluster(group("gpus")), "loses-nodes"),
    "a smaller group": (cluster(), cluster(group(count=2)), "loses-nodes"),
    "a control plane renamed": (eks(Name="zug"), eks(Name="bern"), "loses-nodes"),
    "a control plane that goes": (eks(), None, "loses-nodes"),
    "a NAT gateway that goes": (of("EC2::NatGateway", SubnetId="subnet-1"), None, "interrupts"),
    "a subnet of another range": (
        of("EC2::Subnet", VpcId="vpc-1", CidrBlock="10.0.0.0/20"),
        of("EC2::Subnet", VpcId="vpc-1", CidrBlock="10.0.64.0/20"), "interrupts",
    ),
    "a type that nobody has seen": (of("IoT::Thing", ThingName="a"), None, "interrupts"),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_change_in_somebody_elses_stack(name: str, tmp_path: Path) -> None:
    before, after, effect = PAIRS[name]
    stays = of("SNS::Topic")
    sides = ({"Thing": before, "Stays": stays}, {**({"Thing": after} if after else {}), "Stays": stays})
    folders = [
        write(tmp_path / side, {"Zug": resources(**items)}) for side, items in zip(("a", "b"), sides, strict=True)
    ]
    (environment,) = review(*folders).environments
    assert environment.effect.code == effect, environment.rows
    codes = {row.code for row in environment.rows}
    assert effect != "rejected" or "in-place" not in codes, "what is refused is not updated"
    assert (environment.effect > Effect.SAFE) is (name != "a larger volume")


OTHERS: dict[str, Json] = yaml.safe_load((Path(__file__).parent / "others.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OTHERS)
def test_a_resource_of_somebody_else_changes(name: str, tmp_path: Path) -> None:
    case = OTHERS[name]
    stay = {"Topic": of("SNS::Topic"), "Other": of("SNS::Topic")}
    folders = [
        write(tmp_path / side, {"Zug": resources(**stay, **({"Thing": case[side]} if case[side] else {}))})
        for side in ("before", "after")
    ]
    (environment,) = review(*folders).environments
    least, most = (Effect.of(str(case.get(name, case["verdict"]))) for name in ("verdict", "most"))
    assert least <= environment.effect <= most, [*environment.rows, *environment.remarks]

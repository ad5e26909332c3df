"""The embedded AWS refuses the list that `hyperpod-ray env check` refuses, in the words of the rule."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import botocore.exceptions
import pytest

from hyperpod_ray.core import requests
from hyperpod_ray_rules import eks, fsx, hyperpod
from tests.service_rules.cases import (
    ACCOUNT,
    FSX,
    FSX_OF_NO_FILE,
    HYPERPOD,
    OF_NO_FILE,
    SLURM,
    Case,
    cluster_request,
    plan_of,
    slurm_request,
)
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
WHERE = hyperpod.Where(region="us-west-2", account=ACCOUNT)


def refusal(call: Any, **request: Any) -> tuple[str, str]:
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**request)
    return str(error.value.response["Error"]["Code"]), str(error.value.response["Error"]["Message"])


@pytest.mark.parametrize("case", HYPERPOD, ids=lambda c: c.rule)
def test_hyperpod_refuses(case: Case, emulator: Emulator) -> None:
    request = cluster_request(case.refused)
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert first.rule == case.rule
    assert refusal(emulator.boto("sagemaker").create_cluster, **request) == ("ValidationException", first.message)


@pytest.mark.parametrize("rule", OF_NO_FILE)
def test_hyperpod_refuses_what_no_file_says(rule: str, emulator: Emulator) -> None:
    request = OF_NO_FILE[rule](cluster_request({}))
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert refusal(emulator.boto("sagemaker").create_cluster, **request)[1] == first.message


@pytest.mark.parametrize("case", [c for c in HYPERPOD if c.accepted], ids=lambda c: c.rule)
def test_hyperpod_accepts_the_nearest(case: Case, emulator: Emulator) -> None:
    """As far as the cluster that orchestrates it, which is not there."""
    code, message = refusal(emulator.boto("sagemaker").create_cluster, **cluster_request(case.accepted))
    assert (code, message.endswith("cluster/none does not exist")) == ("ValidationException", True)


@pytest.mark.parametrize(("rule", "change"), SLURM, ids=lambda value: value if isinstance(value, str) else "")
def test_hyperpod_refuses_on_slurm(rule: str, change: Callable[[Any], Any], emulator: Emulator) -> None:
    request = change(slurm_request())
    (first, *_) = hyperpod.create_cluster(request, WHERE)
    assert first.rule == rule
    assert refusal(emulator.boto("sagemaker").create_cluster, **request) == ("ValidationException", first.message)


@pytest.fixture
def subnets(emulator: Emulator) -> Iterator[list[str]]:
    ec2 = emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZoneId=f"usw2-az{number}")["Subnet"][
            "SubnetId"
        ]
        for number in (1, 2)
    ]
    yield made
    for subnet in made:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


@pytest.fixture
def mounted(emulator: Emulator, subnets: list[str]) -> Iterator[dict[str, Any]]:
    """A good request of a cluster on Slurm, with the network and the file system that it names."""
    ec2, fsx_api = emulator.boto("ec2"), emulator.boto("fsx")
    vpc = ec2.describe_subnets(SubnetIds=subnets[:1])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName=f"g-{uuid.uuid4().hex[:6]}", Description="nodes", VpcId=vpc)["GroupId"]
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    file_system = fsx_api.create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=subnets[:1], LustreConfiguration=lustre
    )["FileSystem"]
    until(lambda: fsx_api.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "AVAILABLE")
    mount = {"DnsName": file_system["DNSName"], "MountName": file_system["LustreConfiguration"]["MountName"]}
    request = slurm_request()
    for one in request["InstanceGroups"]:
        one["InstanceStorageConfigs"] = [{"FsxLustreConfig": {**mount, "MountPath": "/fsx"}}]
    name = f"slurm-{uuid.uuid4().hex[:6]}"
    yield {**request, "ClusterName": name, "VpcConfig": {"SecurityGroupIds": [group], "Subnets": subnets[:1]}}
    fsx_api.delete_file_system(FileSystemId=file_system["FileSystemId"])
    until(lambda: not fsx_api.describe_file_systems()["FileSystems"])
    ec2.delete_security_group(GroupId=group)


def test_a_file_system_is_within_reach_of_the_nodes_that_mount_it(mounted: dict[str, Any], emulator: Emulator) -> None:
    api, ec2 = emulator.boto("sagemaker"), emulator.boto("ec2")
    (mount,) = mounted["InstanceGroups"][2]["InstanceStorageConfigs"]

    def with_mount(**changed: str) -> dict[str, Any]:
        last = {
            **mounted["InstanceGroups"][2],
            "InstanceStorageConfigs": [{"FsxLustreConfig": {**mount["FsxLustreConfig"], **changed}}],
        }
        return {**mounted, "InstanceGroups": [*mounted["InstanceGroups"][:2], last]}

    wrong = [
        ({"DnsName": "fs-00000000000000000.fsx.us-west-2.amazonaws.com"}, "no LUSTRE file system has fs-0000"),
        ({"MountName": "other"}, "the mount name of fs-"),
    ]
    for changed, words in wrong:
        code, message = refusal(api.create_cluster, **with_mount(**changed))
        assert (code, words in message, "instance group workers" in message) == ("ValidationException", True, True)
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.1.0/24")["Subnet"]["SubnetId"]
    try:
        elsewhere = {**mounted, "VpcConfig": {**mounted["VpcConfig"], "Subnets": [subnet]}}
        assert f"and {subnet} is in {vpc}" in refusal(api.create_cluster, **elsewhere)[1]
    finally:
        ec2.delete_subnet(SubnetId=subnet)
        ec2.delete_vpc(VpcId=vpc)


def test_a_cluster_on_slurm_is_made_and_changed_by_the_same_rules(mounted: dict[str, Any], emulator: Emulator) -> None:
    api, name = emulator.boto("sagemaker"), mounted["ClusterName"]
    api.create_cluster(**mounted)

    def update(*groups: dict[str, Any]) -> dict[str, Any]:
        return {"ClusterName": name, "InstanceGroups": list(groups)}

    try:
        until(lambda: api.describe_cluster(ClusterName=name)["ClusterStatus"] == "InService")
        controller, _, workers = mounted["InstanceGroups"]
        assert "has exactly one" in refusal(api.update_cluster, **update({**controller, "InstanceCount": 2}))[1]
        second = {**controller, "InstanceGroupName": "second"}
        assert "second group of NodeType Controller" in refusal(api.update_cluster, **update(second))[1]
        gone = {"ClusterName": name, "InstanceGroupsToDelete": ["controller"], "InstanceGroups": [workers]}
        assert "No instance group is of NodeType Controller" in refusal(api.update_cluster, **gone)[1]
        lustre = {"DnsName": "fs-11111111.fsx.us-west-2.amazonaws.com", "MountName": "a", "MountPath": "/fsx"}
        other = {**workers, "InstanceGroupName": "more", "InstanceStorageConfigs": [{"FsxLustreConfig": lustre}]}
        assert "no LUSTRE file system has fs-11111111" in refusal(api.update_cluster, **update(other))[1]
        api.update_cluster(**update({**workers, "InstanceCount": 5}))
    finally:
        until(lambda: api.describe_cluster(ClusterName=name)["ClusterStatus"] == "InService")
        api.delete_cluster(ClusterName=name)
        until(lambda: name not in [summary["ClusterName"] for summary in api.list_clusters()["ClusterSummaries"]])


def test_an_orchestrator_of_an_unsupported_version(emulator: Emulator, subnets: list[str]) -> None:
    api, name = emulator.boto("eks"), f"old-{uuid.uuid4().hex[:6]}"
    config = {"subnetIds": subnets}
    role = roles.cluster_role(emulator.boto("iam"))
    arn = api.create_cluster(name=name, version="1.29", roleArn=role, resourcesVpcConfig=config)["cluster"]["arn"]
    try:
        request = {**cluster_request({}), "Orchestrator": {"Eks": {"ClusterArn": arn}}}
        (found,) = hyperpod.orchestrator_version("1.29")
        assert refusal(emulator.boto("sagemaker").create_cluster, **request) == ("ValidationException", found.message)
    finally:
        until(lambda: api.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
        api.delete_cluster(name=name)


@pytest.mark.parametrize("cidrs", [["10.0.0.0/8"], ["20.0.0.1/24"], [f"20.0.{n}.0/24" for n in range(41)]])
def test_eks_refuses_ranges(cidrs: list[str], emulator: Emulator, subnets: list[str]) -> None:
    config = {"subnetIds": subnets, "endpointPublicAccess": True, "publicAccessCidrs": cidrs}
    role = f"arn:aws:iam::{ACCOUNT}:role/eks"
    found = next(iter(eks.public_cidrs(cidrs)))
    answer = refusal(emulator.boto("eks").create_cluster, name="no", roleArn=role, resourcesVpcConfig=config)
    assert answer == ("InvalidParameterException", found.message)


def test_eks_needs_two_zones(emulator: Emulator, subnets: list[str]) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/eks"
    config = {"subnetIds": subnets[:1]}
    code, message = refusal(emulator.boto("eks").create_cluster, name="no", roleArn=role, resourcesVpcConfig=config)
    assert (code, message) == ("InvalidParameterException", "Subnets specified must be in at least two different AZs")


@pytest.mark.parametrize("case", FSX, ids=lambda c: str(c.refused))
def test_fsx_refuses(case: Case, emulator: Emulator) -> None:
    request = requests.create_file_system(plan_of(case.refused))
    assert request
    (first, *_) = fsx.create_file_system(request)
    assert refusal(emulator.boto("fsx").create_file_system, **request) == ("BadRequest", first.message)


@pytest.mark.parametrize("rule", FSX_OF_NO_FILE)
def test_fsx_refuses_what_no_file_says(rule: str, emulator: Emulator) -> None:
    request = {**(requests.create_file_system(plan_of({})) or {}), **FSX_OF_NO_FILE[rule]}
    (first, *_) = fsx.create_file_system(request)
    assert refusal(emulator.boto("fsx").create_file_system, **request)[1] == first.message

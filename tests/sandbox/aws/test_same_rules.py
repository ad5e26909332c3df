"""The embedded AWS refuses the list that `hyperpod-ray env check` refuses, in the words of the rule."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from core import requests
from service_rules import eks, fsx, hyperpod
from tests.service_rules.cases import (
    ACCOUNT,
    FSX,
    FSX_OF_NO_FILE,
    HYPERPOD,
    OF_NO_FILE,
    Case,
    cluster_request,
    plan_of,
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

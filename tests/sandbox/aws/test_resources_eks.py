"""EKS beside MiniStack's API: what it refuses of a cluster, and what a template adds to one."""

from __future__ import annotations

import uuid

import pytest

from hyperpod_ray_rules import eks, hyperpod
from tests.sandbox.aws.same_rules_helpers import refusal
from tests.sandbox.aws.service_roles_helpers import message
from tests.service_rules.cases import (
    ACCOUNT,
    cluster_request,
)
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


class TestEks:
    def test_a_role_that_eks_may_not_take(self, emulator: Emulator, name: str, subnets: list[str]) -> None:
        iam, eks = emulator.boto("iam"), emulator.boto("eks")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=roles.trust("ec2.amazonaws.com"))["Role"]["Arn"]
        config = {"subnetIds": subnets}
        said = message(eks.create_cluster, name=name, roleArn=role, resourcesVpcConfig=config)
        assert "could not be assumed" in said

    def test_a_role_without_its_policy(self, emulator: Emulator, name: str, subnets: list[str]) -> None:
        iam, eks = emulator.boto("iam"), emulator.boto("eks")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=roles.trust("eks.amazonaws.com"))["Role"]["Arn"]
        said = message(eks.create_cluster, name=name, roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
        assert "AmazonEKSClusterPolicy" in said


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

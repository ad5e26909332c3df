"""EKS beside MiniStack's API: what it refuses of a cluster, and what a template adds to one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from hyperpod_ray_rules import eks, hyperpod
from tests.sandbox.aws.same_rules_helpers import refusal
from tests.sandbox.aws.service_roles_helpers import message
from tests.sandbox.aws.stacks_helpers import Json, Stacks
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


@pytest.fixture
def control_plane(emulator: Emulator, subnets: list[str]) -> Iterator[str]:
    """A cluster that is active; what the test adds to it goes before it."""
    api, name = emulator.boto("eks"), f"addons-{uuid.uuid4().hex[:6]}"
    role = roles.cluster_role(emulator.boto("iam"))
    api.create_cluster(name=name, roleArn=role, resourcesVpcConfig={"subnetIds": subnets},
                       accessConfig={"authenticationMode": "API"})  # fmt: skip
    until(lambda: api.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
    yield name
    api.delete_cluster(name=name)
    until(lambda: name not in api.list_clusters()["clusters"])


def test_the_cluster_security_group_comes_and_goes_with_the_cluster(emulator: Emulator, control_plane: str) -> None:
    """It lets its members reach each other, and everything out.

    https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
    """
    ec2, api = emulator.boto("ec2"), emulator.boto("eks")
    identifier = api.describe_cluster(name=control_plane)["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    (group,) = ec2.describe_security_groups(GroupIds=[identifier])["SecurityGroups"]
    assert group["GroupName"].startswith(f"eks-cluster-sg-{control_plane}")
    (ingress,) = group["IpPermissions"]
    assert [pair["GroupId"] for pair in ingress["UserIdGroupPairs"]] == [identifier]
    (egress,) = group["IpPermissionsEgress"]
    assert [allowed["CidrIp"] for allowed in egress["IpRanges"]] == ["0.0.0.0/0"]


def test_what_a_template_adds_to_a_cluster_comes_changes_and_goes(
    emulator: Emulator, stacks: Stacks, control_plane: str
) -> None:
    """The access entry of HyperPod's nodes has a type of its own.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html
    """
    api = emulator.boto("eks")
    people, nodes, pods = (f"arn:aws:iam::{ACCOUNT}:role/{name}" for name in ("people", "nodes", "pods"))
    view, admin = (f"arn:aws:eks::aws:cluster-access-policy/AmazonEKS{name}Policy" for name in ("View", "ClusterAdmin"))

    def resources(*, policy: str, configuration: str, role: str) -> Json:
        named = {"ClusterName": control_plane}
        access = {"PolicyArn": policy, "AccessScope": {"Type": "cluster"}}
        return {
            "People": {
                "Type": "AWS::EKS::AccessEntry",
                "Properties": {**named, "PrincipalArn": people, "AccessPolicies": [access]},
            },
            "Nodes": {
                "Type": "AWS::EKS::AccessEntry",
                "Properties": {**named, "PrincipalArn": nodes, "Type": "HYPERPOD_LINUX"},
            },
            "Dns": {
                "Type": "AWS::EKS::Addon",
                "Properties": {**named, "AddonName": "coredns", "ConfigurationValues": configuration},
            },
            "Pods": {
                "Type": "AWS::EKS::PodIdentityAssociation",
                "Properties": {**named, "Namespace": "ray", "ServiceAccount": "ray", "RoleArn": role},
            },
        }

    name = stacks.create(resources(policy=view, configuration='{"replicaCount": 2}', role=pods))
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    before = stacks.ids(name)
    entry = api.describe_access_entry(clusterName=control_plane, principalArn=nodes)["accessEntry"]
    assert entry["type"] == "HYPERPOD_LINUX"
    stacks.update(name, resources(policy=admin, configuration='{"replicaCount": 3}', role=nodes))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert stacks.ids(name) == before, "each is changed in place"
    listed = api.list_associated_access_policies(clusterName=control_plane, principalArn=people)
    assert [policy["policyArn"] for policy in listed["associatedAccessPolicies"]] == [admin]
    addon = api.describe_addon(clusterName=control_plane, addonName="coredns")["addon"]
    assert addon["configurationValues"] == '{"replicaCount": 3}'
    (association,) = api.list_pod_identity_associations(clusterName=control_plane)["associations"]
    described = api.describe_pod_identity_association(
        clusterName=control_plane, associationId=association["associationId"]
    )
    assert described["association"]["roleArn"] == nodes
    assert stacks.delete(name) == "DELETE_COMPLETE"
    assert api.list_addons(clusterName=control_plane)["addons"] == []
    assert not {people, nodes} & set(api.list_access_entries(clusterName=control_plane)["accessEntries"])
    assert api.list_pod_identity_associations(clusterName=control_plane)["associations"] == []

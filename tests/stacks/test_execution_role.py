from __future__ import annotations

import pytest

from hyperpod_ray.core import load
from tests.stacks.assembled import Assembly
from tests.stacks.roles_helpers import roles
from tests.support.iam import Request, allows
from tests.support.references import References


@pytest.mark.parametrize(
    ("action", "resource", "vpc", "allowed"),
    [
        ("CreateNetworkInterface", "subnet/subnet-1", "ours", True),
        ("CreateNetworkInterface", "security-group/sg-1", "ours", True),
        ("CreateNetworkInterface", "network-interface/*", "", True),
        ("CreateNetworkInterface", "subnet/subnet-1", "vpc-other", False),
        ("CreateNetworkInterface", "security-group/sg-1", "vpc-other", False),
        ("AttachNetworkInterface", "network-interface/eni-1", "ours", True),
        ("AttachNetworkInterface", "instance/i-1", "", True),
        ("AssignPrivateIpAddresses", "network-interface/eni-1", "ours", True),
        ("DeleteNetworkInterface", "network-interface/eni-1", "vpc-other", False),
        ("ModifyNetworkInterfaceAttribute", "security-group/sg-1", "vpc-other", False),
        ("CreateNetworkInterfacePermission", "network-interface/eni-1", "vpc-other", False),
    ],
)
def test_nodes_change_interfaces_of_their_own_vpc_only(
    assembly: Assembly, action: str, resource: str, vpc: str, allowed: bool
) -> None:
    settings = load(assembly.name).settings
    references = References(assembly.templates, account=settings.account, region=settings.region)
    (home,) = [references.arn(*key.split("/", 1)) for key in assembly.of_type("AWS::EC2::VPC")]
    (statements,) = [s for _, service, _, s in roles(assembly) if service == "sagemaker.amazonaws.com"]
    ec2 = home.rpartition(":")[0]
    context = {"ec2:Vpc": home if vpc == "ours" else f"{ec2}:vpc/{vpc}"} if vpc else {}
    asked = Request(action=f"ec2:{action}", resource=f"{ec2}:{resource}", context=context)
    assert allows(statements, asked) is allowed


def test_images_are_encrypted_with_a_key(assembly: Assembly) -> None:
    for repository in assembly.of_type("AWS::ECR::Repository").values():
        assert repository["Properties"]["EncryptionConfiguration"]["EncryptionType"] == "KMS"

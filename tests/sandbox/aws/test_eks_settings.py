"""Deletion protection and support of a control plane, in templates and by EKS's own calls."""

from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from tests.sandbox.aws.stacks_helpers import Json, Stacks
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_a_protected_control_plane_is_not_deleted_and_one_that_is_not_is(emulator: Emulator, stacks: Stacks) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html"""
    eks, ec2 = emulator.boto("eks"), emulator.boto("ec2")
    role = roles.cluster_role(emulator.boto("iam"), "protected")
    vpc = ec2.create_vpc(CidrBlock="10.19.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.19.{i}.0/24", AvailabilityZone=f"us-west-2{z}")["Subnet"][
            "SubnetId"
        ]
        for i, z in enumerate("ab")
    ]
    properties = {
        "Name": "protected", "RoleArn": role, "ResourcesVpcConfig": {"SubnetIds": subnets},
        "AccessConfig": {"AuthenticationMode": "API"}, "DeletionProtection": True,
        "UpgradePolicy": {"SupportType": "EXTENDED"},
    }  # fmt: skip
    name = stacks.create({"Cluster": {"Type": "AWS::EKS::Cluster", "Properties": properties}})
    until(lambda: eks.describe_cluster(name="protected")["cluster"]["status"] == "ACTIVE")
    assert eks.describe_cluster(name="protected")["cluster"]["deletionProtection"] is True
    with pytest.raises(botocore.exceptions.ClientError, match="deletion protection"):
        eks.delete_cluster(name="protected")
    assert stacks.delete(name) == "DELETE_FAILED"
    assert "deletion protection" in stacks.reasons(name)
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidParameterException"):
        eks.update_cluster_config(name="protected", deletionProtection=False, upgradePolicy={"supportType": "STANDARD"})
    update = eks.update_cluster_config(name="protected", deletionProtection=False)["update"]
    assert eks.describe_update(name="protected", updateId=update["id"])["update"]["status"] == "Successful"
    assert stacks.delete(name) == "DELETE_COMPLETE"
    with pytest.raises(botocore.exceptions.ClientError, match="ResourceNotFoundException"):
        eks.update_cluster_config(name="protected", deletionProtection=True)
    for subnet in subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)


def test_a_template_changes_support_and_protection_and_what_it_does_not_name_stays(
    emulator: Emulator, stacks: Stacks
) -> None:
    eks, ec2 = emulator.boto("eks"), emulator.boto("ec2")
    role = roles.cluster_role(emulator.boto("iam"), "support")
    vpc = ec2.create_vpc(CidrBlock="10.29.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.29.{i}.0/24", AvailabilityZone=f"us-west-2{z}")["Subnet"][
            "SubnetId"
        ]
        for i, z in enumerate("ab")
    ]

    def cluster(**more: Any) -> Json:
        properties = {
            "Name": "support", "RoleArn": role, "ResourcesVpcConfig": {"SubnetIds": subnets},
            "AccessConfig": {"AuthenticationMode": "API"}, **more,
        }  # fmt: skip
        return {"Cluster": {"Type": "AWS::EKS::Cluster", "Properties": properties}}

    def described() -> Json:
        found: Json = eks.describe_cluster(name="support")["cluster"]
        return {key: found.get(key) for key in ("deletionProtection", "upgradePolicy")}

    name = stacks.create(cluster(DeletionProtection=True))
    until(lambda: eks.describe_cluster(name="support")["cluster"]["status"] == "ACTIVE")
    stacks.update(name, cluster(UpgradePolicy={"SupportType": "STANDARD"}))
    assert described() == {"deletionProtection": True, "upgradePolicy": {"supportType": "STANDARD"}}
    stacks.update(name, cluster(DeletionProtection=False, UpgradePolicy={"SupportType": "EXTENDED"}))
    assert described() == {"deletionProtection": False, "upgradePolicy": {"supportType": "EXTENDED"}}
    assert stacks.delete(name) == "DELETE_COMPLETE"
    for subnet in subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)

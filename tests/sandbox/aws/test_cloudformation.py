"""The resource types of ours and the guards, through CloudFormation itself, without CDK."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
Json = dict[str, Any]
REF = "Ref"


class Stacks:
    """Makes stacks and removes them afterwards."""

    def __init__(self, emulator: Emulator) -> None:
        self.api = emulator.boto("cloudformation")
        self.made: list[str] = []

    def create(self, resources: Json) -> str:
        name = f"s-{uuid.uuid4().hex[:8]}"
        self.api.create_stack(StackName=name, TemplateBody=_template(resources), Capabilities=["CAPABILITY_NAMED_IAM"])
        self.made.append(name)
        self.settle(name)
        return name

    def update(self, name: str, resources: Json) -> None:
        self.api.update_stack(StackName=name, TemplateBody=_template(resources), Capabilities=["CAPABILITY_NAMED_IAM"])
        self.settle(name)

    def delete(self, name: str) -> str:
        self.api.delete_stack(StackName=name)
        return self.settle(name)

    def settle(self, name: str) -> str:
        until(lambda: not self.status(name).endswith("IN_PROGRESS"))
        return self.status(name)

    def status(self, name: str) -> str:
        try:
            return str(self.api.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
        except botocore.exceptions.ClientError:
            return "DELETE_COMPLETE"

    def ids(self, name: str) -> dict[str, str]:
        found = self.api.describe_stack_resources(StackName=name)["StackResources"]
        return {r["LogicalResourceId"]: r.get("PhysicalResourceId", "") for r in found}

    def reasons(self, name: str) -> str:
        events = self.api.describe_stack_events(StackName=name)["StackEvents"]
        return " ".join(e.get("ResourceStatusReason", "") for e in events)


@pytest.fixture
def stacks(emulator: Emulator) -> Iterator[Stacks]:
    made = Stacks(emulator)
    yield made
    emulator.control.clear_faults()
    for name in reversed(made.made):
        assert made.delete(name) == "DELETE_COMPLETE"


def _template(resources: Json) -> str:
    return json.dumps({"Resources": resources})


def ref(name: str) -> Json:
    return {REF: name}


NETWORK: Json = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.8.0.0/16"}},
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": ref("Vpc"), "CidrBlock": "10.8.1.0/24", "AvailabilityZoneId": "usw2-az2"},
    },
    "Nodes": {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {"GroupDescription": "nodes", "VpcId": ref("Vpc")},
    },
}
RULES: Json = {
    "SelfIn": {
        "Type": "AWS::EC2::SecurityGroupIngress",
        "Properties": {"GroupId": ref("Nodes"), "IpProtocol": "-1", "SourceSecurityGroupId": ref("Nodes")},
    },
    "SelfOut": {
        "Type": "AWS::EC2::SecurityGroupEgress",
        "Properties": {"GroupId": ref("Nodes"), "IpProtocol": "-1", "DestinationSecurityGroupId": ref("Nodes")},
    },
    "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
    "Nat": {
        "Type": "AWS::EC2::NatGateway",
        "Properties": {"SubnetId": ref("Subnet"), "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}},
    },
    "Flow": {
        "Type": "AWS::EC2::FlowLog",
        "Properties": {
            "ResourceId": ref("Vpc"),
            "ResourceType": "VPC",
            "TrafficType": "REJECT",
            "LogDestinationType": "s3",
            "LogDestination": "arn:aws:s3:::logs",
        },
    },
}


def cluster(count: int = 1, **more: Any) -> Json:
    group = {
        "InstanceGroupName": "gpu",
        "InstanceType": "ml.g5.8xlarge",
        "InstanceCount": str(count),  # CloudFormation hands numbers over as text
        "ExecutionRole": "arn:aws:iam::000000000001:role/execution",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/", "OnCreate": "a.sh"},
    }
    return {"Type": "AWS::SageMaker::Cluster", "Properties": {"InstanceGroups": [group], **more}}


def test_network_resources_come_and_go(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({**NETWORK, **RULES})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    ids = stacks.ids(name)
    ec2 = emulator.boto("ec2")
    group = ec2.describe_security_groups(GroupIds=[ids["Nodes"]])["SecurityGroups"][0]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert ids["Nodes"] in {p["GroupId"] for rule in rules for p in rule["UserIdGroupPairs"]}
    assert ec2.describe_nat_gateways(NatGatewayIds=[ids["Nat"]])["NatGateways"][0]["State"] == "available"
    assert ec2.describe_flow_logs()["FlowLogs"][0]["ResourceId"] == ids["Vpc"]
    assert ec2.describe_subnets(SubnetIds=[ids["Subnet"]])["Subnets"][0]["AvailabilityZoneId"] == "usw2-az2"
    stacks.update(name, NETWORK)
    assert stacks.status(name) == "UPDATE_COMPLETE"
    assert ec2.describe_addresses()["Addresses"] == []
    group = ec2.describe_security_groups(GroupIds=[ids["Nodes"]])["SecurityGroups"][0]
    assert not any(rule["UserIdGroupPairs"] for rule in group["IpPermissions"])


def test_a_file_system_of_nobody_keeps_the_network_from_being_deleted(emulator: Emulator, stacks: Stacks) -> None:
    """What a CSI driver made and nobody deleted: the classic of a failed destroy."""
    name = stacks.create(NETWORK)
    ids = stacks.ids(name)
    fsx = emulator.boto("fsx")
    made = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[ids["Subnet"]],
        SecurityGroupIds=[ids["Nodes"]],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    until(lambda: fsx.describe_file_systems(FileSystemIds=[made])["FileSystems"][0]["Lifecycle"] == "AVAILABLE")
    assert stacks.delete(name) == "DELETE_FAILED"
    assert "Created by FSx for Lustre" in stacks.reasons(name)
    fsx.delete_file_system(FileSystemId=made)
    until(lambda: made not in {f["FileSystemId"] for f in fsx.describe_file_systems()["FileSystems"]})


def test_a_cluster_is_updated_in_place_and_replaced_where_it_must_be(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster()})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    arn = stacks.ids(name)["Cluster"]
    stacks.update(name, {"Cluster": cluster(3)})
    assert stacks.ids(name)["Cluster"] == arn
    described = emulator.boto("sagemaker").describe_cluster(ClusterName=arn)
    assert described["InstanceGroups"][0]["CurrentCount"] == 3
    stacks.update(name, {"Cluster": cluster(3, ClusterName="renamed")})
    assert stacks.ids(name)["Cluster"] != arn
    assert [c["ClusterName"] for c in emulator.boto("sagemaker").list_clusters()["ClusterSummaries"]] == ["renamed"]


def test_another_ami_in_the_template_is_a_software_update(emulator: Emulator, stacks: Stacks) -> None:
    """As the schema says of ImageReleaseVersion: "Only an explicit change to this value in the template" does it."""

    def of(**image: str) -> Json:
        changed = cluster(2)
        changed["Properties"]["InstanceGroups"][0] |= image
        return {"Cluster": changed}

    def nodes() -> list[tuple[str, bool]]:
        listed = emulator.boto("sagemaker").list_cluster_nodes(ClusterName=arn)["ClusterNodeSummaries"]
        described = [
            emulator.boto("sagemaker").describe_cluster_node(ClusterName=arn, NodeId=node["InstanceId"])["NodeDetails"]
            for node in listed
        ]
        return [(node["CurrentImageReleaseVersion"], "LastSoftwareUpdateTime" in node) for node in described]

    name = stacks.create(of())
    arn = stacks.ids(name)["Cluster"]
    assert nodes() == [("1.0.0", False)] * 2
    stacks.update(name, of(ImageReleaseVersion="7.2.1"))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert nodes() == [("7.2.1", True)] * 2
    own = "ami-0a1b2c3d4e5f60718"
    stacks.update(name, of(ImageId=own))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    (described,) = emulator.boto("sagemaker").describe_cluster(ClusterName=arn)["InstanceGroups"]
    assert (described["CurrentImageId"], described["DesiredImageId"]) == (own, own)


def test_drift_is_detected(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster(NodeRecovery="Automatic")})
    arn = stacks.ids(name)["Cluster"]
    sagemaker = emulator.boto("sagemaker")
    assert _drift(stacks, name) == "IN_SYNC"
    sagemaker.update_cluster(ClusterName=arn, NodeRecovery="None")
    until(lambda: sagemaker.describe_cluster(ClusterName=arn)["ClusterStatus"] == "InService")
    assert _drift(stacks, name) == "DRIFTED"


def _drift(stacks: Stacks, name: str) -> str:
    started = stacks.api.detect_stack_drift(StackName=name)["StackDriftDetectionId"]

    def status() -> str:
        answer = stacks.api.describe_stack_drift_detection_status(StackDriftDetectionId=started)
        return str(answer.get("StackDriftStatus", "")) if answer["DetectionStatus"] != "DETECTION_IN_PROGRESS" else ""

    return str(until(status))


@pytest.mark.parametrize("operation", ["AWS::SageMaker::Cluster.create", "sagemaker.CreateCluster"])
def test_a_fault_in_a_create_rolls_the_stack_back(emulator: Emulator, stacks: Stacks, operation: str) -> None:
    emulator.control.set_fault(operation=operation, code="ResourceLimitExceeded", message="quota is 0")
    name = stacks.create({**NETWORK, "Cluster": cluster()})
    if operation.startswith("AWS"):
        assert stacks.status(name) == "ROLLBACK_COMPLETE"
        assert "quota is 0" in stacks.reasons(name)
        assert "AWS::EC2::VPC" not in {r["type"] for r in emulator.control.inventory() if r["stack"] == name}
    else:  # a fault of the API strikes its clients, not the handler inside CloudFormation
        assert stacks.status(name) == "CREATE_COMPLETE"


def test_an_update_that_fails_is_rolled_back_to_what_was(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster()})
    emulator.control.set_fault(operation="AWS::SageMaker::Cluster.update", code="InternalFailure")
    stacks.update(name, {"Cluster": cluster(2)})
    assert stacks.status(name) == "UPDATE_ROLLBACK_COMPLETE"
    arn = stacks.ids(name)["Cluster"]
    assert emulator.boto("sagemaker").describe_cluster(ClusterName=arn)["InstanceGroups"][0]["TargetCount"] == 1


def test_what_the_service_rejects_fails_the_stack_with_its_words(stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster(AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"})})
    assert stacks.status(name) == "ROLLBACK_COMPLETE"
    assert "AutoScaling needs NodeProvisioningMode Continuous" in stacks.reasons(name)


def test_a_type_nobody_emulates_is_refused(stacks: Stacks) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="AWS::SageMaker::Domain"):
        stacks.create({"Domain": {"Type": "AWS::SageMaker::Domain", "Properties": {}}})


FUNCTION: Json = {
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
    },
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": "python3.11",
            "Handler": "index.handler",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Code": {"ZipFile": "def handler(event, context):\n    raise RuntimeError('no answer from me')\n"},
        },
    },
    "Custom": {"Type": "Custom::Dead", "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}}},
}


def test_a_custom_resource_whose_function_dies_fails_at_once(stacks: Stacks) -> None:
    name = stacks.create(FUNCTION)  # `settle` gives it a minute; CloudFormation would wait an hour
    assert "ROLLBACK" in stacks.status(name)
    assert "no answer from me" in stacks.reasons(name)


def test_a_link_to_s3_comes_changes_and_goes_with_its_stack(emulator: Emulator, stacks: Stacks) -> None:
    def resources(events: list[str], path: str = "/data") -> Json:
        lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": "250"}
        file_system = {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": "1200",
            "SubnetIds": [ref("Subnet")],
            "LustreConfiguration": lustre,
        }
        link = {
            "FileSystemId": ref("Files"),
            "FileSystemPath": path,
            "DataRepositoryPath": {"Fn::Join": ["", ["s3://", ref("Bucket"), "/a/"]]},
            "BatchImportMetaDataOnCreate": "true",
            "S3": {"AutoImportPolicy": {"Events": events}},
        }
        return {
            **NETWORK,
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
            "Files": {"Type": "AWS::FSx::FileSystem", "Properties": file_system},
            "Link": {"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": link},
        }

    name = stacks.create(resources(["NEW"]))
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    fsx, link = emulator.boto("fsx"), stacks.ids(name)["Link"]

    def found() -> Json:
        return dict(fsx.describe_data_repository_associations(AssociationIds=[link])["Associations"][0])

    assert found()["BatchImportMetaDataOnCreate"] is True
    stacks.update(name, resources(["NEW", "CHANGED"]))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert (stacks.ids(name)["Link"], found()["S3"]["AutoImportPolicy"]["Events"]) == (link, ["NEW", "CHANGED"])
    # the new one comes before the old one goes
    stacks.update(name, resources(["NEW"], path="/other"))
    assert stacks.status(name) == "UPDATE_ROLLBACK_COMPLETE"
    assert "already linked" in stacks.reasons(name)


def test_a_channel_is_configured_once_in_an_account(emulator: Emulator, stacks: Stacks) -> None:
    """https://docs.aws.amazon.com/chatbot/latest/APIReference/API_CreateSlackChannelConfiguration.html"""
    role = {"AssumeRolePolicyDocument": json.loads(json.dumps(TRUST).replace("lambda", "chatbot"))}
    beside = {"Role": {"Type": "AWS::IAM::Role", "Properties": role}, "Topic": {"Type": "AWS::SNS::Topic"}}

    def channel(name: str, **more: Any) -> Json:
        properties = {
            "ConfigurationName": name, "SlackWorkspaceId": "T0123ABCDEF", "SlackChannelId": "C0123ABCDEF",
            "IamRoleArn": {"Fn::GetAtt": ["Role", "Arn"]}, "SnsTopicArns": [{REF: "Topic"}], **more,
        }  # fmt: skip
        return {"Channel": {"Type": "AWS::Chatbot::SlackChannelConfiguration", "Properties": properties}, **beside}

    def configured() -> list[str]:
        return [entry["id"] for entry in emulator.control.inventory() if "Chatbot" in entry["type"]]

    name = stacks.create(channel("demo-one"))
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    assert configured() == [stacks.ids(name)["Channel"]]
    second = stacks.create(channel("demo-two"))
    assert stacks.status(second) == "ROLLBACK_COMPLETE" and "already configured" in stacks.reasons(second)
    stacks.update(name, channel("demo-one", LoggingLevel="ERROR"))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    lost = stacks.create(channel("demo-three", SlackChannelId="C9", SnsTopicArns=["arn:aws:sns:us-west-2:1:none"]))
    assert stacks.status(lost) == "ROLLBACK_COMPLETE" and "does not exist" in stacks.reasons(lost)
    stacks.delete(name)
    assert configured() == []


TRUST: Json = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
NAMED: dict[str, Json] = {
    "AWS::Budgets::Budget": {
        "Budget": {
            "BudgetName": "NAME",
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": 1, "Unit": "USD"},
        }
    },
    "AWS::ECR::Repository": {"RepositoryName": "NAME"},
    "AWS::EKS::Cluster": {
        "Name": "NAME",
        "RoleArn": {"Fn::GetAtt": ["Control", "Arn"]},
        "ResourcesVpcConfig": {"SubnetIds": [ref("Subnet"), ref("Other")]},
    },
    "AWS::IAM::OIDCProvider": {"Url": "https://NAME.example.com", "ClientIdList": ["sts.amazonaws.com"]},
    "AWS::IAM::Role": {"RoleName": "NAME", "AssumeRolePolicyDocument": TRUST},
    "AWS::Logs::LogGroup": {"LogGroupName": "/NAME"},
    "AWS::Logs::ResourcePolicy": {"PolicyName": "NAME", "PolicyDocument": json.dumps({**TRUST, "Statement": []})},
    "AWS::S3::Bucket": {"BucketName": "NAME"},
    "AWS::SageMaker::Cluster": {**cluster(0)["Properties"], "ClusterName": "NAME"},
}
"""A resource with a name of its own, of each type of the templates that can have one."""
BESIDE: Json = {
    **NETWORK,
    "Other": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": ref("Vpc"), "CidrBlock": "10.8.2.0/24", "AvailabilityZoneId": "usw2-az1"},
    },
    "Control": {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": json.loads(json.dumps(TRUST).replace("lambda", "eks")),
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"],
        },
    },
}
"""What the properties above refer to."""


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_a_name_that_is_taken_fails_the_second_stack_and_leaves_the_first_alone(stacks: Stacks, kind: str) -> None:
    text = json.dumps(NAMED[kind]).replace("NAME", f"n-{uuid.uuid4().hex[:8]}")
    resources = {"One": {"Type": kind, "Properties": json.loads(text)}} | (BESIDE if "Fn::GetAtt" in text else {})
    first = stacks.create(resources)
    assert stacks.status(first) == "CREATE_COMPLETE", stacks.reasons(first)
    second = stacks.create(resources)
    assert stacks.status(second) == "ROLLBACK_COMPLETE"
    assert re.search("already exists|with identical name|validation failure", stacks.reasons(second), re.IGNORECASE)
    third = stacks.create(resources)
    assert stacks.status(third) == "ROLLBACK_COMPLETE", "the rollback of the second took the first one's"


def test_the_stack_of_a_resource_is_found_by_its_physical_id(stacks: Stacks) -> None:
    name = f"/found-{uuid.uuid4().hex[:8]}"
    group = {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain", "Properties": {"LogGroupName": name}}
    made = stacks.create({"Group": group})
    (resource,) = stacks.api.describe_stack_resources(PhysicalResourceId=name)["StackResources"]
    assert resource["StackName"] == made
    stacks.delete(made)
    with pytest.raises(botocore.exceptions.ClientError, match=f"Stack for {name} does not exist"):
        stacks.api.describe_stack_resources(PhysicalResourceId=name)


def test_a_new_vpc_has_an_open_default_group(emulator: Emulator, stacks: Stacks) -> None:
    """As on AWS: members reach each other and everything. What closes it must have something to close."""
    ec2 = emulator.boto("ec2")
    made = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    of_stack = stacks.ids(stacks.create({"Vpc": NETWORK["Vpc"]}))["Vpc"]
    for vpc in (made, of_stack):
        names = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = ec2.describe_security_groups(Filters=names)["SecurityGroups"]
        (ingress,), (egress,) = group["IpPermissions"], group["IpPermissionsEgress"]
        assert [pair["GroupId"] for pair in ingress["UserIdGroupPairs"]] == [group["GroupId"]]
        assert egress["IpRanges"] == [{"CidrIp": "0.0.0.0/0"}]
    ec2.delete_vpc(VpcId=made)


def test_a_change_of_outputs_alone_is_one(stacks: Stacks) -> None:
    """Another stack may ask for an export of a stack that otherwise stays as it is."""
    queue = {"Jobs": {"Type": "AWS::SQS::Queue"}}
    name = stacks.create(queue)

    def change_set(outputs: Json) -> Json:
        text = json.dumps({"Resources": queue, "Outputs": outputs})
        made = stacks.api.create_change_set(StackName=name, ChangeSetName=f"c{uuid.uuid4().hex[:8]}", TemplateBody=text)
        return dict(stacks.api.describe_change_set(ChangeSetName=made["Id"]))

    empty = change_set({})
    assert (empty["Status"], empty["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    export = f"{name}-url"
    asked = change_set({"Url": {"Value": {REF: "Jobs"}, "Export": {"Name": export}}})
    assert (asked["Status"], asked["ExecutionStatus"], asked["Changes"]) == ("CREATE_COMPLETE", "AVAILABLE", [])
    stacks.api.execute_change_set(ChangeSetName=asked["ChangeSetId"])
    stacks.settle(name)
    assert export in [export["Name"] for export in stacks.api.list_exports()["Exports"]]


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

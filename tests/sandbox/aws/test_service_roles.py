"""What services do with the roles they are given is judged as functions' calls are: a deny is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox.aws.service_roles_helpers import message
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
SCRIPT = {"SourceS3Uri": "s3://sagemaker-x/scripts/", "OnCreate": "a.sh"}


@pytest.fixture
def subnets(emulator: Emulator) -> Iterator[list[str]]:
    ec2 = emulator.boto("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    made = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.8.{i}.0/24", AvailabilityZone=f"us-west-2{zone}")["Subnet"]
        for i, zone in enumerate("ab")
    ]
    yield [subnet["SubnetId"] for subnet in made]


class TestHyperPod:
    def cluster(self, emulator: Emulator, name: str, role: str, **more: Any) -> Any:
        group = {"InstanceGroupName": "one", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
                 "ExecutionRole": role, "LifeCycleConfig": SCRIPT}  # fmt: skip
        return emulator.boto("sagemaker").create_cluster(ClusterName=name, InstanceGroups=[group], **more)

    def failed(self, emulator: Emulator, name: str) -> str:
        def ended() -> Any:
            found = emulator.boto("sagemaker").describe_cluster(ClusterName=name)
            return found["ClusterStatus"] != "Creating" and found

        found = until(ended)
        emulator.boto("sagemaker").delete_cluster(ClusterName=name)
        assert found["ClusterStatus"] == "Failed"
        return str(found["FailureMessage"])

    def test_a_role_that_sagemaker_may_not_take(self, emulator: Emulator, name: str) -> None:
        iam = emulator.boto("iam")
        wrong = iam.create_role(RoleName=name, AssumeRolePolicyDocument=roles.trust("ec2.amazonaws.com"))["Role"]["Arn"]
        for role in (wrong, wrong.replace(name, "nobody")):
            said = message(
                lambda role=role, **_: self.cluster(emulator, name, role)  # the same error, by another route
            )
            assert said.startswith(f"Could not assume role {role}")

    def test_network_interfaces_are_made_with_the_role(self, emulator: Emulator, name: str, subnets: list[str]) -> None:
        ec2 = emulator.boto("ec2")
        vpc = ec2.describe_subnets(SubnetIds=subnets)["Subnets"][0]["VpcId"]
        group = ec2.create_security_group(GroupName=name, Description="x", VpcId=vpc)["GroupId"]
        config = {"Subnets": subnets[:1], "SecurityGroupIds": [group]}
        role = roles.node_role(emulator.boto("iam"), name, actions=[])
        self.cluster(emulator, name, role, VpcConfig=config)
        assert "is not authorized to perform: ec2:CreateNetworkInterface" in self.failed(emulator, name)
        # in this VPC only, as the condition says
        here = {"ArnEquals": {"ec2:Vpc": f"arn:aws:ec2:us-west-2:000000000001:vpc/{vpc}"}}
        for condition, works in ((here, True), ({"ArnEquals": {"ec2:Vpc": "arn:aws:ec2:us-west-2:1:vpc/x"}}, False)):
            document = roles.allowing("ec2:CreateNetworkInterface", Condition=condition)
            emulator.boto("iam").put_role_policy(RoleName=name, PolicyName="nodes", PolicyDocument=document)
            until(lambda: name not in [
                c["ClusterName"] for c in emulator.boto("sagemaker").list_clusters()["ClusterSummaries"]
            ])  # fmt: skip
            self.cluster(emulator, name, role, VpcConfig=config)
            if works:
                until(lambda: emulator.boto("sagemaker").describe_cluster(ClusterName=name)["ClusterStatus"]
                      == "InService")  # fmt: skip
                emulator.boto("sagemaker").delete_cluster(ClusterName=name)
            else:
                assert "ec2:CreateNetworkInterface" in self.failed(emulator, name)

    def test_lifecycle_scripts_are_read_with_the_role(self, emulator: Emulator, name: str) -> None:
        iam = emulator.boto("iam")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=roles.trust("sagemaker.amazonaws.com"))
        self.cluster(emulator, name, role["Role"]["Arn"])
        assert "s3:ListBucket on resource: arn:aws:s3:::sagemaker-x" in self.failed(emulator, name)


class TestCloudFormation:
    TEMPLATE = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})

    def ended(self, emulator: Emulator, stack: str) -> tuple[str, str]:
        api = emulator.boto("cloudformation")

        def look() -> Any:
            status = api.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
            return None if status.endswith("IN_PROGRESS") else status

        status = until(look)
        events = api.describe_stack_events(StackName=stack)["StackEvents"]
        return status, " ".join(e.get("ResourceStatusReason", "") for e in events)

    def test_a_stack_is_made_with_its_role(self, emulator: Emulator, name: str) -> None:
        iam, api = emulator.boto("iam"), emulator.boto("cloudformation")
        trust = roles.trust("cloudformation.amazonaws.com")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName="some", PolicyDocument=roles.allowing("sns:DeleteTopic"))
        api.create_stack(StackName=name, TemplateBody=self.TEMPLATE, RoleARN=role)
        status, reasons = self.ended(emulator, name)
        assert status == "ROLLBACK_COMPLETE"
        assert f"assumed-role/{name}/AWSCloudFormation is not authorized to perform: sns:CreateTopic" in reasons
        document = roles.allowing("sns:CreateTopic", resource="arn:aws:sns:us-west-2:000000000001:*")
        iam.put_role_policy(RoleName=name, PolicyName="some", PolicyDocument=document)
        api.create_stack(StackName=f"{name}-2", TemplateBody=self.TEMPLATE, RoleARN=role)
        assert self.ended(emulator, f"{name}-2")[0] == "CREATE_COMPLETE"
        # the role stays the stack's: a deletion that names none has no more rights
        identifier = api.describe_stacks(StackName=f"{name}-2")["Stacks"][0]["StackId"]
        api.delete_stack(StackName=f"{name}-2")
        status, reasons = self.ended(emulator, identifier)
        assert (status, "sns:DeleteTopic" in reasons) == ("DELETE_FAILED", True)
        iam.put_role_policy(RoleName=name, PolicyName="some", PolicyDocument=roles.allowing("sns:*"))
        api.delete_stack(StackName=f"{name}-2")
        until(lambda: self.ended(emulator, identifier)[0] == "DELETE_COMPLETE")

    def test_roles_are_passed_and_keys_used_by_resource_and_condition(self, emulator: Emulator, name: str) -> None:
        """The stack's role may create everything; it passes one role to one service, and uses one key."""
        iam, api, kms = emulator.boto("iam"), emulator.boto("cloudformation"), emulator.boto("kms")
        trust = roles.trust("cloudformation.amazonaws.com")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        logs = iam.create_role(RoleName=f"{name}-logs", AssumeRolePolicyDocument=roles.trust("codebuild.amazonaws.com"))
        logs_arn = logs["Role"]["Arn"]
        root = {"Sid": "iam", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000001:root"},
                "Action": "kms:*", "Resource": "*"}  # fmt: skip
        keys = [kms.create_key(Policy=json.dumps({"Version": "2012-10-17", "Statement": one}))["KeyMetadata"]["Arn"]
                for one in ([root], [root], [{**root, "Principal": {"AWS": logs_arn}}])]  # fmt: skip
        project = {
            "Type": "AWS::CodeBuild::Project",
            "Properties": {
                "ServiceRole": logs_arn,
                "Artifacts": {"Type": "NO_ARTIFACTS"},
                "Source": {"Type": "NO_SOURCE", "BuildSpec": "{}"},
                "Environment": {"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL", "Image": "x"},
            },
        }

        def file_system(key: str) -> dict[str, Any]:
            return {"Type": "AWS::FSx::FileSystem", "Properties": {"FileSystemType": "LUSTRE", "KmsKeyId": key}}

        def made(number: int, resource: dict[str, Any], *statements: dict[str, Any]) -> tuple[str, str]:
            base = {"Effect": "Allow", "Action": ["codebuild:*", "fsx:*", "ec2:*"], "Resource": "*"}
            document = json.dumps({"Version": "2012-10-17", "Statement": [base, *statements]})
            iam.put_role_policy(RoleName=name, PolicyName="some", PolicyDocument=document)
            stack = f"{name}-{number}"
            body = json.dumps({"Resources": {"One": resource}})
            api.create_stack(StackName=stack, TemplateBody=body, RoleARN=role)
            return self.ended(emulator, stack)

        def passing(arn: str, service: str) -> dict[str, Any]:
            to = {"StringEquals": {"iam:PassedToService": service}}
            return {"Effect": "Allow", "Action": "iam:PassRole", "Resource": arn, "Condition": to}

        def using(key: str, **condition: Any) -> dict[str, Any]:
            return {"Effect": "Allow", "Action": "kms:*", "Resource": key, **condition}

        refused = f"is not authorized to perform: iam:PassRole on resource: {logs_arn}"
        ours = "codebuild.amazonaws.com"
        for number, (statements, expected) in enumerate(
            [
                ([], False),
                ([passing(f"{logs_arn}-other", ours)], False),
                ([passing(logs_arn, "lambda.amazonaws.com")], False),
                ([passing(logs_arn, ours)], True),
            ]
        ):
            status, reasons = made(number, project, *statements)
            assert ((status == "CREATE_COMPLETE"), refused in reasons) == (expected, not expected), (number, reasons)
        by_fsx = {"Condition": {"StringEquals": {"kms:ViaService": "fsx.us-west-2.amazonaws.com"}}}
        by_eks = {"Condition": {"StringEquals": {"kms:ViaService": "eks.us-west-2.amazonaws.com"}}}
        for number, (statement, key, refusal) in enumerate(
            [
                (using(keys[1]), keys[0], "no identity-based policy allows the kms:DescribeKey action"),
                (using(keys[0], **by_eks), keys[0], "no identity-based policy allows the kms:DescribeKey action"),
                (using("*"), keys[2], "no resource-based policy allows the kms:DescribeKey action"),
                (using(keys[0], **by_fsx), keys[0], ""),
            ],
            start=10,
        ):
            status, reasons = made(number, file_system(key), statement)
            assert "kms:" in reasons if refusal else "kms:" not in reasons, (number, reasons)
            assert refusal in reasons, (number, status, reasons)

    def test_a_role_that_cloudformation_may_not_take(self, emulator: Emulator, name: str) -> None:
        role = roles.node_role(emulator.boto("iam"), name)
        said = message(
            emulator.boto("cloudformation").create_stack,
            StackName=name, TemplateBody=self.TEMPLATE, RoleARN=role,
        )  # fmt: skip
        assert said == f"Role {role} is invalid or cannot be assumed"


class TestWebIdentity:
    def test_the_drivers_role_is_for_its_service_account(
        self, emulator: Emulator, name: str, subnets: list[str]
    ) -> None:
        iam, eks, control = emulator.boto("iam"), emulator.boto("eks"), emulator.control
        made = eks.create_cluster(
            name=name, roleArn=roles.cluster_role(iam), resourcesVpcConfig={"subnetIds": subnets}
        )["cluster"]  # fmt: skip
        driver = "system:serviceaccount:kube-system:fsx-csi-controller-sa"
        asked: dict[str, Any] = {
            "cluster": name, "subject": driver, "role_arn": f"arn:aws:iam::000000000001:role/{name}-csi",
            "action": "fsx:CreateFileSystem", "resource": "arn:aws:fsx:us-west-2:000000000001:file-system/*",
            "keys": {"aws:RequestTag/env": "dev"},
        }  # fmt: skip
        assert "No OpenIDConnect provider" in control.web_identity(**asked)
        roles.driver_role(iam, made["identity"]["oidc"]["issuer"], f"{name}-csi", actions=("fsx:Describe*",))
        assert "is not authorized to perform: fsx:CreateFileSystem" in control.web_identity(**asked)
        tagged = {"StringEquals": {"aws:RequestTag/env": "dev"}}
        document = roles.allowing("fsx:CreateFileSystem", Condition=tagged)
        iam.put_role_policy(RoleName=f"{name}-csi", PolicyName="fsx", PolicyDocument=document)
        assert control.web_identity(**asked) == ""
        assert "CreateFileSystem" in control.web_identity(**{**asked, "keys": {}})
        other = {**asked, "subject": "system:serviceaccount:ray:ray"}
        assert "sts:AssumeRoleWithWebIdentity" in control.web_identity(**other)
        issuer = made["identity"]["oidc"]["issuer"]
        (provider,) = [p["Arn"] for p in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
                       if p["Arn"].endswith(issuer.partition("//")[2])]  # fmt: skip
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider)
        iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["another"])
        assert control.web_identity(**asked) == "InvalidIdentityToken: Incorrect token audience"
        until(lambda: eks.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
        eks.delete_cluster(name=name)

"""A node gets an image when its role may pull it and its network leads to the registry; else containerd's error."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
REGISTRY = "000000000001.dkr.ecr.us-west-2.amazonaws.com"
EKS = "602401143452.dkr.ecr.us-west-2.amazonaws.com"
INTERNET = "quay.io/kuberay/operator:v1.7.0"
PULL = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
ENDPOINTS = ("ecr.api", "ecr.dkr")


class Site:
    """A VPC without a way out, a role, and a HyperPod cluster of one node there."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator, self.name = emulator, f"p-{uuid.uuid4().hex[:8]}"
        self.ec2, self.iam, self.ecr = (emulator.boto(s) for s in ("ec2", "iam", "ecr"))
        self.vpc = self.ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.7.0.0/24")["Subnet"]["SubnetId"]
        self.group = self.ec2.create_security_group(GroupName="nodes", Description="x", VpcId=self.vpc)["GroupId"]
        self.role = roles.node_role(self.iam, self.name)
        self.may(*roles.ACTIONS)
        group = {"InstanceGroupName": "one", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
                 "ExecutionRole": self.role,
                 "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/", "OnCreate": "a.sh"}}  # fmt: skip
        self.sagemaker = emulator.boto("sagemaker")
        self.sagemaker.create_cluster(
            ClusterName=self.name, InstanceGroups=[group],
            VpcConfig={"Subnets": [self.subnet], "SecurityGroupIds": [self.group]},
        )  # fmt: skip
        (self.node,) = until(lambda: self.sagemaker.list_cluster_nodes(ClusterName=self.name)["ClusterNodeSummaries"])
        self.stacks: list[str] = []

    def may(self, *actions: str, resource: Any = "*", **more: Any) -> None:
        document = roles.allowing(*actions, resource=resource, **more)
        self.iam.put_role_policy(RoleName=self.name, PolicyName="nodes", PolicyDocument=document)

    def pull(self, image: str) -> str:
        return self.emulator.control.pulls(self.node["InstanceId"], [image])[image]

    def push(self, repository: str, tag: str) -> str:
        self.ecr.create_repository(repositoryName=repository)
        self.ecr.put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps({"schemaVersion": 2}))
        return f"{REGISTRY}/{repository}:{tag}"

    def endpoints(self, *services: str, policy: Any = None, named: bool = True) -> None:
        """Interface endpoints by CloudFormation, as the API of the emulator drops their policies."""
        resources = {
            f"E{number}": {
                "Type": "AWS::EC2::VPCEndpoint",
                "Properties": {
                    "ServiceName": f"com.amazonaws.us-west-2.{service}",
                    "VpcId": self.vpc,
                    "VpcEndpointType": "Interface",
                    "PrivateDnsEnabled": named,
                    "SubnetIds": [self.subnet],
                    **({"PolicyDocument": policy} if policy else {}),
                },
            }
            for number, service in enumerate(services)
        }
        self._stack(resources)

    def gateway(self, policy: Any = None) -> None:
        """The S3 gateway endpoint in the VPC's main table."""
        tables = self.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [self.vpc]}])["RouteTables"]
        properties = {
            "ServiceName": "com.amazonaws.us-west-2.s3",
            "VpcId": self.vpc,
            "RouteTableIds": [tables[0]["RouteTableId"]],
            **({"PolicyDocument": policy} if policy else {}),
        }
        self._stack({"S3": {"Type": "AWS::EC2::VPCEndpoint", "Properties": properties}})

    def _stack(self, resources: dict[str, Any]) -> None:
        cloudformation, name = self.emulator.boto("cloudformation"), f"{self.name}-{len(self.stacks)}"
        self.stacks.append(name)
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
        until(lambda: cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE")

    def close(self) -> None:
        for name in self.stacks:
            self.emulator.boto("cloudformation").delete_stack(StackName=name)
        until(lambda: self.sagemaker.describe_cluster(ClusterName=self.name)["ClusterStatus"] == "InService")
        self.sagemaker.delete_cluster(ClusterName=self.name)


@pytest.fixture
def site(emulator: Emulator) -> Iterator[Site]:
    made = Site(emulator)
    yield made
    made.close()


def test_a_network_without_a_way_out_reaches_no_registry(site: Site) -> None:
    assert site.pull(INTERNET).endswith(
        'Head "https://quay.io/v2/kuberay/operator/manifests/v1.7.0": dial tcp: quay.io:443: i/o timeout'
    )
    assert "no basic auth credentials" in site.pull(f"{EKS}/eks/pause:3.10"), "no token of Amazon ECR either"
    assert "no basic auth" in site.emulator.control.node_network(site.node["InstanceId"])
    roles.way_out(site.ec2, site.vpc, site.subnet)
    assert site.pull(INTERNET) == ""
    assert site.pull(f"{EKS}/eks/pause:3.10") == ""
    assert site.emulator.control.node_network(site.node["InstanceId"]) == ""


def test_endpoints_lead_to_amazon_ecr_and_nowhere_else(site: Site) -> None:
    image = f"{EKS}/eks/coredns:v1"
    site.endpoints("ecr.api")
    assert f"dial tcp: {EKS}:443: i/o timeout" in site.pull(image), "the registry itself has an endpoint of its own"
    site.endpoints("ecr.dkr")
    assert "prod-us-west-2-starport-layer-bucket" in site.pull(image), "layers come from Amazon S3"
    site.gateway()
    assert site.pull(image) == ""
    assert "i/o timeout" in site.pull(INTERNET)
    assert "no basic auth" in site.pull(image.replace("us-west-2", "us-east-1")), "endpoints serve their own region"


def test_an_endpoint_without_private_dns_is_not_found(site: Site) -> None:
    site.endpoints(*ENDPOINTS, named=False)
    site.gateway()
    assert "no basic auth" in site.pull(f"{EKS}/eks/coredns:v1")


def test_policies_of_endpoints_count(site: Site) -> None:
    image = f"{EKS}/eks/coredns:v1"
    ours = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*",
                           "Condition": {"StringEquals": {"aws:ResourceAccount": "000000000001"}}}]}  # fmt: skip
    site.endpoints("ecr.api")
    site.endpoints("ecr.dkr", policy=ours)
    site.gateway()
    assert site.pull(image).endswith("403 Forbidden"), "the images of EKS are another account's"
    assert site.pull(site.push("own", "1")) == ""


def test_security_groups_count(site: Site) -> None:
    roles.way_out(site.ec2, site.vpc, site.subnet)
    everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    site.ec2.revoke_security_group_egress(GroupId=site.group, IpPermissions=[everything])
    assert "i/o timeout" in site.pull(INTERNET)
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    site.ec2.authorize_security_group_egress(GroupId=site.group, IpPermissions=[https])
    assert site.pull(INTERNET) == ""


def test_the_nodes_role_decides(site: Site) -> None:
    roles.way_out(site.ec2, site.vpc, site.subnet)
    agent, dns = f"{EKS}/amazon/aws-network-policy-agent:v1", f"{EKS}/eks/coredns:v1"
    repositories = "arn:aws:ecr:us-west-2:602401143452:repository"
    allowed = [f"{repositories}/eks/*", f"{repositories}/amazon-k8s-cni*"]
    site.may("ecr:GetAuthorizationToken")
    assert site.pull(dns).endswith("/v2/eks/coredns/manifests/v1: 403 Forbidden")
    statements = [
        {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
        {"Effect": "Allow", "Action": PULL, "Resource": allowed},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    site.iam.put_role_policy(RoleName=site.name, PolicyName="nodes", PolicyDocument=document)
    assert site.pull(dns) == ""
    assert site.pull(agent).endswith("403 Forbidden")
    # the CNI's sidecar: without it no node becomes ready
    assert "aws-network-policy-agent" in site.emulator.control.node_network(site.node["InstanceId"])
    site.may(*PULL)
    assert "no basic auth credentials" in site.pull(dns)


def test_what_nobody_pushed_is_not_there(site: Site) -> None:
    roles.way_out(site.ec2, site.vpc, site.subnet)
    assert site.pull(f"{REGISTRY}/none:1").endswith(f"{REGISTRY}/none:1: not found")
    image = site.push("made", "1")
    assert site.pull(image) == ""
    assert "not found" in site.pull(f"{REGISTRY}/made:2")
    found = site.ecr.describe_images(repositoryName="made")["imageDetails"][0]["imageDigest"]
    assert site.pull(f"{REGISTRY}/made@{found}") == ""
    assert "not found" in site.pull(f"{REGISTRY}/made@sha256:{'0' * 64}")

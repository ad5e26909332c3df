"""A pod's calls are judged as its own: EKS gives it a session of its role, or says at which step it gets none."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest

from hyperpod_ray_sandbox.aws.client import ControlError
from tests.support import roles
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator
ASK = "eks-auth:AssumeRoleForPodIdentity"


class Site:
    """An EKS cluster with one HyperPod node, a bucket, and a role for the service account `ray` of namespace `ray`."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator, self.name = emulator, f"i-{uuid.uuid4().hex[:8]}"
        self.ec2, self.iam, self.eks, self.s3 = (emulator.boto(s) for s in ("ec2", "iam", "eks", "s3"))
        self.vpc = self.ec2.create_vpc(CidrBlock="10.6.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.6.{i}.0/24", AvailabilityZone=f"us-west-2{zone}")
            for i, zone in enumerate("ab")
        ]
        self.subnets = [made["Subnet"]["SubnetId"] for made in subnets]
        group = self.ec2.create_security_group(GroupName="nodes", Description="x", VpcId=self.vpc)["GroupId"]
        config = {"subnetIds": self.subnets}
        role = roles.cluster_role(self.iam)
        made = self.eks.create_cluster(name=self.name, roleArn=role, resourcesVpcConfig=config)["cluster"]
        self.arn = str(made["arn"])
        self.node_role = roles.node_role(self.iam, self.name)
        instances = {"InstanceGroupName": "one", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
                     "ExecutionRole": self.node_role,
                     "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/", "OnCreate": "a.sh"}}  # fmt: skip
        self.sagemaker = emulator.boto("sagemaker")
        self.sagemaker.create_cluster(
            ClusterName=self.name, InstanceGroups=[instances],
            VpcConfig={"Subnets": self.subnets[:1], "SecurityGroupIds": [group]},
        )  # fmt: skip
        (node,) = until(lambda: self.sagemaker.list_cluster_nodes(ClusterName=self.name)["ClusterNodeSummaries"])
        self.node = str(node["InstanceId"])
        self.role = str(
            self.iam.create_role(RoleName=f"{self.name}-ray", AssumeRolePolicyDocument=self.trust())["Role"]["Arn"]
        )
        for bucket in ("data", "other"):
            self.s3.create_bucket(
                Bucket=f"{self.name}-{bucket}", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
            )
        document = roles.allowing("s3:PutObject", resource=f"arn:aws:s3:::{self.name}-data/*")
        self.iam.put_role_policy(RoleName=f"{self.name}-ray", PolicyName="s3", PolicyDocument=document)

    def trust(self, namespace: str = "ray", actions: tuple[str, ...] = ("sts:AssumeRole", "sts:TagSession")) -> str:
        """As `PodIdentity` of the product writes it."""
        tags = {"eks-cluster-arn": self.arn, "kubernetes-namespace": [namespace], "kubernetes-service-account": "ray"}
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": list(actions),
            "Condition": {"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]})

    def trusts(self, document: str) -> None:
        self.iam.update_assume_role_policy(RoleName=f"{self.name}-ray", PolicyDocument=document)

    def nodes_may(self, *actions: str, resource: str = "*") -> None:
        document = roles.allowing(*actions, resource=resource)
        self.iam.put_role_policy(RoleName=self.name, PolicyName="nodes", PolicyDocument=document)

    def associate(self) -> None:
        self.eks.create_pod_identity_association(
            clusterName=self.name, namespace="ray", serviceAccount="ray", roleArn=self.role
        )

    def ask(self, *, account: str = "ray", age: timedelta = timedelta()) -> dict[str, str]:
        created = datetime.now(UTC) + timedelta(seconds=1) - age
        meta = {"namespace": "ray", "name": "head", "uid": "1-2", "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
        pod = {"metadata": meta, "spec": {"serviceAccountName": account}}
        return self.emulator.control.pod_credentials(cluster=self.name, node_id=self.node, pod=pod)

    def refused(self, **more: Any) -> str:
        with pytest.raises(ControlError) as error:
            self.ask(**more)
        return str(error.value)

    def close(self) -> None:
        until(lambda: self.sagemaker.describe_cluster(ClusterName=self.name)["ClusterStatus"] == "InService")
        self.sagemaker.delete_cluster(ClusterName=self.name)
        for found in self.eks.list_pod_identity_associations(clusterName=self.name)["associations"]:
            self.eks.delete_pod_identity_association(clusterName=self.name, associationId=found["associationId"])
        self.eks.delete_cluster(name=self.name)


@pytest.fixture
def site(emulator: Emulator) -> Iterator[Site]:
    made = Site(emulator)
    yield made
    made.close()


def test_every_step_at_which_a_pod_gets_none_and_what_its_session_may_do(site: Site) -> None:
    assert "No Pod Identity association for service account ray in namespace ray" in site.refused()
    site.associate()
    assert "is older than the Pod Identity association" in site.refused(age=timedelta(hours=1))
    assert "No Pod Identity association for service account default" in site.refused(account="default")
    assert "lacks the add-on eks-pod-identity-agent" in site.refused()
    site.eks.create_addon(clusterName=site.name, addonName="eks-pod-identity-agent")
    # the node's own role asks, and for this cluster only
    assert f"is not authorized to perform: {ASK} on resource: {site.arn}" in site.refused()
    site.nodes_may(ASK, resource=site.arn + "-of-another-name")
    assert ASK in site.refused()
    site.nodes_may(ASK, resource=site.arn)
    assert "does not reach eks-auth.us-west-2.api.aws:443" in site.refused()
    roles.way_out(site.ec2, site.vpc, site.subnets[0])
    # what the role's trust says of cluster, namespace and service account
    good = site.trust()
    for wrong in (site.trust("other"), site.trust(actions=("sts:AssumeRole",)), good.replace(site.arn, site.arn + "2")):
        site.trusts(wrong)
        assert "EKS does not have permissions to assume the associated role" in site.refused()
    site.trusts(good)
    found = site.ask()
    s3 = boto3.client(
        "s3", endpoint_url=site.emulator.control.endpoint, region_name="us-west-2",
        aws_access_key_id=found["AccessKeyId"], aws_secret_access_key=found["SecretAccessKey"],
        aws_session_token=found["Token"], config=botocore.config.Config(retries={"max_attempts": 0}, proxies={}),
    )  # fmt: skip
    s3.put_object(Bucket=f"{site.name}-data", Key="step-1", Body=b"x")
    for call in (
        lambda: s3.put_object(Bucket=f"{site.name}-other", Key="step-1", Body=b"x"),
        lambda: s3.get_object(Bucket=f"{site.name}-data", Key="step-1"),
    ):
        with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
            call()

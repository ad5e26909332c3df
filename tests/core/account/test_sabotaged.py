"""Accounts in which an environment cannot be deployed: each is found, and named as what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.today import VARIABLE
from tests.core.account.good import (
    ACCOUNT,
    ADMIN,
    CONTROL_1,
    CONTROL_2,
    EXISTING,
    FILE_SYSTEM,
    GONE,
    ISSUER,
    KEY,
    KUBECTL,
    NEW,
    NODES_1,
    NODES_2,
    REGION,
    TAG,
    VPC,
    account,
)
from tests.core.account.recorded import RecordedAccount
from tests.core.environment_files import plan
from tests.core.said import assert_said, line_of
from tests.core.three_parts import assert_form

# ruff: noqa: E501  (a case on one line)

Json = dict[str, Any]
DAY = "2026-11-22"
STATES: Json = yaml.safe_load((Path(__file__).parents[2] / "ops" / "account_states.yaml").read_text())
BUCKET = f"sagemaker-test-{ACCOUNT}-{REGION}"
TIER = f"tier-test-{ACCOUNT}-{REGION}"
OUR_STACK = {"status": "CREATE_COMPLETE", "tags": TAG}
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/abc"
APP = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:mlflow-app/app-ABCDEF123456"
RUNS = f"mlflow-test-{ACCOUNT}-{REGION}"
RECORDED = {**NEW, "ray/tracking": {"mlflow_app": {}}}
PACKAGES = f"arn:aws:codeartifact:{REGION}:{ACCOUNT}:repository/ml/pypi"
LOGIN = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:index-AbCdEf"
COPY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/ray@sha256:{'b' * 64}"
BY_ARTIFACT = {**NEW, "image": {"index": {"codeartifact_arn": PACKAGES}}}
BY_ADDRESS = {**NEW, "image": {"index": {"url": "https://pypi.example.com/simple", "secret_arn": LOGIN}}}
AMI = "ami-0123456789abcdef0"
LINKED = {**NEW, "storage/data_repositories": [{"bucket": "research-datasets", "path": "/data"}]}
OWN_AMI = {**NEW, "hyperpod/instance_groups/1/image_id": AMI}
AMI_THERE = {
    "Name": "ours", "State": "available", "OwnerId": ACCOUNT, "Architecture": "x86_64",
    "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": False}}],
}  # fmt: skip
TIERED = {"hyperpod/tiered_storage": {"memory_percent": 20}}
METRICS: Json = {"observability": {}}
GRAFANA = {
    **NEW,
    "hyperpod/alarm_emails": ["oncall@example.com"],
    "observability": {
        "grafana": {
            "workspace_name": "research",
            "workspace_arn": f"arn:aws:grafana:{REGION}:{ACCOUNT}:/workspaces/g-0123456789",
        }
    },
}
CLOSED = {"network/egress": "closed", "registries": {"mirror": True}}
TEAMS = {
    "teams": [
        {"name": "vision", "quota": [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "vcpus": 4}]}
    ],
    "ray/workers/0/replicas": 0,
}
POLICY, QUOTA = (
    f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/abcdefabcdef"
    for kind in ("cluster-scheduler-config", "compute-quota")
)
THERE = {
    "hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": []},
    "stacks > test-HyperPod": {**OUR_STACK, "resources": [ARN]},
}


@dataclass(frozen=True)
class Sabotage:
    """What is wrong with an account, and the rows that say so: title, severity, words of message and fix."""

    name: str
    edits: Json
    said: tuple[tuple[str, str, str], ...]
    file: Json = field(default_factory=lambda: EXISTING)


CASES = [
    Sabotage("no cost allocation tag", {"cost_tags": {}}, (("cost allocation tag", "warning", "no active cost allocation tag"),), file={**NEW, "budget": {"usd_per_month": 1000}}),
    # --- what the file names and the account does not have
    Sabotage("EKS cluster is not there", {"eks > shared": GONE, "addons": {"vpc-cni": None, "eks-pod-identity-agent": None}, "access_entries": {KUBECTL: None}},
             (("EKS cluster", "error", "shared: no such EKS cluster"), ("add-ons", "warning", "has no add-on vpc-cni"), ("add-ons", "error", "no add-on eks-pod-identity-agent"), ("kubectl role", "error", "no access entry"))),
    Sabotage("EKS cluster is being made", {"eks > shared > status": "CREATING"}, (("EKS cluster", "error", "is CREATING"),)),
    Sabotage("EKS cluster of another VPC", {"eks > shared > resourcesVpcConfig": {"vpcId": "vpc-0aaaaaaaaaaaaaaaa"}}, (("EKS cluster", "error", "is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("EKS cluster with aws-auth alone", {"eks > shared > accessConfig": {"authenticationMode": "CONFIG_MAP"}}, (("EKS cluster", "error", "authentication mode CONFIG_MAP"),)),
    Sabotage("EKS cluster too old for HyperPod", {"eks > shared > version": "1.29"}, (("EKS cluster", "error", "does not support Kubernetes 1.29"),)),
    Sabotage("EKS cluster two versions from the file", {"eks > shared > version": "1.32"}, (("EKS cluster", "error", 'set eks.version: "1.32"'), ("EKS cluster", "warning", "1.32 is in extended support"))),
    Sabotage("another OIDC issuer", {"eks > shared > identity": {"oidc": {"issuer": f"{ISSUER}D"}}}, (("EKS cluster", "error", f"set eks.existing.oidc_issuer_url: {ISSUER}D"),)),
    Sabotage("another cluster security group", {"eks > shared > resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0aaaaaaaaaaaaaaaa"}}, (("EKS cluster", "error", "sg-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("private endpoint is off", {"eks > shared > resourcesVpcConfig": {"endpointPrivateAccess": False}}, (("EKS cluster", "error", "private endpoint of shared is off"),)),
    Sabotage("no OIDC provider in IAM", {"oidc": []}, (("OIDC provider", "error", "no OIDC provider"),)),
    Sabotage("kubectl role without an entry", {"access_entries": {KUBECTL: None}}, (("kubectl role", "error", "has no access entry"),)),
    Sabotage("kubectl role that may only look", {"access_entries": {KUBECTL: ["arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"]}}, (("kubectl role", "error", "lacks AmazonEKSClusterAdminPolicy"),)),
    Sabotage("kubectl role that Lambda may not assume", {"roles > kubectl": {"trust": {"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}}]}}}, (("roles", "error", "kubectl does not trust lambda.amazonaws.com"),)),
    Sabotage("old CNI", {"addons > vpc-cni": "v1.16.0-eksbuild.1"}, (("add-ons", "error", "Expected 1.18.3"),)),
    Sabotage("CNI without policies", {"addon_configuration": {"vpc-cni": '{"enableNetworkPolicy": "false"}'}}, (("add-ons", "error", "ignores every NetworkPolicy"),)),
    Sabotage("CNI as it comes", {"addon_configuration": {"vpc-cni": ""}}, (("add-ons", "error", "update-addon --cluster-name shared --addon-name vpc-cni"),)),
    Sabotage("no VPC", {"vpcs > " + VPC: GONE}, (("VPC", "error", f"{VPC}: no such VPC"),)),
    Sabotage("another range of the VPC", {f"vpcs > {VPC} > CidrBlock": "10.1.0.0/16"}, (("VPC", "error", "set network.existing.vpc_cidr: 10.1.0.0/16"),)),
    Sabotage("no names in the VPC", {f"vpcs > {VPC} > enableDnsHostnames": False}, (("VPC", "error", "EnableDnsHostnames"),)),
    Sabotage("no node subnet", {f"subnets > {NODES_2}": GONE}, (("subnets", "error", f"{NODES_2}: no such subnet"),)),
    Sabotage("no control-plane subnet", {f"subnets > {CONTROL_2}": GONE}, (("subnets", "error", f"{CONTROL_2}: no such subnet"),)),
    Sabotage("node subnet of another VPC", {f"subnets > {NODES_1} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("subnets", "error", f"{NODES_1} is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("control-plane subnet of another VPC", {f"subnets > {CONTROL_1} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("subnets", "error", f"{CONTROL_1} is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("node subnet in another zone", {f"subnets > {NODES_2} > AvailabilityZoneId": "usw2-az3"}, (("subnets", "error", f"{NODES_2} is in usw2-az3. Expected usw2-az2"),)),
    Sabotage("control-plane subnets in one zone", {f"subnets > {CONTROL_2} > AvailabilityZoneId": "usw2-az1"}, (("subnets", "error", f"{CONTROL_2} is in usw2-az1. Expected usw2-az2"),)),
    Sabotage("another range of a subnet", {f"subnets > {NODES_1} > CidrBlock": "10.0.0.0/24"}, (("subnets", "error", "set network.existing.node_subnet_cidrs.usw2-az1: 10.0.0.0/24"),)),
    Sabotage("full subnet", {f"subnets > {NODES_1} > AvailableIpAddressCount": 100}, (("subnets", "error", "100 free"),)),
    Sabotage("full control-plane subnet", {f"subnets > {CONTROL_1} > AvailableIpAddressCount": 3}, (("subnets", "error", "3 free addresses. Expected 6"),)),
    Sabotage("public node subnets", {"route_tables > 0 > Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-0123", "State": "active"}]}, (("routes", "error", f"{NODES_1} routes to an internet gateway"), ("routes", "error", f"{NODES_2} routes to an internet gateway"))),
    Sabotage("NAT gateway that is gone", {"route_tables > 0 > Routes > 0 > State": "blackhole"}, (("routes", "error", f"{NODES_1} leads nowhere"), ("routes", "error", f"{NODES_2} leads nowhere"))),
    Sabotage("no way out", {"route_tables > 0 > Routes": []}, (("routes", "error", f"{NODES_1} has no route out"), ("routes", "error", f"{NODES_2} has no route out"))),
    Sabotage("a way to other networks alone", {"route_tables > 0 > Routes": [{"DestinationCidrBlock": "10.0.0.0/8", "TransitGatewayId": "tgw-0123", "State": "active"}]}, (("routes", "warning", f"{NODES_1} has no default route"), ("routes", "warning", f"{NODES_2} has no default route"))),
    Sabotage("no file system", {f"file_systems > {FILE_SYSTEM}": GONE}, (("file system", "error", f"{FILE_SYSTEM}: no such file system"),)),
    Sabotage("file system of another VPC", {f"file_systems > {FILE_SYSTEM} > VpcId": "vpc-0aaaaaaaaaaaaaaaa"}, (("file system", "error", "is in vpc-0aaaaaaaaaaaaaaaa. Expected vpc-0123456789abcdef0, the VPC of the nodes"),)),
    Sabotage("another mount name", {f"file_systems > {FILE_SYSTEM} > LustreConfiguration": {"MountName": "zzzzzzzz"}}, (("file system", "error", "set storage.existing.mount_name: zzzzzzzz"),)),
    Sabotage("file system in another zone", {f"file_systems > {FILE_SYSTEM} > SubnetIds": [NODES_2]}, (("file system", "error", "set storage.existing.availability_zone_id: usw2-az2"),)),
    Sabotage("failed file system", {f"file_systems > {FILE_SYSTEM} > Lifecycle": "FAILED"}, (("file system", "error", "is FAILED"),)),
    Sabotage("no Lustre", {f"file_systems > {FILE_SYSTEM} > FileSystemType": "OPENZFS"}, (("file system", "error", "is OPENZFS"),)),
    Sabotage("file system with a new VPC", {}, (("file system", "error", "the Network stack creates another VPC"),), file={"storage": EXISTING["storage"]}),
    Sabotage("no key", {f"keys > {KEY}": GONE}, (("KMS keys", "error", "no such key"),)),
    # https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html: the nodes' role creates grants
    Sabotage("key lets the account's roles decrypt alone", {"key_policies": {KEY: {"Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": ["kms:Decrypt", "kms:DescribeKey"], "Resource": "*"}]}}}, (("KMS keys", "warning", "create grants by IAM"),)),
    Sabotage("key is to be deleted", {f"keys > {KEY} > KeyState": "PendingDeletion"}, (("KMS keys", "error", "cancel-key-deletion"),)),
    Sabotage("key is off", {f"keys > {KEY} > KeyState": "Disabled"}, (("KMS keys", "error", "enable-key"),)),
    Sabotage("key signs", {f"keys > {KEY}": {"KeyUsage": "SIGN_VERIFY", "KeySpec": "RSA_2048"}}, (("KMS keys", "error", "RSA_2048 for SIGN_VERIFY"),)),
    Sabotage("no training plan", {"training_plans > spring": GONE}, (("training plans", "error", "no such training plan"),)),
    Sabotage("expired plan", {"training_plans > spring > Status": "Expired"}, (("training plans", "error", "it is Expired"),)),
    Sabotage("plan of another type", {"training_plans > spring > ReservedCapacitySummaries > 0 > InstanceType": "ml.p5e.48xlarge"}, (("training plans", "error", "it reserves ml.p5e.48xlarge. Expected ml.p5.48xlarge"),)),
    Sabotage("plan of another zone", {"training_plans > spring > ReservedCapacitySummaries > 0 > AvailabilityZone": "us-west-2c"}, (("training plans", "error", "it is in usw2-az3. Expected usw2-az1"),)),
    Sabotage("small plan", {"training_plans > spring": {"TotalInstanceCount": 2, "AvailableInstanceCount": 2}}, (("training plans", "error", "it reserves 2 instances. Expected 4 or more"),)),
    Sabotage("plan that others use", {"training_plans > spring > AvailableInstanceCount": 1}, (("training plans", "error", "1 of its 8 instances are free"),)),
    Sabotage("plan for training jobs", {"training_plans > spring > TargetResources": ["training-job"]}, (("training plans", "error", "not for HyperPod"),)),
    Sabotage("no role", {"roles > Admin": GONE}, (("roles", "error", "Admin: no such role"),), file=NEW),
    Sabotage("role of another path", {"roles > Admin > Arn": ADMIN.replace("teams/", "")}, (("roles", "error", "the role Admin is arn:aws:iam::123456789012:role/Admin. Expected"),), file=NEW),
    Sabotage("no alarm", {"alarms": []}, (("alarms", "error", "gpu-errors: no such alarm"),)),
    Sabotage("no MLflow server", {"mlflow": {"team": None}}, (("MLflow", "error", "team: no such server"),)),
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html (TrackingServerStatus)
    Sabotage("MLflow server that failed", {"mlflow": {"team": "CreateFailed"}}, (("MLflow", "error", "team is CreateFailed"),)),
    Sabotage("MLflow server that goes", {"mlflow": {"team": "Deleting"}}, (("MLflow", "error", "team is Deleting"),)),
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html: of another Region, with its name
    Sabotage("bucket of another Region", {"buckets": {"research-datasets": "eu-west-1"}}, (("buckets", "error", "is in eu-west-1, and FSx imports"),), file=LINKED),
    Sabotage("bucket that redirects", {"buckets": {"research-datasets": "redirect eu-west-1"}}, (("buckets", "error", "is in eu-west-1, and FSx imports"),), file=LINKED),
    Sabotage("no bucket", {"buckets": {"training-sets": None}}, (("buckets", "error", "training-sets: no such bucket"),)),
    Sabotage("bucket of somebody else", {"buckets": {"training-sets": "forbidden"}}, (("buckets", "unknown", "may not see it"),)),
    Sabotage("no image", {"images > team/ray": []}, (("image", "error", "is not in ECR"),)),
    Sabotage("no cache", {"caches": {"quay": None}}, (("pull-through caches", "error", "quay: no such"),)),
    Sabotage("no such zone", {"zones > us-west-2a": {"OptInStatus": "not-opted-in"}}, (("zones", "error", "usw2-az2: not a zone"),), file=NEW),
    Sabotage("type is not in the zone", {"offerings > p5.48xlarge": ["usw2-az3"]}, (("instance types", "error", "use usw2-az3"),), file=NEW),
    Sabotage("EKS lacks the version", {"versions > 1.35": GONE}, (("EKS version", "error", "EKS offers no version 1.35"),), file=NEW),
    # --- names that are taken
    Sabotage("bucket of another account", {"buckets": {BUCKET: "forbidden"}}, (("bucket names", "error", "another account"),), file=NEW),
    Sabotage("bucket of another stack", {"buckets": {BUCKET: REGION}, "stacks > theirs-Eks": {"status": "CREATE_COMPLETE", "resources": [BUCKET]}}, (("bucket names", "error", "belongs to stack theirs-Eks"),), file=NEW),
    Sabotage("bucket left behind, empty", {"buckets": {BUCKET: REGION}}, (("bucket names", "error", f"aws s3 rb s3://{BUCKET}, which is empty"),), file=NEW),
    Sabotage("bucket left behind, with somebody's file", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: ["on_create.sh", "thesis.pdf"]}}, (("bucket names", "error", "it holds on_create.sh, thesis.pdf: look at them"),), file=NEW),
    Sabotage("bucket left behind, with many files", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: [f"{n}.pt" for n in range(9)]}}, (("bucket names", "error", "4.pt and more: look"),), file=NEW),
    Sabotage("bucket left behind, closed to a look", {"buckets": {BUCKET: REGION}, "objects": {BUCKET: "forbidden"}}, (("bucket names", "error", "with a role that may list it"),), file=NEW),
    Sabotage("ECR answers with no image", {"empty_answers": True}, (("image", "error", "is not in ECR"),)),
    Sabotage("secret of a job is not there", {}, (("secrets of jobs", "error", "no such secret in us-west-2"),), file={**NEW, "ray/access": {"secret_arns": [LOGIN]}}),
    Sabotage("secret of a job is going", {"secrets > " + LOGIN: {"DeletedDate": datetime(2026, 12, 1, tzinfo=UTC)}}, (("secrets of jobs", "error", "is scheduled for deletion"),), file={**NEW, "ray/access": {"secret_arns": [LOGIN]}}),
    Sabotage("repository of jobs is not there", {}, (("repositories of jobs", "error", "team/jobs: no such repository"),), file={**NEW, "registries/pull_from": [f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/jobs"]}),
    Sabotage("no repository of a pattern", {"repositories": ["team"]}, (("repositories of jobs", "warning", "team/*: no such repository"),), file={**NEW, "registries/pull_from": [f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/*"]}),
    Sabotage("Grafana workspace is not there", {}, (("Grafana workspace", "error", "g-0123456789: no such Grafana workspace"),), file=GRAFANA),
    Sabotage("Grafana workspace is being made", {"grafana": {"g-0123456789": "CREATING"}}, (("Grafana workspace", "error", "is CREATING"),), file=GRAFANA),
    Sabotage("Grafana may not be asked", {"grafana": {"g-0123456789": "forbidden"}}, (("Grafana workspace", "unknown", "may not describe it"),), file=GRAFANA),
    Sabotage("own AMI is not there", {}, (("AMIs", "error", f"{AMI}: no such AMI in us-west-2"),), file=OWN_AMI),
    Sabotage("own AMI is of others", {"amis": {AMI: {**AMI_THERE, "OwnerId": "999999999999"}}}, (("AMIs", "error", "is of account 999999999999"),), file=OWN_AMI),
    Sabotage("own AMI is encrypted", {"amis": {AMI: {**AMI_THERE, "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True}}]}}}, (("AMIs", "error", "is encrypted"),), file=OWN_AMI),
    Sabotage("own AMI has a second volume", {"amis": {AMI: {**AMI_THERE, "BlockDeviceMappings": [{"Ebs": {}}, {"Ebs": {}}, {"VirtualName": "ephemeral0"}]}}}, (("AMIs", "error", "has 2 volumes"),), file=OWN_AMI),
    Sabotage("own AMI is of Graviton", {"amis": {AMI: {**AMI_THERE, "Architecture": "arm64"}}}, (("AMIs", "error", "is for arm64"),), file=OWN_AMI),
    Sabotage("own AMI is being created", {"amis": {AMI: {**AMI_THERE, "State": "pending"}}}, (("AMIs", "error", "is pending"),), file=OWN_AMI),
    Sabotage("AMI release that nobody knows", {}, (("AMI releases", "unknown", "99.99.99"),), file={**NEW, "hyperpod/instance_groups/1/image_release_version": "99.99.99"}),
    Sabotage("tier bucket left behind", {"buckets": {TIER: REGION}}, (("bucket names", "error", f"set hyperpod.tiered_storage.bucket: {TIER}"),), file=TIERED),
    Sabotage("MLflow bucket left behind", {"buckets": {RUNS: REGION}}, (("bucket names", "error", "name the app that uses it in ray.access.mlflow_arn"),), file=RECORDED),
    Sabotage("MLflow app left behind", {"mlflow_apps": {APP: ("test", "Created")}}, (("MLflow", "warning", f"set ray.access.mlflow_arn: {APP}"),), file=RECORDED),
    Sabotage("MLflow app that failed", {"mlflow_apps": {APP: ("test", "UpdateFailed")}, "stacks > test-Ray": {**OUR_STACK, "resources": [APP]}}, (("MLflow", "error", f"{APP} is UpdateFailed"),), file=RECORDED),
    # --- what an image build needs
    Sabotage("no repository of packages", {"packages": {f"{ACCOUNT}/ml/pypi": None}}, (("package index", "error", f"ml/pypi: no such repository in {REGION}"),), file=BY_ARTIFACT),
    Sabotage("no secret of the index", {"secrets": {}}, (("package index", "error", f"index-AbCdEf: no such secret in {REGION}"),), file=BY_ADDRESS),
    Sabotage("secret of the index goes away", {"secrets": {LOGIN: {"DeletedDate": datetime(2026, 11, 1, tzinfo=UTC)}}}, (("package index", "error", "scheduled for deletion"),), file=BY_ADDRESS),
    Sabotage("secret of the index with a key of its own", {"secrets": {LOGIN: {"KmsKeyId": KEY}}}, (("package index", "warning", "the build's role may not decrypt with it"),), file=BY_ADDRESS),
    Sabotage("no base image", {"images > team/ray": []}, (("image", "error", f"{COPY} is not in ECR"),), file={**NEW, "image": {"base": COPY}}),
    Sabotage("EKS name of another stack", {"eks > test-eks": {"status": "ACTIVE", "version": "1.35"}, "stacks > theirs-Eks": {"status": "CREATE_COMPLETE", "resources": ["test-eks"]}}, (("cluster names", "error", "EKS cluster test-eks belongs to stack theirs-Eks"),), file=NEW),
    Sabotage("EKS name by hand", {"eks > test-eks": {"status": "ACTIVE", "version": "1.35"}}, (("cluster names", "error", "name it in eks.existing"),), file=NEW),
    Sabotage("HyperPod name of another environment", {"hyperpod > test": {"ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": []}, "stacks > old-HyperPod": {"status": "CREATE_COMPLETE", "resources": [ARN]}}, (("cluster names", "error", "belongs to stack old-HyperPod"),), file=NEW),
    Sabotage("repository left behind", {"repositories": ["ray-test"]}, (("left behind", "error", "set image.repository_exists: true"),), file=NEW),
    Sabotage("repository of another environment", {"repositories": ["ray-test"], "stacks > other-Image": {"status": "CREATE_COMPLETE", "resources": ["ray-test"]}}, (("left behind", "error", "belongs to stack other-Image"),), file=NEW),
    Sabotage("log group left behind", {"log_groups": ["/aws/eks/test-eks/cluster"]}, (("left behind", "error", "set eks.log_group_exists: true"),), file=NEW),
    Sabotage("flow logs left behind", {"log_groups": ["/aws/vpc/ray-on-hyperpod/test"]}, (("left behind", "error", "set network.flow_log_group_exists: true"),), file=NEW),
    Sabotage("events left behind", {"log_groups": ["/aws/events/ray-on-hyperpod/test"]}, (("left behind", "error", "set hyperpod.event_log_group_exists: true"),), file=NEW),
    Sabotage("stack of another project", {"stacks > test-Network": {"status": "CREATE_COMPLETE"}}, (("stack names", "error", "is of another project"),), file=NEW),
    Sabotage("stack that no update begins from", {"stacks > test-Network": {**OUR_STACK, "status": "UPDATE_ROLLBACK_FAILED"}}, (("stack names", "error", "continue-update-rollback"),), file=NEW),
    Sabotage("file system kept by a teardown", {f"file_systems > {FILE_SYSTEM}": {"Tags": [{"Key": "hyperpod-ray:environment", "Value": "test"}]}}, (("kept file systems", "warning", f"file_system_id: {FILE_SYSTEM}, mount_name: fsx1abcd"),), file=NEW),
    # --- quotas
    Sabotage("no addresses left", {"addresses": 5}, (("network quotas", "error", "EC2-VPC Elastic IPs: 1 asked and 5 used by others, 5 allowed"),), file=NEW),
    Sabotage("no NAT gateways left", {"quotas > vpc": {"NAT gateways per Availability Zone": 0}}, (("network quotas", "error", "NAT gateways per Availability Zone"),), file=NEW),
    Sabotage("few endpoints", {"quotas > vpc": {"Interface VPC endpoints per VPC": 10}}, (("network quotas", "error", "Interface VPC endpoints per VPC"),), file=CLOSED),
    Sabotage("no EKS clusters left", {"quotas > eks": {"Clusters": 2}, "more_eks": ["one"]}, (("EKS quotas", "error", "Clusters: 1 asked and 2 used by others"),), file=NEW),
    Sabotage("no Lustre capacity left", {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 5000}}, (("FSx quotas", "error", "1200 asked and 4800 used by others"),), file=NEW),
    Sabotage("no workspaces left", {"quotas > aps": {"Workspaces per region per account": 2}, "workspaces": [{}, {"team": "other"}]}, (("metrics quota", "error", "Workspaces per region per account: 1 asked and 2 used by others, 2 allowed"),), file=METRICS),
    Sabotage("few instances", {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 3}}, (("quotas", "error", "4 asked, 3 allowed"),), file=NEW),
    Sabotage("a quota of another name", {"quotas > eks": GONE, "quotas": {"eks": {"Something": 1}}}, (("EKS quotas", "unknown", "no quota is called 'Clusters'"),), file=NEW),
    Sabotage("topic that may not be read", {"errors": {"sns.get_topic_attributes": "AuthorizationError"}}, (("topic of alarms", "unknown", "these credentials may not read its policy"),), file={**NEW, "hyperpod/alarm_topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:on-call"}),
    Sabotage("no topic of alarms", {}, (("topic of alarms", "error", "on-call: no such topic"),), file={**NEW, "hyperpod/alarm_topic_arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:on-call"}),
    # --- teams
    Sabotage("task governance on an existing cluster", {"addons > amazon-sagemaker-hyperpod-taskgovernance": "v1.6.0-eksbuild.1"}, (("add-ons that are created", "error", "kubectl get workloads -A); then aws eks delete-addon --cluster-name shared --addon-name amazon-sagemaker-hyperpod-taskgovernance, which ends its Kueue"),), file={**EXISTING, **TEAMS}),
    Sabotage("a policy made by hand", {"policies": {POLICY: "by-hand"}, **THERE}, (("task governance", "warning", "describe-cluster-scheduler-config --cluster-scheduler-config-id abcdefabcdef"),), file={**NEW, **TEAMS}),
    Sabotage("a team's quota of another stack", {"team_quotas": {QUOTA: "vision"}, **THERE, "stacks > theirs": {"status": "CREATE_COMPLETE", "resources": [QUOTA]}}, (("task governance", "error", "team 'vision' has the quota some-vision already"),), file={**NEW, **TEAMS}),
    # --- the caller
    Sabotage("not bootstrapped", {"parameters": {"/cdk-bootstrap/hnb659fds/version": None}}, (("bootstrap", "error", "is not bootstrapped"),), file=NEW),
    Sabotage("the bootstrap's bucket is gone", {"buckets": {f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}": None}}, (("bootstrap bucket", "error", "no such bucket, and the bootstrap stack says that it is there"),), file=NEW),
    Sabotage("the bootstrap's bucket may not be seen", {"buckets": {f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}": "forbidden"}}, (("bootstrap bucket", "unknown", "may not see it"),), file=NEW),
    Sabotage("may not deploy", {"denied": ["sts:AssumeRole"]}, (("permissions", "error", "may not assume the deployment's role"),), file=NEW),
]  # fmt: skip


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, DAY)


def judged(file: Json, edits: Json) -> dict[str, list[Finding]]:
    """Findings of each rule of the account, by its title."""
    evidence = Evidence(account=RecordedAccount(account(edits)))
    made = plan(file)
    return {rule.title: list(rule(made, evidence)) for rule in account_rules() if rule.concerns(made)}


def bad(found: dict[str, list[Finding]]) -> list[tuple[str, Finding]]:
    return [(title, one) for title, all_ in found.items() for one in all_ if one.severity not in ("fine", "skipped")]


@pytest.mark.parametrize("file", [NEW, EXISTING, {**CLOSED, **TIERED}], ids=["new", "existing", "closed"])
def test_a_good_account_is_fine(file: Json) -> None:
    found = judged(file, {})
    assert [(title, one.message) for title, one in bad(found)] == []
    assert all(found.values()), "every rule answers"
    assert {one.path[0] for listed in found.values() for one in listed if one.path} <= SECTIONS


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sabotage(case: Sabotage) -> None:
    found = bad(judged(case.file, case.edits))
    shown = [(title, one.severity, one.message) for title, one in found]
    assert len(shown) == len(case.said), shown
    for title, severity, words in case.said:
        assert any(a == title and b == severity and words in text for a, b, text in shown), shown
    for _, one in found:
        assert_form(one)
        assert not destroys_blindly(one.fix), one.fix


def said_by_cases() -> Iterator[str]:
    """What the named rules say of each case, for `messages.txt`."""
    for case in CASES:
        for title, one in said_by_named(case):
            yield line_of(title, one.severity, ".".join(map(str, one.path)), one.message)


def said_by_named(case: Sabotage) -> list[tuple[str, Finding]]:
    """What the rules say that a case names."""
    made = plan(case.file)
    evidence = Evidence(account=RecordedAccount(account(case.edits)))
    titles = {title for title, _, _ in case.said}
    rules = [rule for rule in account_rules() if rule.title in titles and rule.concerns(made)]
    return bad({rule.title: list(rule(made, evidence)) for rule in rules})


SECTIONS = {name.partition("/")[0] for name in Environment.model_fields}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    """... each at a setting of the file. All the others together are asked by the slow test above."""
    found = said_by_named(case)
    shown = [(title, one.severity, one.message) for title, one in found]
    assert len(shown) == len(case.said), shown
    for title, severity, words in case.said:
        assert any(a == title and b == severity and words in text for a, b, text in shown), shown
    assert {one.path[0] for _, one in found if one.path} <= SECTIONS
    for title, one in found:
        assert_said(line_of(title, one.severity, ".".join(map(str, one.path)), one.message))


DESTROYS = re.compile(r"\b(delete-[a-z-]+|rb s3|kubectl delete|s3 rm|batch-delete|deregister|terminate)\b")
LOOKED = re.compile(r"which is empty|see that nobody|describe-|look at|--preserve")


def destroys_blindly(fix: str) -> bool:
    """Whether a fix deletes something that nobody has looked at, or forces it."""
    return "--force" in fix or bool(DESTROYS.search(fix) and not LOOKED.search(fix))


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    tripped = {title for case in CASES for title, _, _ in case.said}
    silent = {rule.title for rule in account_rules() if rule.orchestrator != "slurm"} - tripped
    covered = {row.split(" | ")[0] for state in STATES.values() for row in state.get("said", [])}
    assert silent - covered == {"tier bucket", "mirror repositories"}, "covered below"


def test_service_linked_roles_are_said() -> None:
    (found,) = judged(NEW, {"roles > AWSServiceRoleForAmazonEKS": GONE})["deployment role"]
    assert (found.severity, "AWSServiceRoleForAmazonEKS will be created" in found.message) == ("fine", True)


@pytest.mark.parametrize(
    ("title", "file", "edits", "says"),
    [
        ("EKS quotas", NEW, {"quotas > eks": {"Clusters": 3}, "more_eks": ["one"]}, "Clusters: 1 asked and 2 used by others, 3 allowed"),
        ("FSx quotas", NEW, {"quotas > fsx": {"Lustre Persistent_2 storage capacity": 6000}}, "1200 asked and 4800 used by others, 6000 allowed"),
        ("network quotas", NEW, {"addresses": 4}, "EC2-VPC Elastic IPs: 1 asked and 4 used by others, 5 allowed"),
        ("metrics quota", METRICS, {"quotas > aps": {"Workspaces per region per account": 3}, "workspaces": [{}, {"team": "other"}]}, "1 asked and 2 used by others, 3 allowed"),
        ("quotas", NEW, {"quotas > sagemaker": {"ml.p5.48xlarge for cluster usage": 4}}, "4 asked, 4 allowed"),
    ],
)  # fmt: skip
def test_the_last_that_a_quota_allows_is_fine(title: str, file: Json, edits: Json, says: str) -> None:
    made = plan(file)
    (rule,) = [rule for rule in account_rules() if rule.title == title]
    found = list(rule(made, Evidence(account=RecordedAccount(account(edits)))))
    assert [one.message for one in found if one.severity != "fine"] == []
    assert any(says in one.message for one in found), [one.message for one in found]


@pytest.mark.parametrize("action", ["eks:CreateCluster", "fsx:CreateFileSystem", "ec2:CreateVpc"])
def test_the_deployment_role_creates_only_what_is_new(action: str) -> None:
    (new,) = judged(NEW, {"denied": [action]})["deployment role"]
    (existing,) = judged(EXISTING, {"denied": [action]})["deployment role"]
    assert (new.severity, action in new.what, existing.severity) == ("error", True, "fine")


@pytest.mark.parametrize(
    "action", ["eks:AssociateAccessPolicy", "sagemaker:CreateComputeQuota", "sagemaker:CreateClusterSchedulerConfig"]
)
def test_the_deployment_role_creates_quotas_where_there_are_teams(action: str) -> None:
    (without,) = judged(NEW, {"denied": [action]})["deployment role"]
    (teams,) = judged({**NEW, **TEAMS}, {"denied": [action]})["deployment role"]
    assert (without.severity, teams.severity, action in teams.what) == ("fine", "error", True)


@pytest.mark.parametrize(
    ("file", "edits", "severity", "said"),
    [
        (BY_ARTIFACT, {}, "fine", "ml/pypi"),
        (BY_ADDRESS, {"secrets": {LOGIN: {"Name": "index"}}}, "fine", "index-AbCdEf"),
        (NEW, {}, "skipped", "PyPI"),
        ({**NEW, "image": {"index": {"url": "https://pypi.example.com/simple"}}}, {}, "skipped", "cannot be asked"),
        (
            {**NEW, "image": {"index": {"codeartifact_arn": PACKAGES.replace(REGION, "eu-west-1")}}},
            {},
            "skipped",
            "eu-west-1",
        ),
        (EXISTING, {}, "skipped", "no image is built"),
    ],
)
def test_what_a_build_needs_is_asked_for_where_it_can_be(file: Json, edits: Json, severity: str, said: str) -> None:
    (found,) = judged(file, edits)["package index"]
    assert (found.severity, said in found.what) == (severity, True), found


def test_a_base_image_is_asked_for_by_its_digest() -> None:
    found = judged({**NEW, "image": {"base": COPY}}, {"images > team/ray": [f"sha256:{'b' * 64}"]})["image"]
    assert [one.severity for one in found] == ["fine", "fine"]


@pytest.mark.parametrize(
    ("file", "call"),
    [
        (BY_ARTIFACT, "codeartifact.describe_repository"),
        (BY_ADDRESS, "secretsmanager.describe_secret"),
        (RECORDED, "sagemaker.list_mlflow_apps"),
    ],
)
def test_a_denied_right_is_no_answer(file: Json, call: str) -> None:
    """A rule that is denied its question says nothing: `preflight` then has the row unknown, with the right."""
    with pytest.raises(ClientError, match="AccessDeniedException"):
        judged(file, {"errors": {call: "AccessDeniedException"}})


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({}, "the Ray stack creates app test"),
        ({"mlflow_apps": {APP: ("theirs", "Created")}}, "the Ray stack creates app test"),
        ({"mlflow_apps": {APP: ("test", "Deleting")}}, "the Ray stack creates app test"),
        (
            {"mlflow_apps": {APP: ("test", "Created")}, "stacks > test-Ray": {**OUR_STACK, "resources": [APP]}},
            "Created",
        ),
    ],
)
def test_a_new_mlflow_app_is_fine(edits: Json, said: str) -> None:
    (found,) = judged(RECORDED, edits)["MLflow"]
    assert (found.severity, said in found.what) == ("fine", True)


def test_the_deployment_role_creates_an_app_where_one_is_asked_for() -> None:
    edits = {"denied": ["sagemaker:CreateMlflowApp"]}
    (without,) = judged(NEW, edits)["deployment role"]
    (asked,) = judged(RECORDED, edits)["deployment role"]
    assert (without.severity, asked.severity, "sagemaker:CreateMlflowApp" in asked.what) == ("fine", "error", True)


def test_the_deployment_role_is_simulated_on_every_resource() -> None:
    asked = RecordedAccount(account({}))
    (rule,) = [one for one in account_rules() if one.title == "deployment role"]
    list(rule(plan(NEW), Evidence(account=asked)))
    (simulated,) = [arguments for operation, arguments in asked.requests if operation == "simulate_principal_policy"]
    assert simulated["ResourceArns"] == ["*"]
    assert ":role/cdk-hnb659fds-cfn-exec-role-" in simulated["PolicySourceArn"]


def test_who_denies_the_deployment_role_is_said() -> None:
    assert (
        "by a control policy of the organization"
        in judged(NEW, {"denied": ["iam:CreateRole"], "denied_by": "organization"})["deployment role"][0].what
    )
    assert (
        "by a boundary"
        in judged(NEW, {"denied": ["iam:CreateRole"], "denied_by": "boundary"})["deployment role"][0].what
    )


def test_notifications_of_a_bucket_without_automatic_import_are_fine() -> None:
    link = {"bucket": "research-datasets", "path": "/data", "auto_import": []}
    taken = {"QueueConfigurations": [{"QueueArn": "arn:aws:sqs:us-west-2:1:q", "Events": ["s3:ObjectCreated:*"]}]}
    settings = {"bucket_settings > research-datasets": {"notifications": taken}}
    assert [one.severity for one in judged({"storage/data_repositories": [link]}, settings)["linked buckets"]] == [
        "fine"
    ]


@pytest.mark.parametrize(
    ("edits", "severity", "words"),
    [
        ({}, "error", "runs: no such bucket"),
        ({"buckets": {"runs": REGION}}, "warning", "no lifecycle rule"),
        ({"buckets": {"runs": REGION}, "lifecycles": {"runs": [{"Status": "Enabled", "Expiration": {"Days": 7}}]}}, "fine", "runs"),
    ],
)  # fmt: skip
def test_an_existing_tier_bucket(edits: Json, severity: str, words: str) -> None:
    (found,) = judged({"hyperpod/tiered_storage": {"memory_percent": 20, "bucket": "runs"}}, edits)["tier bucket"]
    assert (found.severity, words in found.message) == (severity, True)


def test_an_ami_of_ones_own_that_fits() -> None:
    (fit,) = judged(OWN_AMI, {"amis": {AMI: AMI_THERE}})["AMIs"]
    assert (fit.severity, fit.message) == ("fine", f"{AMI} (ours) fits ml.p5.48xlarge")


def test_a_mirror_repository_that_is_taken() -> None:
    made = judged(CLOSED, {})["mirror repositories"]
    assert {one.severity for one in made} == {"fine"}
    name = made[0].message.removesuffix(" is free")
    taken = judged(CLOSED, {"repositories": [name]})["mirror repositories"]
    assert [one.severity for one in taken].count("error") == 1
    assert any("which is empty" in one.message for one in taken)
    full = judged(CLOSED, {"repositories": [name], "image_tags": {name: ["1.0", "mine"]}})["mirror repositories"]
    assert any("it holds 2 images (1.0, mine): look at them" in one.message for one in full)


def test_no_fix_forces_a_deletion() -> None:
    edits = {
        "buckets": {BUCKET: REGION, RUNS: REGION},
        "repositories": ["ray-test"],
        "objects": {BUCKET: ["a"]},
        **THERE,
    }
    for file in (RECORDED, CLOSED, NEW):
        for _, one in bad(judged(file, edits)):
            assert "--force" not in one.fix, one.message


def test_what_the_environment_has_made_itself_is_fine() -> None:
    edits = {
        "buckets": {BUCKET: REGION},
        "repositories": ["ray-test"],
        "log_groups": ["/aws/eks/test-eks/cluster"],
        "eks > test-eks": {"status": "ACTIVE", "version": "1.35"},
        "hyperpod > test": {
            "ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": [],
        },
        "stacks": {
            "test-Network": {**OUR_STACK, "resources": ["/aws/eks/test-eks/cluster"]},
            "test-Eks": {**OUR_STACK, "resources": [BUCKET, "test-eks"]},
            "test-Image": {**OUR_STACK, "resources": ["ray-test"]},
            "test-HyperPod": {**OUR_STACK, "resources": [ARN]},
        },
    }  # fmt: skip
    assert [(title, one.message) for title, one in bad(judged(NEW, edits))] == []


def test_a_workspace_of_the_environment_is_the_one_that_is_asked() -> None:
    edits = {"quotas > aps": {"Workspaces per region per account": 2}, "workspaces": [{}, TAG]}
    (row,) = judged(METRICS, edits)["metrics quota"]
    assert (row.severity, row.message) == (
        "fine", "Workspaces per region per account: 1 asked and 1 used by others, 2 allowed",
    )  # fmt: skip


def test_a_call_that_is_refused_leaves_one_rule_without_an_answer() -> None:
    from botocore.exceptions import ClientError

    with pytest.raises(ClientError):
        judged(NEW, {"errors": {"eks.describe_cluster_versions": "AccessDeniedException"}})

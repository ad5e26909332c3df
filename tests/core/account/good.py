"""Two environments and an account in which both can be deployed: everything new, and everything that exists."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
ACCOUNT, REGION = "123456789012", "us-west-2"
VPC, NODES_1, NODES_2 = "vpc-0123456789abcdef0", "subnet-0123456789abcdef0", "subnet-0123456789abcdef1"
CONTROL_1, CONTROL_2 = "subnet-0123456789abcdef2", "subnet-0123456789abcdef3"
FILE_SYSTEM, GROUP = "fs-0123456789abcdef0", "sg-0123456789abcdef0"
OPEN_ZFS = "fs-0abcdef0123456789"
ISSUER = "https://oidc.eks.us-west-2.amazonaws.com/id/ABC"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KUBECTL, ADMIN = f"arn:aws:iam::{ACCOUNT}:role/kubectl", f"arn:aws:iam::{ACCOUNT}:role/teams/Admin"
DIGEST = "sha256:" + "a" * 64
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/ray@{DIGEST}"
TAG = {"hyperpod-ray:environment": "test"}

NEW: Json = {"eks/admin_role_arns": [ADMIN]}
"""Edits of `tests.core.environment_files.GOOD`: everything is created."""

PLAN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-plan/spring"
EXISTING: Json = {
    "network/existing": {
        "vpc_id": VPC,
        "vpc_cidr": "10.0.0.0/16",
        "node_subnet_ids": {"usw2-az1": NODES_1, "usw2-az2": NODES_2},
        "node_subnet_cidrs": {"usw2-az1": "10.0.0.0/20", "usw2-az2": "10.0.16.0/20"},
        "control_plane_subnet_ids": [CONTROL_1, CONTROL_2],
    },
    "eks/existing": {
        "cluster_name": "shared",
        "security_group_id": GROUP,
        "oidc_issuer_url": ISSUER,
        "kubectl_role_arn": KUBECTL,
    },
    "eks/version": "1.35",
    "storage": {
        "existing": {"file_system_id": FILE_SYSTEM, "mount_name": "fsx1abcd", "availability_zone_id": "usw2-az1"}
    },
    "hyperpod/instance_groups/1/training_plan_arn": PLAN,
    "hyperpod/instance_groups/1/volume_kms_key_arn": KEY,
    "hyperpod/instance_groups/1/update_schedule": {
        "cron": "cron(0 6 ? * SUN *)",
        "rolling": {"rollback_alarm_names": ["gpu-errors"]},
    },
    "image/uri": IMAGE,
    "registries/pull_through_caches": ["quay"],
    "ray/access": {
        "s3": [{"bucket": "training-sets"}],
        "mlflow_arn": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:mlflow-tracking-server/team",
    },
}
"""Likewise: everything that can be named is."""

_SUBNET = {"VpcId": VPC, "State": "available", "AvailableIpAddressCount": 4091}
GOOD: Json = {
    "errors": {},
    "caller": f"arn:aws:sts::{ACCOUNT}:assumed-role/Deployer/me",
    "denied": [],
    "parameters": {"/cdk-bootstrap/hnb659fds/version": "29"},
    "zones": {
        "us-west-2a": {"ZoneId": "usw2-az2", "State": "available", "OptInStatus": "opt-in-not-required"},
        "us-west-2b": {"ZoneId": "usw2-az1", "State": "available", "OptInStatus": "opt-in-not-required"},
        "us-west-2c": {"ZoneId": "usw2-az3", "State": "available", "OptInStatus": "opt-in-not-required"},
        "us-west-2-lax-1a": {"ZoneId": "usw2-lax1-az1", "State": "available", "OptInStatus": "not-opted-in"},
    },
    "vpcs": {VPC: {"CidrBlock": "10.0.0.0/16", "State": "available"}},
    "subnets": {
        NODES_1: {**_SUBNET, "AvailabilityZoneId": "usw2-az1", "CidrBlock": "10.0.0.0/20"},
        NODES_2: {**_SUBNET, "AvailabilityZoneId": "usw2-az2", "CidrBlock": "10.0.16.0/20"},
        CONTROL_1: {
            **_SUBNET, "AvailabilityZoneId": "usw2-az1", "CidrBlock": "10.0.32.0/27", "AvailableIpAddressCount": 20,
        },
        CONTROL_2: {
            **_SUBNET, "AvailabilityZoneId": "usw2-az2", "CidrBlock": "10.0.32.32/27", "AvailableIpAddressCount": 20,
        },
    },
    "route_tables": [
        {
            "RouteTableId": "rtb-0123456789abcdef0",
            "VpcId": VPC,
            "Associations": [{"Main": True}],
            "Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-0123", "State": "active"}],
        }
    ],
    "addresses": 1,
    "nat_gateways": [],
    "offerings": {"m5.2xlarge": ["usw2-az1", "usw2-az2"], "p5.48xlarge": ["usw2-az1", "usw2-az3"]},
    "eks": {
        "shared": {
            "status": "ACTIVE",
            "version": "1.35",
            "accessConfig": {"authenticationMode": "API"},
            "identity": {"oidc": {"issuer": ISSUER}},
            "resourcesVpcConfig": {"vpcId": VPC, "clusterSecurityGroupId": GROUP, "endpointPrivateAccess": True},
        }
    },
    "more_eks": [],
    "versions": {"1.35": {"versionStatus": "STANDARD_SUPPORT"}, "1.34": {"versionStatus": "STANDARD_SUPPORT"}},
    "addon_configuration": {"vpc-cni": '{"enableNetworkPolicy": "true"}'},
    "addons": {"vpc-cni": "v1.20.4-eksbuild.1", "eks-pod-identity-agent": "v1.3.10-eksbuild.1"},
    "access_entries": {KUBECTL: ["arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"]},
    "oidc": [f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER.removeprefix('https://')}"],
    "hyperpod": {},
    "nodes": {},
    "training_plans": {
        "spring": {
            "TrainingPlanArn": PLAN,
            "Status": "Active",
            "TotalInstanceCount": 8,
            "AvailableInstanceCount": 8,
            "TargetResources": ["hyperpod-cluster"],
            "StartTime": datetime(2026, 11, 1, tzinfo=UTC),
            "EndTime": datetime(2027, 2, 1, tzinfo=UTC),
            "ReservedCapacitySummaries": [
                {
                    "ReservedCapacityArn": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:reserved-capacity/0123456789",
                    "InstanceType": "ml.p5.48xlarge",
                    "TotalInstanceCount": 8,
                    "Status": "Active",
                    "AvailabilityZone": "us-west-2b",
                }
            ],
        }
    },
    "mlflow": {"team": "Created"},
    "packages": {f"{ACCOUNT}/ml/pypi": {}},
    "file_systems": {
        FILE_SYSTEM: {
            "FileSystemType": "LUSTRE",
            "Lifecycle": "AVAILABLE",
            "StorageCapacity": 4800,
            "FileSystemTypeVersion": "2.15",
            "NetworkInterfaceIds": ["eni-0123456789abcdef0"],
            "VpcId": VPC,
            "SubnetIds": [NODES_1],
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "MountName": "fsx1abcd"},
        },
        OPEN_ZFS: {"FileSystemType": "OPENZFS", "Lifecycle": "AVAILABLE", "StorageCapacity": 256, "VpcId": VPC},
    },
    "keys": {KEY: {"KeyState": "Enabled", "KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT"}},
    "roles": {
        f"cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}": {
            "Arn": f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}"
        },
        "Deployer": {"Arn": f"arn:aws:iam::{ACCOUNT}:role/Deployer"},
        "Admin": {"Arn": ADMIN},
        "kubectl": {
            "Arn": KUBECTL,
            "trust": {"Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}]},
        },
        "AWSServiceRoleForAmazonEKS": {"Arn": f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/EKS"},
        "AWSServiceRoleForAmazonFSx": {"Arn": f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/FSx"},
    },
    "buckets": {
        "training-sets": REGION,
        "research-datasets": REGION,
        f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}": REGION,
    },
    "lifecycles": {},
    "region_status": "ENABLED_BY_DEFAULT",
    "network_acls": [
        {
            "NetworkAclId": "acl-0123456789abcdef0",
            "VpcId": VPC,
            "Associations": [{"SubnetId": NODES_1}, {"SubnetId": NODES_2}],
            "Entries": [
                {"RuleNumber": number, "Egress": out, "RuleAction": action, "Protocol": "-1", "CidrBlock": "0.0.0.0/0"}
                for out in (True, False)
                for number, action in ((100, "allow"), (32767, "deny"))
            ],
        }
    ],
    "interfaces": {"eni-0123456789abcdef0": ["sg-0fedcba9876543210"]},
    "summary": {"Roles": 120, "RolesQuota": 1000},
    "lambda": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000},
    "manifests": {},
    "bucket_settings": {},
    "key_policy": {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
                "Action": "kms:*",
                "Resource": "*",
            }
        ]
    },
    "key_policies": {},
    "secrets": {},
    "topics": {},
    "grafana": {},
    "repositories": [],
    "repository_settings": {},
    "projects": [],
    "security_groups": {
        "sg-0fedcba9876543210": [
            {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]},
            {"IpProtocol": "tcp", "FromPort": 1018, "ToPort": 1023, "IpRanges": [{"CidrIp": "10.0.0.0/16"}]},
        ]
    },
    "exports": {},
    "images": {"team/ray": [DIGEST]},
    "caches": {"quay": "quay.io"},
    "log_groups": [],
    "alarms": ["gpu-errors"],
    "stacks": {},
    "workspaces": [],
    "quotas": {
        "sagemaker": {
            "ml.p5.48xlarge for cluster usage": 8,
            "ml.m5.2xlarge for cluster usage": 8,
            "Maximum number instances allowed per SageMaker HyperPod cluster": 20,
            "Total number of instances allowed across SageMaker HyperPod clusters": 40,
            "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance": 1024,
        },
        "vpc": {
            "VPCs per Region": 5,
            "NAT gateways per Availability Zone": 5,
            "Interface VPC endpoints per VPC": 50,
            "Gateway VPC endpoints per Region": 20,
            "Internet gateways per Region": 5,
        },
        "ec2": {"EC2-VPC Elastic IPs": 5},
        "eks": {"Clusters": 100},
        "fsx": {
            "Lustre Persistent_2 storage capacity": 100800,
            "Lustre Persistent_2 file systems": 100,
            "Lustre Persistent Intelligent-Tiering throughput capacity": 100000,
            "Lustre Persistent Intelligent-Tiering SSD read cache storage capacity": 100800,
        },
        "cloudformation": {"Stack count": 2000},
        "aps": {"Workspaces per region per account": 25},
        "codebuild": {"Concurrently running builds for Linux/Small environment": 1},
    },
}  # fmt: skip

GONE = object()


def account(edits: Json) -> Json:
    """`GOOD` with the values at paths replaced (parts split by ` > `), or removed by `GONE`."""
    data = copy.deepcopy(GOOD)
    for path, value in edits.items():
        here: Any = data
        *way, last = [int(part) if part.isdigit() and len(part) < 4 else part for part in path.split(" > ")]
        for part in way:
            here = here[part]
        if value is GONE:
            del here[last]
        elif isinstance(here.get(last) if isinstance(here, dict) else None, dict) and isinstance(value, dict):
            here[last] = {**here[last], **copy.deepcopy(value)}
        else:
            here[last] = copy.deepcopy(value)
    return data

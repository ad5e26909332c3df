"""The constructs work in any CDK app: from values, without an environment file."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import assertions
from aws_cdk import aws_iam as iam

from hyperpod_ray.constructs.cluster import EksCluster
from hyperpod_ray.constructs.hyperpod import EksOrchestrator, HyperPodCluster, InstanceGroup
from hyperpod_ray.constructs.network import ClusterNetwork

ZONES = ["usw2-az1", "usw2-az2"]


def stack() -> cdk.Stack:
    app = cdk.App(builtin_cloud_formation_validation=False)
    return cdk.Stack(app, "Mine", env=cdk.Environment(account="123456789012", region="us-west-2"))


def cluster_beside_what_exists(mine: cdk.Stack) -> None:
    network = ClusterNetwork.from_existing(
        mine,
        "Network",
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidr="10.0.0.0/16",
        zones=ZONES,
        node_subnet_ids={zone: f"subnet-0123456789abcde{index}0" for index, zone in enumerate(ZONES)},
        control_plane_subnet_ids=["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
    )
    assert sorted(network.node_subnets) == ZONES
    assert len(network.control_plane_subnets) == 2
    eks = EksCluster.from_existing(
        mine,
        "Eks",
        cluster_name="mine",
        security_group_id="sg-0123456789abcdef0",
        oidc_issuer_url="https://oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF",
        kubectl_role_arn="arn:aws:iam::123456789012:role/kubectl",
        kubectl_version="1.35",
        vpc=network.vpc,
        subnets=network.control_plane_subnets,
        node_security_group=network.node_security_group,
        ray_user_groups={"arn:aws:iam::123456789012:role/user": ["ray-users:ray"]},
    )
    HyperPodCluster(
        mine,
        "HyperPod",
        cluster_name="mine",
        instance_groups=[
            InstanceGroup(name="head", type="ml.m5.2xlarge", count=1, zone=ZONES[0]),
            InstanceGroup(name="workers", type="ml.p5.48xlarge", count=2, zone=ZONES[1], spot=True),
        ],
        home_zone=ZONES[0],
        orchestrator=EksOrchestrator(cluster_arn=eks.cluster.cluster_arn),
        execution_role=iam.Role.from_role_arn(mine, "Nodes", "arn:aws:iam::123456789012:role/nodes"),
        lifecycle_uri="s3://sagemaker-mine/scripts",
        subnets=network.node_subnets,
        security_group=network.node_security_group,
    )


def test_a_cluster_beside_what_exists() -> None:
    mine = stack()
    cluster_beside_what_exists(mine)
    template = assertions.Template.from_stack(mine)
    template.resource_count_is("AWS::EC2::VPC", 0)
    template.resource_count_is("AWS::EKS::Cluster", 0)
    template.resource_count_is("AWS::EC2::SecurityGroup", 2)
    template.has_resource_properties("AWS::EKS::AccessEntry", {"KubernetesGroups": ["ray-users:ray"]})
    (cluster,) = template.find_resources("AWS::SageMaker::Cluster").values()
    head, workers = cluster["Properties"]["InstanceGroups"]
    assert "CapacityRequirements" not in head
    assert "OverrideVpcConfig" not in head
    assert workers["CapacityRequirements"] == {"Spot": {}}
    assert workers["OverrideVpcConfig"]["Subnets"] == ["subnet-0123456789abcde10"]
    assert cluster["Properties"]["NodeProvisioningMode"] == "Continuous"


def test_a_new_network_keeps_what_a_kept_file_system_needs() -> None:
    mine = stack()
    ClusterNetwork(
        mine,
        "Network",
        cidr="10.0.0.0/16",
        zones=ZONES,
        zone_slots=4,
        node_subnet_prefix=19,
        flow_log_group="/flow",
        flow_log_retention_days=30,
        keep_zone=ZONES[1],
    )
    template = assertions.Template.from_stack(mine)
    kept = {}
    for kind in ("AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::SecurityGroup"):
        policies = [resource.get("DeletionPolicy", "Delete") for resource in template.find_resources(kind).values()]
        kept[kind] = len([policy for policy in policies if policy.startswith("Retain")])
    assert kept == {"AWS::EC2::VPC": 1, "AWS::EC2::Subnet": 1, "AWS::EC2::SecurityGroup": 1}
    subnets = [resource["Properties"] for resource in template.find_resources("AWS::EC2::Subnet").values()]
    assert {subnet["AvailabilityZoneId"] for subnet in subnets} == set(ZONES)
    assert not any("AvailabilityZone" in subnet for subnet in subnets)

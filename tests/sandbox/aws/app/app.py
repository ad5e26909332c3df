"""A small app with the resources the real stacks are made of: VPC, EKS, a manifest, FSx for Lustre, HyperPod."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

from constructs import Construct


class Network(cdk.Stack):
    """A VPC with a NAT gateway, and the security group of the nodes."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(self, "Vpc", availability_zones=[f"{self.region}a", f"{self.region}b"], nat_gateways=1)
        self.nodes = ec2.SecurityGroup(self, "Nodes", vpc=self.vpc, allow_all_outbound=False)
        self.nodes.add_ingress_rule(self.nodes, ec2.Port.all_traffic())
        self.nodes.add_egress_rule(self.nodes, ec2.Port.all_traffic())
        self.nodes.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443))


class Cluster(cdk.Stack):
    """EKS with an add-on and a manifest, a Lustre file system, and a HyperPod cluster."""

    def __init__(self, scope: Construct, construct_id: str, *, network: Network) -> None:
        super().__init__(scope, construct_id)
        private = network.vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
        control_plane = eks.Cluster(
            self,
            "Kubernetes",
            version=eks.KubernetesVersion.V1_34,
            vpc=network.vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=private.subnets)],
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(self, "Kubectl")),
        )
        eks.CfnAddon(self, "Cni", cluster_name=control_plane.cluster_name, addon_name="vpc-cni")
        namespace = eks.KubernetesManifest(
            self,
            "Namespace",
            cluster=control_plane,  # type: ignore[arg-type]  # jsii: a Cluster is an ICluster
            manifest=[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ray"}}],
        )
        storage = fsx.CfnFileSystem(
            self,
            "Storage",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_capacity=1200,
            subnet_ids=[private.subnet_ids[0]],
            security_group_ids=[network.nodes.security_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2", per_unit_storage_throughput=250
            ),
        )
        role = iam.Role(
            self,
            "Execution",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy"),
                iam.ManagedPolicy(
                    self,
                    "Nodes",
                    statements=[
                        iam.PolicyStatement(actions=["ec2:CreateNetworkInterface", "ecr:*"], resources=["*"]),
                    ],
                ),
            ],
        )
        hyperpod = sagemaker.CfnCluster(
            self,
            "HyperPod",
            node_recovery="Automatic",
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=control_plane.cluster_arn)
            ),
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                subnets=private.subnet_ids, security_group_ids=[network.nodes.security_group_id]
            ),
            instance_groups=[
                sagemaker.CfnCluster.ClusterInstanceGroupProperty(
                    instance_group_name="gpu",
                    instance_type="ml.g5.8xlarge",
                    instance_count=int(self.node.try_get_context("gpus") or 2),
                    execution_role=role.role_arn,
                    life_cycle_config=sagemaker.CfnCluster.ClusterLifeCycleConfigProperty(
                        source_s3_uri="s3://sagemaker-example/scripts/", on_create="on_create.sh"
                    ),
                    on_start_deep_health_checks=["InstanceStress"],
                ),
            ],
        )
        hyperpod.node.add_dependency(namespace)
        cdk.CfnOutput(self, "ClusterArn", value=hyperpod.attr_cluster_arn)
        cdk.CfnOutput(self, "MountName", value=storage.attr_lustre_mount_name)


app = cdk.App()
account = app.node.try_get_context("account") or "000000000001"
stage = cdk.Stage(app, "small", env=cdk.Environment(account=account, region="us-west-2"))
network = Network(stage, "Network")
Cluster(stage, "Cluster", network=network)
app.synth()

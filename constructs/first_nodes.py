"""Nodes for the pods that a deploy waits for."""

from __future__ import annotations

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from constructs import Construct
from hyperpod_ray.constructs.waiter import waiter

NODES_RUNNING = "Custom::HyperPodNodesRunning"


class FirstNodes(Construct):
    """Waits until an instance group has a node that runs.

    With continuous provisioning a cluster is operational once its cluster-level resources are ready; nodes follow. DNS,
    the file system's driver and the operator need one for their pods, and their own waits are shorter than the start of
    a node. Other groups start in their own time: nothing waits for their deep health checks.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html#sagemaker-UpdateCluster-request-NodeProvisioningMode

    Creates a custom resource with two functions and the waiter state machine of the CDK's provider framework.

    Args:
        cluster: The HyperPod cluster.
        instance_group: Name of the group.
        instance_type: Its type: another type means other nodes, which are waited for again.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: sagemaker.CfnCluster,
        instance_group: str,
        instance_type: str,
    ) -> None:
        super().__init__(scope, construct_id)
        provider = waiter(
            self,
            handler="nodes_running",
            asks=iam.PolicyStatement(
                actions=["sagemaker:ListClusterNodes"],
                # not by the cluster's own ARN: the functions are created while the cluster is
                resources=[Stack.of(self).format_arn(service="sagemaker", resource="cluster", resource_name="*")],
            ),
            query_interval=Duration.seconds(20),
            # a reason of ours instead of CloudFormation's own, which comes after an hour
            total_timeout=Duration.minutes(55),
        )
        self.resource = CustomResource(
            self,
            "Running",
            service_token=provider.service_token,
            resource_type=NODES_RUNNING,
            properties={
                "ClusterName": cluster.cluster_name,
                "InstanceGroupName": instance_group,
                "InstanceType": instance_type,
            },
        )
        self.resource.node.add_dependency(cluster)

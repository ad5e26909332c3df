"""Metrics of nodes, GPUs and Ray: the add-on that collects them, the workspace that keeps them, alerts on them."""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk import Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_aps as aps
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_eks as eks_l1
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from constructs import Construct
from hyperpod_ray.constructs.alarms import Watch
from hyperpod_ray.core import notifications
from hyperpod_ray.core.names import OBSERVABILITY_ADDON, OBSERVABILITY_COLLECTOR, OBSERVABILITY_NAMESPACE

LOG_ACTIONS = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogGroups", "logs:DescribeLogStreams",
               "logs:PutLogEvents"]  # fmt: skip
"""What the collector writes with; AWS's own policy also lets it read and query, which it does not need to write."""


class ManagedMetrics(Construct):
    """The add-on `amazon-sagemaker-hyperpod-observability` with a Prometheus workspace, and alerts that mail a topic.

    Creates `AWS::APS::Workspace` with its alert manager, `AWS::APS::RuleGroupsNamespace`, the
    collector's `AWS::IAM::Role` (EKS Pod Identity), and `AWS::EKS::Addon`. Ray's metrics need version 1.0.6 of the
    add-on; EKS installs its default version. Needs running nodes.
    https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-addon-setup.html

    Args:
        environment: Name of the environment: the workspace's alias.
        level: BASIC or ADVANCED.
        scrape_seconds: Between two samples.
        retention_days: How long the workspace keeps samples.
        container_logs: Whether containers' logs go to CloudWatch Logs.
        grafana: Name and ARN of an Amazon Managed Grafana workspace; None: no dashboards are imported.
        retain: Whether the workspace stays when the stack goes.
        rules: Data of the rule groups. None: no alert.
        alert_manager: Its definition.
        watch: Alarms when the alert manager cannot deliver.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        cluster: eks.ICluster,
        level: str,
        scrape_seconds: int,
        retention_days: int,
        container_logs: bool,
        grafana: tuple[str, str] | None,
        retain: bool,
        rules: str | None,
        alert_manager: str,
        watch: Watch,
    ) -> None:
        super().__init__(scope, construct_id)
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY
        self.workspace = aps.CfnWorkspace(
            self,
            "Workspace",
            alias=environment,
            alert_manager_definition=alert_manager,
            workspace_configuration=aps.CfnWorkspace.WorkspaceConfigurationProperty(
                retention_period_in_days=retention_days
            ),
        )
        self.workspace.apply_removal_policy(policy)
        Tags.of(self.workspace).add("Name", self.node.path)
        if rules is not None:
            aps.CfnRuleGroupsNamespace(self, "Rules", name=environment, workspace=self.workspace.attr_arn, data=rules)
        role = self._role(cluster, container_logs=container_logs)
        configuration = self._configuration(level, scrape_seconds, container_logs, grafana)
        self.addon = eks_l1.CfnAddon(
            self,
            "Addon",
            addon_name=OBSERVABILITY_ADDON,
            cluster_name=cluster.cluster_name,
            configuration_values=Stack.of(self).to_json_string(configuration),
            resolve_conflicts="OVERWRITE",
            pod_identity_associations=[
                eks_l1.CfnAddon.PodIdentityAssociationProperty(
                    role_arn=role.role_arn, service_account=OBSERVABILITY_COLLECTOR
                )
            ],
        )
        self.addon.node.add_dependency(role)
        failed = cloudwatch.Metric(
            namespace="AWS/Prometheus",
            metric_name="AlertManagerNotificationsFailed",
            dimensions_map={"Workspace": self.workspace.attr_workspace_id},
            statistic="Sum",
            period=Duration.minutes(15),
        )
        watch.alarm(notifications.ALERTS_UNDELIVERED, failed, threshold=1)

    def let_publish(self, permit: Callable[..., None]) -> None:
        """The workspace's alert manager may publish; `permit` is `HealthNotifications.let_publish`.

        https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-receiver-AWSpermission.html
        """
        stack = Stack.of(self)
        account = {"StringEquals": {"aws:SourceAccount": stack.account}}
        of_workspace = {"ArnEquals": {"aws:SourceArn": self.workspace.attr_arn}}
        # the key cannot name the workspace, which names the topic, which names the key
        every = f"arn:{stack.partition}:aps:{stack.region}:{stack.account}:workspace/*"
        of_key = {"ArnLike": {"aws:SourceArn": every}, **account}
        permit("Alerts", "aps.amazonaws.com", {**of_workspace, **account}, of_key=of_key)

    def _role(self, cluster: eks.ICluster, *, container_logs: bool) -> iam.Role:
        """Of the collector: it writes samples into this workspace, and logs below HyperPod's log groups."""
        tags = {
            "eks-cluster-arn": cluster.cluster_arn,
            "kubernetes-namespace": OBSERVABILITY_NAMESPACE,
            "kubernetes-service-account": OBSERVABILITY_COLLECTOR,
        }
        principal = iam.ServicePrincipal(
            "pods.eks.amazonaws.com",
            conditions={"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        )
        role = iam.Role(
            self, "Role", assumed_by=principal.with_session_tags(), description="Collector of the observability add-on"
        )
        role.add_to_policy(
            iam.PolicyStatement(sid="Metrics", actions=["aps:RemoteWrite"], resources=[self.workspace.attr_arn])
        )
        if container_logs:
            stack = Stack.of(self)
            groups = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:/aws/sagemaker/Clusters/*"
            role.add_to_policy(iam.PolicyStatement(sid="Logs", actions=LOG_ACTIONS, resources=[groups]))
        return role

    def _configuration(
        self, level: str, scrape_seconds: int, container_logs: bool, grafana: tuple[str, str] | None
    ) -> dict[str, object]:
        """Values in the add-on's schema: `aws eks describe-addon-configuration` prints it."""
        on, off = level, "DISABLED"
        levels = {
            "trainingMetrics": on,
            "inferenceMetrics": off,
            "taskGovernanceMetrics": off,
            "scalingMetrics": off,
            "customMetrics": on,
            "nodeMetrics": on,
            "acceleratedComputeMetrics": on,
            "networkMetrics": on if level == "ADVANCED" else off,
        }
        configuration: dict[str, object] = {
            "ampWorkspace": {
                "prometheusEndpoint": self.workspace.attr_prometheus_endpoint,
                "arn": self.workspace.attr_arn,
            },
            "metricsProvider": {
                name: {"level": value, "scrapeInterval": scrape_seconds} for name, value in levels.items()
            },
            "logging": {"enabled": container_logs},
        }
        if grafana is not None:
            configuration["amgWorkspace"] = {"workspaceName": grafana[0], "arn": grafana[1]}
        return configuration

"""Who is told when nodes fall ill."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from constructs import Construct

NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENTS = ["SageMaker HyperPod Cluster State Change", "SageMaker HyperPod Cluster Event"]
"""https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html"""

MANY_EVENTS_PER_HOUR = 10
"""Node health events in one hour from which the trouble is likelier a change or a zone than one node."""


class HealthNotifications(Construct):
    """Events of one HyperPod cluster to an encrypted SNS topic, and the alarms that watch over it.

    Creates `AWS::KMS::Key`, `AWS::SNS::Topic` (TLS only) with one e-mail subscription per address, one
    `AWS::Events::Rule` for node health and one for the other events of this cluster, and two
    `AWS::CloudWatch::Alarm`: deliveries that failed, and many node health events within an hour.

    :param cluster_arn: of the HyperPod cluster.
    :param emails: receivers; each confirms by mail. An empty list leaves a topic to subscribe to.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster_arn: str, emails: Sequence[str]) -> None:
        super().__init__(scope, construct_id)
        key = kms.Key(
            self,
            "Key",
            description="HyperPod notifications",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        for service in ("events.amazonaws.com", "cloudwatch.amazonaws.com"):
            key.grant(iam.ServicePrincipal(service), "kms:Decrypt", "kms:GenerateDataKey*")
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True, display_name="HyperPod health")
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        # Two rules, so that node health can be counted by itself and no event is mailed twice.
        health = self._rule("NodeHealth", [NODE_HEALTH], cluster_arn)
        others = self._rule("ClusterEvents", CLUSTER_EVENTS, cluster_arn)
        for rule in (health, others):
            rule.add_target(targets.SnsTopic(self.topic))
        self._alarm("Undelivered", health, "FailedInvocations", 1, "node health events that could not be delivered")
        self._alarm(
            "ManyUnhealthy", health, "TriggeredRules", MANY_EVENTS_PER_HOUR, "many node health events within an hour"
        )

    def _rule(self, name: str, detail_types: list[str], cluster_arn: str) -> events.Rule:
        pattern = events.EventPattern(source=["aws.sagemaker"], detail_type=detail_types, resources=[cluster_arn])
        return events.Rule(self, name, event_pattern=pattern)

    def _alarm(self, name: str, rule: events.Rule, metric: str, threshold: int, description: str) -> None:
        measure = cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name=metric,
            dimensions_map={"RuleName": rule.rule_name},
            statistic="Sum",
            period=Duration.hours(1),
        )
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=measure,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=description,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))

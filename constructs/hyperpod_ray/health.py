"""Where a cluster's health events go: to people, and into an archive that alarms read."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from constructs import Construct
from hyperpod_ray.alarms import EVENT_SIGNALS, KUBERNETES_SIGNALS, Watch
from hyperpod_ray.logs import named_log_group

NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
CLUSTER_EVENTS = ["SageMaker HyperPod Cluster State Change", "SageMaker HyperPod Cluster Event"]
"""https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html"""


class HealthNotifications(Construct):
    """Events of one HyperPod cluster to an encrypted SNS topic and an archive, and the alarms that watch over it.

    Creates `AWS::KMS::Key`; `AWS::SNS::Topic` (TLS only; CloudWatch and EventBridge of this account may publish) with
    one e-mail subscription per address; `AWS::Logs::LogGroup` with every event, because the service keeps 500;
    three `AWS::Events::Rule`; and the metric filters and alarms of `hyperpod_ray.alarms`.

    Args:
        cluster_arn: Of the HyperPod cluster.
        emails: Receivers; each confirms by mail. An empty list leaves a topic to subscribe to.
        event_log_group: Name of the archive's log group.
        event_retention_days: How long the archive keeps an event.
        event_log_group_exists: Whether the archive is there already: it is used as it is, and stays.
        protected: Keep the archive when the cluster is destroyed.
        eks_cluster_name: Dimension of the control plane's metrics.
        control_plane_logs: Log group with the audit log of the EKS cluster; None where the environment does not own it:
            the alarms that read it are then omitted.
        namespaces: Where a crash loop is an alarm.
        nodes: Nodes of the cluster at full count.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_arn: str,
        emails: Sequence[str],
        event_log_group: str,
        event_retention_days: int,
        event_log_group_exists: bool = False,
        protected: bool,
        eks_cluster_name: str,
        control_plane_logs: str | None,
        namespaces: Sequence[str],
        nodes: int,
    ) -> None:
        super().__init__(scope, construct_id)
        key = kms.Key(
            self,
            "Key",
            description="HyperPod notifications",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True, display_name="HyperPod health")
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        self.archive = named_log_group(
            self,
            "Events",
            name=event_log_group,
            retention_days=event_retention_days,
            protected=protected,
            exists=event_log_group_exists,
        )
        # Two rules to the topic, so that node health can be counted by itself and no event is mailed twice.
        topic, archive = self.topic.topic_arn, self._group_arn()
        health = self._rule("NodeHealth", [NODE_HEALTH], cluster_arn, target=topic)
        others = self._rule("ClusterEvents", CLUSTER_EVENTS, cluster_arn, target=topic)
        archived = self._rule("Archive", [NODE_HEALTH, *CLUSTER_EVENTS], cluster_arn, target=archive)
        self._let_archive(archived)
        self._let_publish(key, [health, others])
        watch = Watch(
            self,
            "Alarms",
            topic=self.topic,
            eks_cluster_name=eks_cluster_name,
            namespaces=namespaces,
            nodes=nodes,
        )
        for rule in (health, others, archived):
            watch.undelivered(rule)
        watch.many_unhealthy(health)
        watch.overdue()
        for signal in EVENT_SIGNALS:
            watch.count(signal, log_group=self.archive)
        if control_plane_logs is not None:
            group = logs.LogGroup.from_log_group_name(self, "ControlPlane", control_plane_logs)
            for signal in KUBERNETES_SIGNALS:
                watch.count(signal, log_group=group)

    def _rule(self, name: str, detail_types: list[str], cluster_arn: str, *, target: str) -> events.Rule:
        """With an L1 target: the L2 ones let every account's rules publish, or make a function to write a policy."""
        pattern = events.EventPattern(source=["aws.sagemaker"], detail_type=detail_types, resources=[cluster_arn])
        rule = events.Rule(self, name, event_pattern=pattern)
        resource = rule.node.default_child
        assert isinstance(resource, events.CfnRule)  # noqa: S101  (narrowing only)
        resource.targets = [events.CfnRule.TargetProperty(id="Target0", arn=target)]
        return rule

    def _group_arn(self) -> str:
        """Without the `:*` at its end, as a rule's target requires it."""
        stack = Stack.of(self)
        return f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{self.archive.log_group_name}"

    def _let_archive(self, rule: events.Rule) -> None:
        """The archive takes events of this rule.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-cloudwatchlogs-permissions
        """
        stack, group = Stack.of(self), self._group_arn()
        writers = [iam.ServicePrincipal("events.amazonaws.com"), iam.ServicePrincipal("delivery.logs.amazonaws.com")]
        policy = iam.PolicyDocument(
            statements=[
                # the service gives no source when it makes a stream; without a rule's events the stream stays empty
                iam.PolicyStatement(
                    sid="Streams", principals=writers, actions=["logs:CreateLogStream"], resources=[f"{group}:*"]
                ),
                iam.PolicyStatement(
                    sid="Events",
                    principals=writers,
                    actions=["logs:PutLogEvents"],
                    resources=[f"{group}:*"],
                    conditions={
                        "ArnEquals": {"aws:SourceArn": rule.rule_arn},
                        "StringEquals": {"aws:SourceAccount": stack.account},
                    },
                ),
            ]
        )
        logs.CfnResourcePolicy(
            self,
            "ArchivePolicy",
            policy_name=f"{stack.stack_name}-events",
            policy_document=stack.to_json_string(policy.to_json()),
        )

    def _let_publish(self, key: kms.Key, rules: Sequence[events.Rule]) -> None:
        """Alarms and rules of this account may publish, and their services use the topic's key for it.

        A topic policy replaces the default one, which lets CloudWatch in. A key policy with a source does not work for
        EventBridge: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
        """
        stack = Stack.of(self)
        alarms = f"arn:{stack.partition}:cloudwatch:{stack.region}:{stack.account}:alarm:*"
        by_alarms = {
            "ArnLike": {"aws:SourceArn": alarms},
            "StringEquals": {"aws:SourceAccount": stack.account},
        }
        by_rules = {
            "ArnEquals": {"aws:SourceArn": [rule.rule_arn for rule in rules]},
            "StringEquals": {"aws:SourceAccount": stack.account},
        }
        for sid, service, conditions in (
            ("Alarms", "cloudwatch.amazonaws.com", by_alarms),
            ("Rules", "events.amazonaws.com", by_rules),
        ):
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[iam.ServicePrincipal(service)],
                    actions=["sns:Publish"],
                    resources=[self.topic.topic_arn],
                    conditions=conditions,
                )
            )
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[iam.ServicePrincipal(service)],
                    actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                    resources=["*"],
                    conditions=by_alarms if service.startswith("cloudwatch") else {},
                )
            )

"""Where a cluster's health events go: to people, and into an archive that alarms read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from constructs import Construct
from hyperpod_ray.constructs.alarms import EVENT_SIGNALS, KUBERNETES_SIGNALS, Watch
from hyperpod_ray.constructs.chat import ChatChannels, SlackChannel, TeamsChannel
from hyperpod_ray.constructs.logs import named_log_group
from hyperpod_ray.core import notifications
from hyperpod_ray.core.notifications import CLUSTER_EVENT, NODE_HEALTH, STATE_CHANGE, EventMail


class HealthNotifications(Construct):
    """Events of one HyperPod cluster to an encrypted SNS topic and an archive, and the alarms that watch over it.

    Creates `AWS::KMS::Key`; `AWS::SNS::Topic` (TLS only; CloudWatch and EventBridge of this account may publish) with
    one e-mail subscription per address; `AWS::Logs::LogGroup` with every event, because the service keeps 500;
    with chat channels a second topic and what `ChatChannels` creates;
    an `AWS::Events::Rule` for the archive and for each `EventMail` of `hyperpod_ray.core.notifications`; and the
    metric filters and alarms of `hyperpod_ray.constructs.alarms`.

    Args:
        environment: Name of the environment, which every mail says.
        cluster_arn: Of the HyperPod cluster.
        emails: Receivers; each confirms by mail. An empty list leaves a topic to subscribe to.
        https: Endpoints that the same is posted to; each confirms.
        topic_arn: A topic of somebody else, which gets alarms and events too; None: there is none.
        slack: Slack channels that get alarms and events.
        teams: Microsoft Teams channels, likewise. With either there is a topic of its own for chat.
        runbook: Address of the page of all alarms; None: mails name the section of the repository's runbook.
        event_log_group: Name of the archive's log group; None: CloudFormation generates it.
        event_retention_days: How long the archive keeps an event.
        event_log_group_exists: Whether the archive is there already: it is used as it is, and stays.
        protected: Keep the archive when the cluster is destroyed.
        eks_cluster_name: Dimension of the control plane's metrics. None: no EKS cluster, and none of its alarms.
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
        environment: str,
        cluster_arn: str,
        emails: Sequence[str],
        https: Sequence[str] = (),
        topic_arn: str | None = None,
        slack: Sequence[SlackChannel] = (),
        teams: Sequence[TeamsChannel] = (),
        runbook: str | None = None,
        event_log_group: str | None,
        event_retention_days: int,
        event_log_group_exists: bool = False,
        protected: bool,
        eks_cluster_name: str | None = None,
        control_plane_logs: str | None = None,
        namespaces: Sequence[str] = (),
        nodes: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = kms.Key(
            self,
            "Key",
            description="HyperPod notifications",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.topic = sns.Topic(self, "Topic", master_key=self._key, enforce_ssl=True, display_name="HyperPod health")
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        for url in https:
            self.topic.add_subscription(subscriptions.UrlSubscription(url))
        self.topic_arns = [self.topic.topic_arn, *([topic_arn] if topic_arn else [])]
        others: list[sns.ITopic] = [sns.Topic.from_topic_arn(self, "OtherTopic", topic_arn)] if topic_arn else []
        self._topics = [self.topic]
        self.chat_topic_arn: str | None = None
        if slack or teams:
            chat = sns.Topic(self, "ChatTopic", master_key=self._key, enforce_ssl=True, display_name="HyperPod chat")
            ChatChannels(self, "Chat", environment=environment, topic_arn=chat.topic_arn, slack=slack, teams=teams)
            self._topics.append(chat)
            others.append(chat)
            self.chat_topic_arn = chat.topic_arn
        self._runbook = runbook
        self.archive = named_log_group(
            self,
            "Events",
            name=event_log_group,
            retention_days=event_retention_days,
            protected=protected,
            exists=event_log_group_exists,
        )
        self._environment = environment
        stack = Stack.of(self)
        self._alarms = (
            f"arn:{stack.partition}:cloudwatch:{stack.region}:{stack.account}:alarm:"
            f"{notifications.alarm_prefix(environment)}"
        )
        archived = self._archive_all(cluster_arn)
        self.watch = Watch(
            self,
            "Alarms",
            topics=[self.topic, *others],
            environment=environment,
            runbook=runbook,
            namespaces=namespaces,
            nodes=nodes,
        )
        rules = [self._mail(mail, cluster_arn) for mail in notifications.CLUSTER_MAILS]
        rules.append(self._mail(notifications.ALARM_ENDED, {"prefix": self._alarms}))
        self._let_archive(archived)
        # after all rules exist: the topics' policies name each of them as a source
        self._let_publish(rules)
        for rule in (*rules, archived):
            self.watch.undelivered(rule)
        if eks_cluster_name is not None:
            self.watch.overdue(eks_cluster_name)
        for signal in EVENT_SIGNALS:
            self.watch.count(signal, log_group=self.archive)
        if control_plane_logs is not None:
            group = logs.LogGroup.from_log_group_name(self, "ControlPlane", control_plane_logs)
            for signal in KUBERNETES_SIGNALS:
                self.watch.count(signal, log_group=group)

    def _archive_all(self, cluster_arn: str) -> events.CfnRule:
        """Every event of the cluster to the archive."""
        pattern = {
            "source": ["aws.sagemaker"],
            "detail-type": [NODE_HEALTH, STATE_CHANGE, CLUSTER_EVENT],
            "resources": [cluster_arn],
        }
        return self._rule(notifications.ARCHIVE, pattern, targets=[(self._group_arn(), None)])

    def _mail(self, mail: EventMail, resource: object) -> events.CfnRule:
        """A rule that mails its events in words."""
        stack = Stack.of(self)

        def transformer(template: Callable[..., str]) -> events.CfnRule.InputTransformerProperty:
            text = template(self._environment, account=stack.account, region=stack.region, runbook=self._runbook)
            return events.CfnRule.InputTransformerProperty(input_template=text, input_paths_map=mail.paths())

        targets = [(arn, transformer(mail.template)) for arn in self.topic_arns]
        if self.chat_topic_arn is not None:
            targets.append((self.chat_topic_arn, transformer(mail.chat_template)))
        return self._rule(mail.name, mail.pattern([resource]), targets=targets)

    def _rule(
        self,
        name: str,
        pattern: Mapping[str, object],
        *,
        targets: Sequence[tuple[str, events.CfnRule.InputTransformerProperty | None]],
    ) -> events.CfnRule:
        """As L1: the L2 targets let every account's rules publish, or make a function to write a policy."""
        properties = [
            events.CfnRule.TargetProperty(id=f"Target{number}", arn=arn, input_transformer=transformer)
            for number, (arn, transformer) in enumerate(targets)
        ]
        return events.CfnRule(self, name, event_pattern=dict(pattern), state="ENABLED", targets=properties)

    def _group_arn(self) -> str:
        """Without the `:*` at its end, as a rule's target requires it."""
        stack = Stack.of(self)
        return f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{self.archive.log_group_name}"

    def _let_archive(self, rule: events.CfnRule) -> None:
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
                        "ArnEquals": {"aws:SourceArn": rule.attr_arn},
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

    def let_publish(
        self,
        sid: str,
        service: str,
        conditions: Mapping[str, object],
        *,
        of_key: Mapping[str, object] | None = None,
        to_chat: bool = True,
    ) -> None:
        """Let a service publish to the encrypted topics, and use their key for it.

        Args:
            sid: Name of the statements.
            service: Principal.
            conditions: What the service publishes for.
            of_key: Likewise when it uses the key. Default: the same conditions.
            to_chat: Whether it publishes to the topic of chat channels too, where there is one.
        """
        principal = iam.ServicePrincipal(service)
        for topic in self._topics if to_chat else [self.topic]:
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[principal],
                    actions=["sns:Publish"],
                    resources=[topic.topic_arn],
                    conditions=dict(conditions),
                )
            )
        self._key.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[principal],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
                conditions=dict(conditions if of_key is None else of_key),
            )
        )

    def _let_publish(self, rules: Sequence[events.CfnRule]) -> None:
        """Alarms and rules of this environment may publish.

        A topic policy replaces the default one, which lets CloudWatch in. A key policy with a source does not work for
        EventBridge: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
        """
        account = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        alarms = {"ArnLike": {"aws:SourceArn": f"{self._alarms}*"}}
        sources = {"ArnEquals": {"aws:SourceArn": [rule.attr_arn for rule in rules]}}
        self.let_publish("Alarms", "cloudwatch.amazonaws.com", {**alarms, **account})
        self.let_publish("Rules", "events.amazonaws.com", {**sources, **account}, of_key={})

    def let_budgets_publish(self) -> None:
        """AWS Budgets of this account may publish.

        https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
        """
        stack = Stack.of(self)
        conditions = {
            "ArnLike": {"aws:SourceArn": f"arn:{stack.partition}:budgets::{stack.account}:*"},
            "StringEquals": {"aws:SourceAccount": stack.account},
        }
        # a budget notifies one topic
        self.let_publish("Budgets", "budgets.amazonaws.com", conditions, to_chat=False)

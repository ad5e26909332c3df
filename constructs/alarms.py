"""The alarms of a cluster, and the signals they read. None needs an agent in the cluster.

Signals are events that EventBridge archived, lines of the EKS audit log, and metrics that AWS publishes by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns

from constructs import Construct
from hyperpod_ray.core import notifications
from hyperpod_ray.core.names import HYPERPOD_NAMESPACE, KUBE_SYSTEM, OPERATOR_NAMESPACE
from hyperpod_ray.core.notifications import AlarmMail

MANY_EVENTS_PER_HOUR = 10
"""Node health events in one hour from which the trouble is likelier a change or a zone than one node."""
OVERDUE_MINUTES = 90
"""A replacement usually takes 20–30 minutes and its deep health checks 60 more."""
SILENT_SHARE = 0.2
"""Share of nodes that falls silent together from which the trouble is likelier the network than one node."""
MAXIMUM_PATTERN = 1024
"""Characters of a filter pattern: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutMetricFilter.html"""
SYSTEM_NAMESPACES = (KUBE_SYSTEM, OPERATOR_NAMESPACE, HYPERPOD_NAMESPACE)


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Something that a log line says, and how often it may be said.

    `pattern` is a CloudWatch Logs filter pattern for JSON, given the namespaces that count; `threshold` follows from
    the number of nodes.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
    """

    mail: AlarmMail
    pattern: Callable[[Sequence[str]], str]
    minutes: int
    threshold: Callable[[int], int]

    @property
    def name(self) -> str:
        """Name of the metric, and of the alarm that reads it."""
        return self.mail.name


def _gpu_faults(_namespaces: Sequence[str]) -> str:
    reasons = " || ".join(
        f'$.detail.HealthSummary.HealthStatusReason = "*{word}*"'
        for word in ("Nvidia", "NVIDIA", "Xid", "XID", "GPU", "DCGM", "Dcgm", "Neuron", "NEURON")
    )
    return f'{{ ($.detail.HealthSummary.HealthStatus = "Unhealthy") && ({reasons}) }}'


DESCRIPTION = "$.detail.EventDetails.Description"
LIFECYCLE = ("*lifecycle script execution*has Failed*",)
"""Description of an event as
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html has them."""


def _any_of(words: Sequence[str]) -> str:
    return " || ".join(f'({DESCRIPTION} = "{word}")' for word in words)


def _none_of(words: Sequence[str]) -> str:
    return " && ".join(f'({DESCRIPTION} != "{word}")' for word in words)


def _unhealthy(_namespaces: Sequence[str]) -> str:
    return '{ $.detail.HealthSummary.HealthStatus = "Unhealthy" }'


def _failed_instances(_namespaces: Sequence[str]) -> str:
    return f"{{ {_any_of(notifications.NOT_CREATED)} }}"


def _failed_scripts(_namespaces: Sequence[str]) -> str:
    return f"{{ {_any_of(LIFECYCLE)} }}"


def _other_errors(_namespaces: Sequence[str]) -> str:
    return f'{{ ($.detail.EventDetails.EventLevel = "Error") && {_none_of((*notifications.NOT_CREATED, *LIFECYCLE))} }}'


def _silent_nodes(_namespaces: Sequence[str]) -> str:
    return (
        f'{{ ($.user.username = "system:serviceaccount:{KUBE_SYSTEM}:node-controller") && ($.verb = "update") '
        '&& ($.objectRef.resource = "nodes") && ($.objectRef.subresource = "status") }'
    )


def _crash_loops(namespaces: Sequence[str]) -> str:
    waits = " || ".join(
        f'$.requestObject.status.{status_field}[{index}].state.waiting.reason = "CrashLoopBackOff"'
        for status_field, indices in (("containerStatuses", (0, 1)), ("initContainerStatuses", (0,)))
        for index in indices
    )
    pods = '($.objectRef.resource = "pods") && ($.objectRef.subresource = "status")'
    of = " || ".join(f'$.objectRef.namespace = "{name}"' for name in namespaces)
    narrow = f"{{ {pods} && ({of}) && ({waits}) }}"
    # with very many namespaces, all of them rather than a pattern that the service refuses
    return narrow if len(narrow) <= MAXIMUM_PATTERN else f"{{ {pods} && ({waits}) }}"


EVENT_SIGNALS = (
    Signal(mail=notifications.REPEATED_GPU_FAULTS, pattern=_gpu_faults, minutes=24 * 60, threshold=lambda _nodes: 3),
    Signal(
        mail=notifications.MANY_UNHEALTHY,
        pattern=_unhealthy,
        minutes=60,
        threshold=lambda _nodes: MANY_EVENTS_PER_HOUR,
    ),
    Signal(mail=notifications.INSTANCE_FAILED, pattern=_failed_instances, minutes=60, threshold=lambda _nodes: 1),
    Signal(mail=notifications.LIFECYCLE_FAILED, pattern=_failed_scripts, minutes=60, threshold=lambda _nodes: 1),
    Signal(mail=notifications.CLUSTER_ERROR, pattern=_other_errors, minutes=60, threshold=lambda _nodes: 1),
)
"""What the archive of HyperPod's events says."""

KUBERNETES_SIGNALS = (
    Signal(
        mail=notifications.NODES_SILENT,
        pattern=_silent_nodes,
        minutes=15,
        threshold=lambda nodes: max(2, math.ceil(nodes * SILENT_SHARE)),
    ),
    Signal(mail=notifications.CRASH_LOOP, pattern=_crash_loops, minutes=30, threshold=lambda _nodes: 3),
)
"""What the audit log of the EKS control plane says. It holds the requests of kubelets with their bodies:
https://docs.aws.amazon.com/eks/latest/best-practices/auditing-and-logging.html"""


class Watch(Construct):
    """Metric filters (`AWS::Logs::MetricFilter`) and alarms (`AWS::CloudWatch::Alarm`) that notify topics.

    Args:
        topics: Who is notified.
        environment: Name of the environment: first part of the alarms' names, and in what they say.
        nodes: Nodes of the cluster at full count, of which thresholds are a share.
        runbook: Address of the page of all alarms, for their descriptions.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topics: Sequence[sns.ITopic],
        environment: str,
        namespaces: Sequence[str],
        nodes: int,
        runbook: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._topics, self._nodes = topics, nodes
        self._environment, self._runbook = environment, runbook
        self.arns: list[str] = []
        self.counted: list[str] = []
        self._namespaces = [*namespaces, *(name for name in SYSTEM_NAMESPACES if name not in namespaces)]

    def count(self, signal: Signal, *, log_group: logs.ILogGroup) -> None:
        """Count a signal in a log group; alarm where it comes as often as its threshold."""
        namespace = self.namespace
        self.counted.append(signal.name)
        logs.CfnMetricFilter(
            self,
            f"{signal.name}Filter",
            log_group_name=log_group.log_group_name,
            filter_pattern=signal.pattern(self._namespaces),
            metric_transformations=[
                logs.CfnMetricFilter.MetricTransformationProperty(
                    metric_name=signal.name, metric_namespace=namespace, metric_value="1", default_value=0
                )
            ],
        )
        metric = cloudwatch.Metric(
            namespace=namespace,
            metric_name=signal.name,
            statistic="Sum",
            period=Duration.minutes(signal.minutes),
        )
        self.alarm(signal.mail, metric, threshold=signal.threshold(self._nodes))

    @property
    def namespace(self) -> str:
        """CloudWatch namespace of the counts."""
        return f"HyperPodRay/{Stack.of(self).stack_name}"

    def undelivered(self, rule: events.CfnRule) -> None:
        """Events of a rule that could not be delivered."""
        self.alarm(notifications.undelivered(rule.node.id), _of_rule(rule, "FailedInvocations"), threshold=1)

    def overdue(self, eks_cluster_name: str) -> None:
        """Pods that no node can take, for longer than a replacement takes; EKS publishes the figure by itself.

        https://docs.aws.amazon.com/eks/latest/userguide/cloudwatch.html
        """
        period = 10
        metric = cloudwatch.Metric(
            namespace="AWS/EKS",
            metric_name="scheduler_pending_pods_UNSCHEDULABLE",
            dimensions_map={"ClusterName": eks_cluster_name},
            statistic="Minimum",
            period=Duration.minutes(period),
        )
        self.alarm(notifications.REPLACEMENT_OVERDUE, metric, threshold=1, periods=OVERDUE_MINUTES // period)

    def alarm(
        self,
        mail: AlarmMail,
        metric: cloudwatch.Metric,
        *,
        threshold: float,
        periods: int = 1,
        below: bool = False,
    ) -> None:
        """An alarm that notifies the topics (`AWS::CloudWatch::Alarm`).

        Args:
            mail: What its mail says.
            metric: What it reads, with its period.
            threshold: From which value on it alarms; with `below`, under which.
            periods: For how many periods in a row.
            below: Alarm under the threshold.
        """
        greater = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        name = mail.alarm_name(self._environment)
        alarm = cloudwatch.Alarm(
            self,
            mail.name,
            alarm_name=name,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD if below else greater,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=mail.description(self._environment, runbook=self._runbook),
        )
        for topic in self._topics:
            alarm.add_alarm_action(actions.SnsAction(topic))
        self.arns.append(alarm.alarm_arn)


def _of_rule(rule: events.CfnRule, metric: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name=metric,
        dimensions_map={"RuleName": rule.ref},
        statistic="Sum",
        period=Duration.hours(1),
    )

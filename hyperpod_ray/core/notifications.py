"""What each mail of an environment says: what it means, the command to run, the section of the runbook.

Two ways lead to the topic of an environment:

- A CloudWatch alarm notifies the topic itself. CloudWatch then writes the mail: the alarm's name, and with it the
  environment, is in the subject; the time of the change and the alarm's description, of this module, are in the body.
  EventBridge could reformat it, but every mail of EventBridge has the same subject, and an alarm about
  EventBridge's own deliveries could not arrive.
- An EventBridge rule with an input transformer notifies the topic of single events: a faulty node, a failed cluster,
  the end of an alarm.

Only what repeats itself (an instance that cannot be created is tried again and again) is an alarm, which mails once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray.core.names import PROGRAM

RUNBOOK = "docs/runbook.md"
NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
STATE_CHANGE = "SageMaker HyperPod Cluster State Change"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
"""https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html"""
ALARM_CHANGE = "CloudWatch Alarm State Change"
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch-and-eventbridge.html"""
MAXIMUM_DESCRIPTION = 1024
"""Characters of an alarm's description.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"""

NOT_CREATED = (
    "*failed*as part of instance replacement*",
    "*Instance creation*failed*",
    "*Failed to provision*",
    "*Failed to start Instance*",
)
"""Descriptions of events about an instance that could not be created: the alarm counts them, and `status` quotes why.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html"""

# --- sections of the runbook -----------------------------------------------------------------------------------------

HANG = "The job hangs"
UNREACHABLE = "A node is unreachable but does not go away"
PENDING = "A pod is Pending"
CONTROLLER = "A controller is down"
CRASHES = "A container crashes again and again"
UNSCHEDULABLE = "A node is Unschedulable"
NO_NODES = "InService but no nodes"
FAILED = "The cluster says Failed"
FULL = "The file system fills up"
MAILS = "A mail about an alarm"


def alarm_prefix(environment: str) -> str:
    """What the names of an environment's alarms begin with, and those of no other one: no environment has a slash."""
    return f"{environment}/"


@dataclass(frozen=True, kw_only=True)
class Notification:
    """What a mail says besides the environment and the time.

    `run` is the command without the program; `{environment}` stands for the environment's name. It is `status`, or what
    `status` says to run: the table of faults in the tests holds them together. A mail about an event may use
    `<variables>` of its rule in `run` and `means`.
    """

    name: str
    means: str
    section: str
    run: str = "status {environment}"

    def command(self, environment: str) -> str:
        """The command to run."""
        return f"{PROGRAM} {self.run.format(environment=environment)}"

    def runbook(self, address: str | None = None) -> str:
        """Where the runbook has it: an address that a phone opens, where the environment has one.

        Args:
            address: Of the page of all alarms (`hyperpod.runbook_url`).
        """
        return f"{address}#{self.name.lower()}" if address else f"{RUNBOOK}, section {self.section}"


@dataclass(frozen=True, kw_only=True)
class AlarmMail(Notification):
    """A mail that CloudWatch writes about an alarm."""

    def alarm_name(self, environment: str) -> str:
        """Name of the alarm, and thereby the subject of the mail."""
        return f"{alarm_prefix(environment)}{self.name}"

    def description(self, environment: str, *, runbook: str | None = None) -> str:
        """Description of the alarm: the part of the mail that is ours. CloudWatch adds name, time and reason."""
        lines = (
            f"Environment {environment}.",
            f"Meaning: {self.means}",
            f"Run: {self.command(environment)}",
            f"Runbook: {self.runbook(runbook)}",
        )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class EventMail(Notification):
    """A mail that EventBridge writes about one event.

    Variables are identifiers, times and enumerated values only: EventBridge does not escape what it inserts, so that a
    quotation mark in a free text (a reason, a failure message) could spoil the mail. The command shows the text.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
    """

    what: str
    source: str = "aws.sagemaker"
    detail_type: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Pattern of the event's `detail`. Each path of `variables` is in every event that the pattern lets through."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variable to JSON path of the event."""
    since: str = "$.time"

    def pattern(self, resources: Sequence[Any]) -> dict[str, Any]:
        """`EventPattern` of the rule, for certain resources."""
        return {
            "source": [self.source],
            "detail-type": [self.detail_type],
            "resources": list(resources),
            "detail": dict(self.detail),
        }

    def paths(self) -> dict[str, str]:
        """`InputPathsMap` of the transformer."""
        return {**self.variables, "since": self.since}

    def template(self, environment: str, *, account: str, region: str, runbook: str | None = None) -> str:
        """`InputTemplate` of the transformer: text of several lines, each in quotation marks of its own."""
        lines = (
            f"Environment {environment} (account {account}, {region}): {self.what}",
            f"Meaning: {self.means}",
            "Since: <since>",
            f"Run: {self.command(environment)}",
            f"Runbook: {self.runbook(runbook)}",
        )
        return "\n".join(json.dumps(line) for line in lines)

    def chat_template(self, environment: str, *, account: str, region: str, runbook: str | None = None) -> str:
        """`InputTemplate` of the transformer for a chat: a custom notification, as JSON."""
        return chat_message(
            title=f"{environment}: {self.what}",
            text=f"{self.means}\nSince <since>, account {account}, {region}.",
            steps=(f"Run `{self.command(environment)}`", f"Read {self.runbook(runbook)}"),
        )


def chat_message(*, title: str, text: str, steps: Sequence[str]) -> str:
    """A message that Amazon Q Developer in chat applications shows; it drops text of any other form.

    https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html
    """
    content = {"textType": "client-markdown", "title": title, "description": text, "nextSteps": list(steps)}
    return json.dumps({"version": "1.0", "source": "custom", "content": content})


# --- events ----------------------------------------------------------------------------------------------------------

_NODE = {"node": "$.detail.InstanceId"}
_THERE = [{"exists": True}]

NODE_FAULTY = EventMail(
    name="NodeFaulty",
    what="node <node> is faulty, and the service repairs it (<repair>)",
    means="Pods on the node go with it. Training resumes from its last checkpoint, here or on another node.",
    section=UNSCHEDULABLE,
    detail_type=NODE_HEALTH,
    detail={
        "InstanceId": _THERE,
        "HealthSummary": {
            "HealthStatus": [{"anything-but": ["Healthy"]}],
            "RepairAction": [{"anything-but": ["None"]}],
        },
    },
    variables={**_NODE, "repair": "$.detail.HealthSummary.RepairAction"},
)
NODE_NOT_REPAIRED = EventMail(
    name="NodeNotRepaired",
    what="node <node> is faulty, and nothing repairs it by itself",
    means="CPU nodes, and every node without automatic node recovery, stay faulty until you replace them.",
    run="nodes replace {environment} <node>",
    section=UNSCHEDULABLE,
    detail_type=NODE_HEALTH,
    detail={
        "InstanceId": _THERE,
        "HealthSummary": {
            "HealthStatus": [{"anything-but": ["Healthy"]}],
            "RepairAction": ["None", {"exists": False}],
        },
    },
    variables=_NODE,
)
NODE_HEALTHY = EventMail(
    name="NodeHealthy",
    what="node <node> is healthy again",
    means="HyperPod no longer finds a fault on the node. Pods can be scheduled on it.",
    section=UNSCHEDULABLE,
    detail_type=NODE_HEALTH,
    detail={"InstanceId": _THERE, "HealthSummary": {"HealthStatus": ["Healthy"]}},
    variables=_NODE,
)
CLUSTER_FAILED = EventMail(
    name="ClusterFailed",
    what="the HyperPod cluster is <status>",
    means="Its last change did not succeed. Nodes that run keep running.",
    section=FAILED,
    detail_type=STATE_CHANGE,
    detail={"ClusterStatus": ["Failed", "RollingBack"]},
    variables={"status": "$.detail.ClusterStatus"},
)
ALARM_ENDED = EventMail(
    name="AlarmEnded",
    what="alarm <alarm> has ended",
    means="The condition of the alarm no longer holds.",
    section=MAILS,
    source="aws.cloudwatch",
    detail_type=ALARM_CHANGE,
    detail={"state": {"value": ["OK"]}, "previousState": {"value": ["ALARM"]}},
    variables={"alarm": "$.detail.alarmName"},
    since="$.detail.state.timestamp",
)
CLUSTER_MAILS: Sequence[EventMail] = (NODE_FAULTY, NODE_NOT_REPAIRED, NODE_HEALTHY, CLUSTER_FAILED)
"""About events of the HyperPod cluster. All its other events are archived, and alarms count them."""

# --- alarms ----------------------------------------------------------------------------------------------------------

REPLACEMENT_OVERDUE = AlarmMail(
    name="ReplacementOverdue",
    means="Pods have waited 90 minutes for a node. A replacement is late, or capacity is missing.",
    section=NO_NODES,
)
MANY_UNHEALTHY = AlarmMail(
    name="ManyUnhealthy",
    means="Ten node health events within an hour: rather a change or a zone than one node.",
    section=UNSCHEDULABLE,
)
REPEATED_GPU_FAULTS = AlarmMail(
    name="RepeatedGpuFaults",
    means="Three GPU faults (Xid, DCGM) within a day.",
    section=UNSCHEDULABLE,
)
INSTANCE_FAILED = AlarmMail(
    name="InstanceFailed",
    means="HyperPod could not create an instance, perhaps a replacement. It keeps trying.",
    run="nodes events {environment} --limit 10",
    section=NO_NODES,
)
LIFECYCLE_FAILED = AlarmMail(
    name="LifecycleFailed",
    means="The lifecycle script failed on an instance. The instance does not join the cluster.",
    run="logs {environment} --kind lifecycle --since 3h",
    section=NO_NODES,
)
CLUSTER_ERROR = AlarmMail(
    name="ClusterError",
    means="HyperPod reported an error of the cluster, of a group or of an instance.",
    run="nodes events {environment} --limit 10",
    section=FAILED,
)
NODES_SILENT = AlarmMail(
    name="NodesSilent",
    means="A fifth of the nodes became NotReady within 15 minutes: rather the network than one node.",
    section=UNREACHABLE,
)
CRASH_LOOP = AlarmMail(
    name="CrashLoop",
    means="Containers of Ray or of the system crash again and again.",
    section=CRASHES,
)
FILE_SYSTEM_FULL = AlarmMail(
    name="FileSystemNearlyFull",
    means="Less than a tenth of the shared file system is free. A full one ends training at the next checkpoint.",
    section=FULL,
)
HOMES_FULL = AlarmMail(
    name="HomesNearlyFull",
    means="Less than a tenth of the home folders' file system is free. A full one ends jobs that write there.",
    section=FULL,
)


WORKERS_MISSING = AlarmMail(
    name="WorkersMissing",
    means="Ray has fewer nodes than the environment's file asks for, or their metrics do not arrive.",
    section=NO_NODES,
)
OPERATOR_DOWN = AlarmMail(
    name="OperatorDown",
    means="The KubeRay operator sends no metrics. While it is down, no lost worker is replaced.",
    section=CONTROLLER,
)
GPUS_IDLE = AlarmMail(
    name="GpusIdle",
    means="No GPU of Ray's is in use. A job hangs, has ended, or was never submitted.",
    run="runs list {environment}",
    section=HANG,
)
NO_STEP = AlarmMail(
    name="NoTrainingStep",
    means="A run of the training library has a driver, and finished no step for the minutes that the file names.",
    section=HANG,
)
ALERTS_UNDELIVERED = AlarmMail(
    name="AlertsUndelivered",
    means="The alert manager of Amazon Managed Service for Prometheus could not deliver a mail.",
    section=MAILS,
)
METRIC_MAILS: Sequence[AlarmMail] = (WORKERS_MISSING, OPERATOR_DOWN, GPUS_IDLE, NO_STEP, ALERTS_UNDELIVERED)
"""With the section `observability` only: what they read is collected by its add-on."""


def undelivered(rule: str) -> AlarmMail:
    """Events of a rule that could not be delivered."""
    return AlarmMail(
        name=f"Undelivered{rule}",
        means=f"EventBridge could not deliver events of its rule {rule}. A mail or an archived event is missing.",
        run="nodes events {environment} --limit 10",
        section=MAILS,
    )


CLUSTER_RULES = (*CLUSTER_MAILS, ALARM_ENDED)
COST = "What does it cost?"


def budget_name(environment: str) -> str:
    """Name of an environment's budget, which AWS's mail repeats: the one place for a command. It has no colon.

    https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html
    """
    return f"{environment}. Run {PROGRAM} cost {environment}. Runbook, {COST}"


ARCHIVE = "Archive"
"""The rule that archives every event of the cluster."""
ALARM_MAILS: Sequence[AlarmMail] = (
    REPLACEMENT_OVERDUE,
    MANY_UNHEALTHY,
    REPEATED_GPU_FAULTS,
    INSTANCE_FAILED,
    LIFECYCLE_FAILED,
    CLUSTER_ERROR,
    NODES_SILENT,
    CRASH_LOOP,
    FILE_SYSTEM_FULL,
    HOMES_FULL,
    *(undelivered(mail.name) for mail in CLUSTER_RULES),
    undelivered(ARCHIVE),
)
"""Every alarm that an environment can have."""

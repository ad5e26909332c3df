"""The rules and alarms of an environment in the embedded AWS, and readers of what they send."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from hyperpod_ray.core import notifications

Client = Callable[[str], Any]
"""Makes a boto3 client of a service."""


class Inbox:
    """A queue that gets what subscribers of a topic get, or what a rule delivers."""

    def __init__(self, client: Client, name: str) -> None:
        self.sqs = client("sqs")
        self.url = self.sqs.create_queue(QueueName=f"{name}-{uuid.uuid4().hex[:8]}")["QueueUrl"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn = attributes["Attributes"]["QueueArn"]
        statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": self.arn}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"Policy": policy})
        self.got: list[str] = []

    def read(self) -> list[str]:
        """Everything that came so far."""
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                self.got.append(message["Body"])
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return self.got


class Post:
    """The rules of an environment for one cluster, with a reader of its mails and one of the events themselves."""

    def __init__(self, client: Client, cluster_arn: str) -> None:
        self.mails, self.events = Inbox(client, "mails"), Inbox(client, "events")
        sns, self.bus, self.alarms = client("sns"), client("events"), client("cloudwatch")
        self.topic = sns.create_topic(Name=f"mails-{uuid.uuid4().hex[:8]}")["TopicArn"]
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=self.mails.arn, Attributes=raw)
        self.rules: list[str] = []
        for mail in notifications.CLUSTER_MAILS:
            account, region = cluster_arn.split(":")[4], cluster_arn.split(":")[3]
            transformer = {
                "InputPathsMap": mail.paths(),
                "InputTemplate": mail.template("demo", account=account, region=region),
            }
            self._rule(mail.name, mail.pattern([cluster_arn]), {"Arn": self.topic, "InputTransformer": transformer})
        self._rule("every", {"source": ["aws.sagemaker"], "resources": [cluster_arn]}, {"Arn": self.events.arn})

    def _rule(self, name: str, pattern: dict[str, Any], target: dict[str, Any]) -> None:
        rule = f"{name}-{uuid.uuid4().hex[:8]}"
        self.bus.put_rule(Name=rule, EventPattern=json.dumps(pattern))
        failed = self.bus.put_targets(Rule=rule, Targets=[{"Id": "Target0", **target}])["FailedEntryCount"]
        assert failed == 0
        self.rules.append(rule)

    def alarm(self, mail: notifications.AlarmMail) -> dict[str, Any]:
        """What subscribers get when the alarm goes into ALARM. Its state is set: nothing here publishes its metric."""
        name = mail.alarm_name("demo")
        self.alarms.put_metric_alarm(
            AlarmName=name, AlarmDescription=mail.description("demo"), AlarmActions=[self.topic], Namespace="Test",
            MetricName=mail.name, Statistic="Sum", Period=60, EvaluationPeriods=1, Threshold=1,
            ComparisonOperator="GreaterThanOrEqualToThreshold", TreatMissingData="ignore",
        )  # fmt: skip
        before = len(self.mails.read())
        self.alarms.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test")
        (text,) = self.mails.read()[before:]
        self.alarms.delete_alarms(AlarmNames=[name])
        found: dict[str, Any] = json.loads(text)
        return found

    def close(self) -> None:
        """Remove what was made."""
        for rule in self.rules:
            self.bus.remove_targets(Rule=rule, Ids=["Target0"])
            self.bus.delete_rule(Name=rule)

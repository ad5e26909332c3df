"""A fault of the embedded HyperPod becomes the text of a mail, through rule, transformer and topic.

MiniStack's EventBridge is another hand's: its patterns and its transformer judge ours, and the evaluators of the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray.core import notifications
from tests.sandbox.aws.clusters_helpers import Clusters, group
from tests.support.emulator import Emulator, until
from tests.support.eventbridge import matches, plain, transformed
from tests.support.faults import AWS, FAULTS
from tests.support.post import Post

pytestmark = pytest.mark.emulator


@pytest.fixture
def clusters(emulator: Emulator) -> Iterator[Clusters]:
    made = Clusters(emulator)
    yield made
    for name in made.made:
        made.api.delete_cluster(ClusterName=name)
    until(lambda: all(made.gone(name) for name in made.made))


def _faulty(events: list[Any]) -> list[Any]:
    """The events of failing nodes; those of nodes that are well again are of the same type."""
    return [
        event for event in events
        if event["detail-type"] == notifications.NODE_HEALTH
        and event["detail"]["HealthSummary"]["HealthStatus"] != "Healthy"
    ]  # fmt: skip


def _with_both(texts: list[str]) -> list[Any]:
    """All events, once both kinds have come: two nodes' health, and the cluster's own."""
    events = [json.loads(text) for text in texts]
    own = any(event["detail-type"] == notifications.CLUSTER_EVENT for event in events)
    return events if own and len(_faulty(events)) >= 2 else []


def test_a_fault_arrives_as_the_text_of_a_mail(emulator: Emulator, clusters: Clusters) -> None:
    cpu = group("head", count=1, kind="ml.m5.2xlarge")
    name = clusters.create(group("gpu", count=1), cpu, NodeRecovery="Automatic")
    clusters.all_running(name, 2)
    listed = clusters.api.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    nodes = {node["InstanceGroupName"]: node["InstanceId"] for node in listed}
    post = Post(emulator.boto, clusters.api.describe_cluster(ClusterName=name)["ClusterArn"])
    try:
        emulator.control.fail_node(nodes["gpu"])
        emulator.control.fail_node(nodes["head"])
        mails = until(lambda: all(any(node in text for text in post.mails.read()) for node in nodes.values())
                      and post.mails.got)  # fmt: skip
        events = until(lambda: _with_both(post.events.read()))
    finally:
        post.close()
    lines = [plain(mail) for mail in mails]
    gpu = next(found for found in lines if nodes["gpu"] in found[0])
    assert gpu[0].endswith(f"node {nodes['gpu']} is faulty, and the service repairs it (Replace)")
    assert gpu[3] == "Run: hyperpod-ray status demo"
    head = next(found for found in lines if nodes["head"] in found[0])
    assert head[3] == f"Run: hyperpod-ray nodes replace demo {nodes['head']}"
    # two implementations of the transformer, one text; and the sandbox's events have the documented members
    faulty = _faulty(events)
    account, region = faulty[0]["account"], faulty[0]["region"]
    for event in faulty[:2]:
        mail = next(m for m in notifications.CLUSTER_MAILS if matches({"detail": dict(m.detail)}, event))
        ours = {"InputPathsMap": mail.paths(), "InputTemplate": mail.template("demo", account=account, region=region)}
        assert transformed(ours, event) in mails
        assert event.keys() == AWS["node-health"].keys()
        assert event["detail"].keys() == AWS["node-health"]["detail"].keys()
        assert event["detail"]["HealthSummary"].keys() == AWS["node-health"]["detail"]["HealthSummary"].keys()
    said = next(event for event in events if event["detail-type"] == notifications.CLUSTER_EVENT)
    assert said["detail"]["EventDetails"].keys() <= AWS["cluster-event"]["detail"]["EventDetails"].keys()


def test_another_implementation_matches_the_same_events(emulator: Emulator) -> None:
    bus, disagree = emulator.boto("events"), []
    for mail in notifications.CLUSTER_MAILS:
        for fault in (fault for fault in FAULTS if fault.event):
            pattern = mail.pattern(fault.event["resources"])
            answer = bus.test_event_pattern(EventPattern=json.dumps(pattern), Event=json.dumps(fault.event))
            if not answer["Result"] == matches(pattern, fault.event) == (fault.mail == mail.name):
                disagree.append((mail.name, fault.name))
    assert disagree == []


def test_an_alarms_end_is_matched_by_the_prefix_of_its_environment(emulator: Emulator) -> None:
    bus = emulator.boto("events")
    prefix = f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{notifications.alarm_prefix('prod')}"
    pattern = json.dumps(notifications.ALARM_ENDED.pattern([{"prefix": prefix}]))
    ended = json.loads(json.dumps(AWS["alarm"]))
    ended["detail"]["state"]["value"], ended["detail"]["previousState"]["value"] = "OK", "ALARM"
    for resource, expected in ((f"{prefix}CrashLoop", True), (prefix.replace("prod/", "prod-2/CrashLoop"), False)):
        event = json.dumps({**ended, "resources": [resource]})
        assert bus.test_event_pattern(EventPattern=pattern, Event=event)["Result"] is expected

from __future__ import annotations

from datetime import datetime

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.orchestrators.hyperpod_logs import STREAMS, HyperPodLogs, LogStreams
from hyperpod_ray.ops.orchestrators.hyperpod_nodes import HyperPodNodes
from tests.ops.ops_node_services_helpers import Json, of, refusal, stream, summary
from tests.ops.snapshots import ONE, TWO, ago
from tests.support.answers import CLUSTER_ARN

LISTED = {
    "ClusterNodeSummaries": [summary(ONE, "ip-10-0-0-7.us-west-2.compute.internal"), summary(TWO)],
    "NextToken": "",
}


def entry(at: datetime, text: str, name: str, identifier: str = "") -> Json:
    millis = int(at.timestamp() * 1000)
    return {
        "timestamp": millis,
        "message": text,
        "logStreamName": name,
        **({"eventId": identifier} if identifier else {}),
    }


def test_a_log_is_read_stream_by_stream_a_hundred_at_a_time() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html: 1 to 100 names"""
    streams = [stream(f"LifecycleConfig/workers/i-{number:017x}") for number in range(101)]
    one, last = streams[0]["logStreamName"], streams[100]["logStreamName"]
    target, account = of(
        describe_log_streams={"logStreams": streams},
        filter_log_events=[{"events": [entry(ago(1), "late\n", one)]}, {"events": [entry(ago(5), "early", last)]}],
    )
    reader = LogStreams(target, group="/aws/sagemaker/Clusters/ray-ops/abc", kinds=["lifecycle"], instance="")
    lines = reader.read(ago(10), ago(0))
    assert [(line["time"], line["kind"], line["stream"], line["message"]) for line in lines] == [
        (output.stamp(ago(5)), "lifecycle", last, "early"),
        (output.stamp(ago(1)), "lifecycle", one, "late"),
    ]
    first, second = account.arguments("filter_log_events")
    assert [len(first["logStreamNames"]), len(second["logStreamNames"])] == [100, 1]
    assert (first["startTime"], first["endTime"]) == (int(ago(10).timestamp() * 1000), int(ago(0).timestamp() * 1000))
    assert first["logGroupName"] == "/aws/sagemaker/Clusters/ray-ops/abc"
    (asked,) = account.arguments("describe_log_streams")
    assert asked["logStreamNamePrefix"] == "LifecycleConfig/"


def test_a_line_counts_once_however_often_it_is_read() -> None:
    name = f"LifecycleConfig/workers/{ONE.id}"
    other = stream(f"LifecycleConfig/workers/{TWO.id}")
    twice = [entry(ago(2), "same", name), entry(ago(2), "same", name, "1"), entry(ago(2), "same", name, "2")]
    more = [*twice, entry(ago(1), "new", name, "3")]
    target, account = of(
        describe_log_streams={"logStreams": [stream(name), other]},
        filter_log_events=[{"events": twice}, {"events": more}],
    )
    reader = LogStreams(target, group="g", kinds=["lifecycle"], instance=ONE.id)
    assert len(reader.read(ago(9), None)) == 3
    assert [line["message"] for line in reader.read(ago(9), None)] == ["new"]
    assert all(asked["logStreamNames"] == [name] for asked in account.arguments("filter_log_events"))
    assert all("endTime" not in asked for asked in account.arguments("filter_log_events"))


def test_every_log_is_one_reader_and_a_group_that_is_not_there_says_so() -> None:
    target, account = of(describe_log_streams={"logStreams": []})
    reader = HyperPodLogs(target, HyperPodNodes(target)).reader("all", node="")
    assert reader.group == f"/aws/sagemaker/Clusters/ray-ops/{CLUSTER_ARN.rpartition('/')[2]}"
    assert reader.read(ago(1), None) == []
    prefixes = [asked["logStreamNamePrefix"] for asked in account.arguments("describe_log_streams")]
    assert prefixes == list(STREAMS.values())
    assert prefixes == ["LifecycleConfig/", "SagemakerHealthMonitoringAgent/", "DeepHealthCheckResults/"]
    reader = HyperPodLogs(target, HyperPodNodes(target)).reader("health-agent", node="")
    assert reader._kinds == ["health-agent"]
    target, _ = of(describe_log_streams=refusal("ResourceNotFoundException"))
    with pytest.raises(OpsError, match=r"no log group g\. Expected a cluster whose first node has started") as absent:
        LogStreams(target, group="g", kinds=["lifecycle"], instance="").read(ago(1), None)
    assert absent.value.fix == "hyperpod-ray nodes events demo"
    target, _ = of(describe_log_streams=refusal("AccessDeniedException"))
    with pytest.raises(ClientError):
        LogStreams(target, group="g", kinds=["lifecycle"], instance="").read(ago(1), None)


def test_logs_outlive_nodes_so_that_an_id_is_taken_as_it_is() -> None:
    gone = "i-0123456789abcdef0"
    for name, identifier, listings in (
        (gone, gone, 0),
        (f"hyperpod-{gone}", gone, 0),
        ("ip-10-0-0-7", ONE.id, 1),
        ("", "", 0),
    ):
        target, account = of(list_cluster_nodes=LISTED)
        assert HyperPodLogs(target, HyperPodNodes(target)).reader("lifecycle", node=name)._instance == identifier
        assert len(account.arguments("list_cluster_nodes")) == listings

"""Logs of a HyperPod cluster's nodes, in CloudWatch Logs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.evidence import code
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.orchestrators.interface import Nodes
from hyperpod_ray.ops.reach.clients import AnyTarget

STREAMS = {
    "lifecycle": "LifecycleConfig/",
    "health-agent": "SagemakerHealthMonitoringAgent/",
    "deep-health-check": "DeepHealthCheckResults/",
}
"""Kinds of logs, and how their streams' names begin: `LifecycleConfig/<group>/<instance>` and so on."""
STREAMS_PER_CALL = 100


class HyperPodLogs:
    """Logs of the nodes of one environment."""

    def __init__(self, target: AnyTarget, nodes: Nodes) -> None:
        self.target, self.nodes = target, nodes

    def reader(self, kind: str, *, node: str) -> LogStreams:
        """What reads logs of a kind, or of all; a node that the cluster no longer lists is taken by its ID."""
        cluster = hyperpod.require_cluster(self.target)
        return LogStreams(
            self.target,
            group=names.cluster_log_group(cluster.name, cluster.arn),
            kinds=list(STREAMS) if kind == "all" else [kind],
            instance=self._instance(node),
        )

    def _instance(self, node: str) -> str:
        # logs outlive nodes
        identifier = names.instance_id(node)
        known = not node or re.fullmatch(r"i-[0-9a-f]{8,17}", identifier)
        return identifier if known else self.nodes.find(node).id


class LogStreams:
    """Reads what was not read before: an event counts once, whatever the time window."""

    def __init__(self, target: AnyTarget, *, group: str, kinds: list[str], instance: str) -> None:
        self._target = target
        self.group = group
        self._kinds = kinds
        self._instance = instance
        self._seen: set[str] = set()

    def read(self, begin: datetime, end: datetime | None) -> list[dict[str, Any]]:
        """New lines of all streams, by time."""
        found: list[dict[str, Any]] = []
        for kind in self._kinds:
            streams = self._streams(STREAMS[kind])
            for start in range(0, len(streams), STREAMS_PER_CALL):
                found += self._events(kind, streams[start : start + STREAMS_PER_CALL], begin, end)
        return sorted(found, key=lambda line: str(line["time"]))

    def _streams(self, prefix: str) -> list[str]:
        try:
            listed = self._target.aws.pages(
                "logs", "describe_log_streams", "logStreams", logGroupName=self.group, logStreamNamePrefix=prefix
            )
        except Exception as error:
            if code(error) == "ResourceNotFoundException":
                raise OpsError(
                    f"no log group {self.group}",
                    expected="a cluster whose first node has started",
                    fix=f"hyperpod-ray nodes events {self._target.name}",
                ) from None
            raise
        return [stream["logStreamName"] for stream in listed if self._instance in stream["logStreamName"]]

    def _events(self, kind: str, streams: list[str], begin: datetime, end: datetime | None) -> list[dict[str, Any]]:
        window: dict[str, Any] = {"startTime": int(begin.timestamp() * 1000)}
        window |= {"endTime": int(end.timestamp() * 1000)} if end else {}
        events = self._target.aws.pages(
            "logs", "filter_log_events", "events", logGroupName=self.group, logStreamNames=streams, **window
        )
        fresh = []
        for event in events:
            key = event.get("eventId") or f"{event['logStreamName']}/{event['timestamp']}/{event['message']}"
            if key not in self._seen:
                self._seen.add(key)
                when = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
                fresh.append(
                    {
                        "time": output.stamp(when),
                        "kind": kind,
                        "stream": event["logStreamName"],
                        "message": event["message"].rstrip("\n"),
                    }
                )
        return fresh

"""`logs`: lifecycle, health-agent and deep-health-check logs of the nodes, out of CloudWatch Logs."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.evidence import code
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError
from hyperpod_ray.ops.observe import hyperpod
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.repair import nodes

STREAMS = {
    "lifecycle": "LifecycleConfig/",
    "health-agent": "SagemakerHealthMonitoringAgent/",
    "deep-health-check": "DeepHealthCheckResults/",
}
"""Kinds of logs, and how their streams' names begin: `LifecycleConfig/<group>/<instance>` and so on."""
FOLLOW_SECONDS = 5.0
STREAMS_PER_CALL = 100


def run(
    target: AnyTarget,
    *,
    kind: str,
    node: str,
    since: str,
    until: str,
    follow: bool,
    form: Format,
    poll: float = FOLLOW_SECONDS,
) -> int:
    """Print log lines, oldest first; with `follow`, continue until interrupted."""
    begin, end = moment(since), moment(until) if until else None
    if end and end <= begin:
        raise OpsError(
            f"--until: {until}",
            expected=f"a time after --since {since}",
            fix="exchange the two, or remove one",
            code=BAD_USE,
        )
    if follow and end:
        raise OpsError(
            "--follow with --until: both given", expected="one: --follow has no end", fix="remove --until", code=BAD_USE
        )
    cluster = hyperpod.require_cluster(target)
    group = names.cluster_log_group(cluster.name, cluster.arn)
    wanted = _Reader(
        target, group=group, kinds=[kind] if kind != "all" else list(STREAMS), instance=_instance(target, node)
    )
    found = wanted.read(begin, end)
    if form is Format.json and not follow:
        output.write_json("logs", {"environment": target.name, "log_group": group, "lines": found})
        return OK
    for line in found:
        _print(line, form)
    if not found:
        output.log(f"no {kind} lines since {output.stamp(begin)} in {group}")
    while follow:
        time.sleep(poll)
        for line in wanted.read(begin, None):
            _print(line, form)
    return OK


def _instance(target: AnyTarget, node: str) -> str:
    """The instance meant; an id that the cluster no longer lists is taken as it is: logs outlive nodes."""
    if not node:
        return ""
    identifier = names.instance_id(node)
    return identifier if re.fullmatch(r"i-[0-9a-f]{8,17}", identifier) else nodes.find(target, node)[1].id


def moment(text: str) -> datetime:
    """`90s`, `15m`, `2h`, `3d` ago, or a time such as `2026-11-21T17:40:00Z` (UTC where it names no zone)."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match:
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[match[2]]
        return output.now() - timedelta(**{unit: int(match[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OpsError(
            f"time: '{text}'",
            expected="15m, 2h, 3d or 2026-11-21T17:40:00Z",
            fix="correct --since or --until",
            code=BAD_USE,
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class _Reader:
    """Reads what was not read before: an event counts once, whatever the time window."""

    def __init__(self, target: AnyTarget, *, group: str, kinds: list[str], instance: str) -> None:
        self._target = target
        self._group = group
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
                "logs", "describe_log_streams", "logStreams", logGroupName=self._group, logStreamNamePrefix=prefix
            )
        except Exception as error:
            if code(error) == "ResourceNotFoundException":
                raise OpsError(
                    f"no log group {self._group}",
                    expected="a cluster whose first node has started",
                    fix=f"hyperpod-ray nodes events {self._target.name}",
                ) from None
            raise
        return [stream["logStreamName"] for stream in listed if self._instance in stream["logStreamName"]]

    def _events(self, kind: str, streams: list[str], begin: datetime, end: datetime | None) -> list[dict[str, Any]]:
        window: dict[str, Any] = {"startTime": int(begin.timestamp() * 1000)}
        window |= {"endTime": int(end.timestamp() * 1000)} if end else {}
        events = self._target.aws.pages(
            "logs", "filter_log_events", "events", logGroupName=self._group, logStreamNames=streams, **window
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


def _print(line: dict[str, Any], form: Format) -> None:
    if form is Format.json:
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{line['time']} {line['stream']}: {line['message']}\n")
    sys.stdout.flush()

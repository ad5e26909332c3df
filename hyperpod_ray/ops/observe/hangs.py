"""Hung jobs that HyperPod's job monitoring agent found: its events in the cluster's log group."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta

from hyperpod_ray.core import names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops.observe.snapshot import Cluster, Hang
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import Json, Target

SPAN = timedelta(hours=6)
"""How far back events are looked for."""
LISTED = 20


def hangs(target: Target, cluster: Cluster) -> tuple[Hang, ...]:
    """The newest events, newest first; none where the cluster has written no log yet."""
    try:
        events = target.aws.pages(
            "logs",
            "filter_log_events",
            "events",
            logGroupName=names.cluster_log_group(cluster.name, cluster.arn),
            logStreamNamePrefix=names.HANG_STREAMS,
            filterPattern=f'"{names.HANG_DETECTED}"',
            startTime=int((now() - SPAN).timestamp() * 1000),
        )
    except Exception as error:
        if absent(error):
            return ()
        raise
    listed = sorted((hang(event) for event in events), key=lambda reported: reported.at, reverse=True)
    return tuple(listed[:LISTED])


def hang(event: Json) -> Hang:
    """One event; its stream is `SageMakerHangJobDetectionEvents/GROUP/INSTANCE`, its message JSON or text."""
    _, _, rest = event["logStreamName"].partition("/")
    group, _, instance = rest.rpartition("/")
    text = event["message"].strip()
    with contextlib.suppress(ValueError):
        parsed = json.loads(text)
        if isinstance(parsed, dict):
            fields = {key.lower().replace("_", "").replace("-", ""): value for key, value in parsed.items()}
            job = str(fields.get("jobid") or fields.get("job") or "")
            text = str(fields.get("message") or fields.get("description") or fields.get("reason") or text)
            return Hang(at=_of_log(event), instance=instance, group=group, job=job, text=text[:300])
    return Hang(at=_of_log(event), instance=instance, group=group, text=text[:300])


def _of_log(event: Json) -> datetime:
    return datetime.fromtimestamp(event["timestamp"] / 1000, UTC)

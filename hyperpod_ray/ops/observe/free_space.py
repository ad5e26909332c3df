"""Free space of FSx for Lustre file systems, which only CloudWatch knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.reach.clients import AnyTarget

SPAN = timedelta(minutes=30)
"""How far back it is looked for; FSx publishes it every minute."""
GIB = 1024**3


def with_free_space(target: AnyTarget, listed: tuple[FileSystem, ...]) -> tuple[FileSystem, ...]:
    """The file systems with their free space, by the newest minute that CloudWatch has.

    FSx publishes one value a minute and server; their sum is the file system's, over one minute and no longer span.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html
    """
    ready = [item for item in listed if item.lifecycle in ("AVAILABLE", "UPDATING")]
    if not ready:
        return listed
    queries = [
        {
            "Id": f"free{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/FSx",
                    "MetricName": "FreeDataStorageCapacity",
                    "Dimensions": [{"Name": "FileSystemId", "Value": item.id}],
                },
                "Period": 60,
                "Stat": "Sum",
            },
        }
        for number, item in enumerate(ready)
    ]
    end = now()
    answer = target.aws.call(
        "cloudwatch",
        "get_metric_data",
        MetricDataQueries=queries,
        StartTime=end - SPAN,
        EndTime=end,
        ScanBy="TimestampDescending",
    )
    by_id = {result["Id"]: result for result in answer["MetricDataResults"]}
    free: dict[str, tuple[float, datetime]] = {}
    for number, item in enumerate(ready):
        result = by_id.get(f"free{number}") or {}
        if result.get("Values"):
            at, value = max(zip(result["Timestamps"], result["Values"], strict=True))
            free[item.id] = (value / GIB, at)
    return tuple(
        replace(item, free_gib=round(free[item.id][0], 1), free_at=free[item.id][1]) if item.id in free else item
        for item in listed
    )

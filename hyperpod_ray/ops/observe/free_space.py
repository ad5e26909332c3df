"""Free space of FSx file systems, which only CloudWatch knows."""

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

    Of Lustre FSx publishes one value a minute and server; their sum is the file system's, over one minute and no longer
    span. Of OpenZFS it publishes what is used. One without a size has no free space: its page names no figure of it.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html
    https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/fsx-openzfs-metrics.html
    """
    sized = [file_system for file_system in listed if not file_system.elastic]
    ready = [file_system for file_system in sized if file_system.lifecycle in ("AVAILABLE", "UPDATING")]
    if not ready:
        return listed
    queries = [
        {
            "Id": f"free{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/FSx",
                    "MetricName": "UsedStorageCapacity" if file_system.homes else "FreeDataStorageCapacity",
                    "Dimensions": [{"Name": "FileSystemId", "Value": file_system.id}],
                },
                "Period": 60,
                "Stat": "Average" if file_system.homes else "Sum",
            },
        }
        for number, file_system in enumerate(ready)
    ]
    until = now()
    answer = target.aws.call(
        "cloudwatch",
        "get_metric_data",
        MetricDataQueries=queries,
        StartTime=until - SPAN,
        EndTime=until,
        ScanBy="TimestampDescending",
    )
    by_id = {result["Id"]: result for result in answer["MetricDataResults"]}
    free: dict[str, tuple[float, datetime]] = {}
    for number, file_system in enumerate(ready):
        result = by_id.get(f"free{number}") or {}
        if result.get("Values"):
            at, value = max(zip(result["Timestamps"], result["Values"], strict=True))
            free[file_system.id] = (file_system.capacity_gib - value / GIB if file_system.homes else value / GIB, at)
    return tuple(
        replace(file_system, free_gib=round(free[file_system.id][0], 1), free_at=free[file_system.id][1])
        if file_system.id in free
        else file_system
        for file_system in listed
    )

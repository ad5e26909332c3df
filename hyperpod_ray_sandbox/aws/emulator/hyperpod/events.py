"""The operations that answer a cluster's events."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import page

Json = dict[str, Any]


class EventOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def ListClusterEvents(self, data: Json) -> Json:
        """Answer a cluster's events, newest first unless asked otherwise; without their failure messages."""
        cluster = self._clusters.find(data["ClusterName"])
        filters = {"InstanceGroupName": "InstanceGroupName", "NodeId": "InstanceId", "ResourceType": "ResourceType"}
        events = [
            e
            for e in cluster["_events"]
            if all(e.get(member) == data[parameter] for parameter, member in filters.items() if parameter in data)
            and _within(e["EventTime"], data.get("EventTimeAfter"), data.get("EventTimeBefore"))
        ]
        events.sort(key=lambda e: e["EventTime"], reverse=data.get("SortOrder", "Descending") == "Descending")
        selected, token = page(events, data)
        return {"Events": [{k: v for k, v in e.items() if not k.startswith("_")} for e in selected], **token}

    def DescribeClusterEvent(self, data: Json) -> Json:
        """Answer one event with its failure message."""
        cluster = self._clusters.find(data["ClusterName"])
        for event in cluster["_events"]:
            if event["EventId"] == data["EventId"]:
                details: Json = {k: v for k, v in event.items() if not k.startswith("_")}
                if event["_failure"]:
                    resource_type = event["ResourceType"]
                    details["EventDetails"] = {"EventMetadata": {resource_type: {"FailureMessage": event["_failure"]}}}
                return {"EventDetails": details}
        raise ServiceError("ResourceNotFound", f"Event {data['EventId']} not found")


def _within(moment: float, after: Any, before: Any) -> bool:
    return (after is None or moment >= _epoch(after)) and (before is None or moment <= _epoch(before))


def _epoch(value: Any) -> float:
    return float(value)

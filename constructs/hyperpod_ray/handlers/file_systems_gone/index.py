"""Custom resource: on delete, is every file system of an environment that claims created really gone?"""

from __future__ import annotations

from typing import Any

import boto3

PHYSICAL_ID = "file-systems-of-claims"


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Nothing to do but to be there: the waiting is done by `is_complete`."""
    return {"PhysicalResourceId": event.get("PhysicalResourceId", PHYSICAL_ID)}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, bool]:
    """True at once on create and update; on delete, true when no file system carries the environment's tag any more."""
    if event["RequestType"] != "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    left = [
        f"{file_system['FileSystemId']} ({file_system['Lifecycle']})"
        for page in boto3.client("fsx").get_paginator("describe_file_systems").paginate()
        for file_system in page["FileSystems"]
        if _made_by_claim(dict(file_system), properties["TagKey"], properties["TagValue"])
    ]
    if left:
        print("still there:", ", ".join(sorted(left)))  # the only trace while the destroy waits
    return {"IsComplete": not left}


def _made_by_claim(file_system: dict[str, Any], key: str, value: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in file_system.get("Tags", [])}
    # CSIVolumeName is the driver's own mark; a file system created by a stack lacks it
    return tags.get(key) == value and "CSIVolumeName" in tags

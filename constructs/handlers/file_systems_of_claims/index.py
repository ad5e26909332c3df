"""Custom resources: is the file system of a claim there, and is every one of an environment really gone?"""

from __future__ import annotations

from typing import Any

import boto3

MADE = "Custom::FileSystemOfClaim"
"""Resource type that waits on create; any other waits on delete."""
PHYSICAL_ID = "file-systems-of-claims"


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Nothing to do but to be there: the waiting is done by `is_complete`."""
    return {"PhysicalResourceId": event.get("PhysicalResourceId", PHYSICAL_ID)}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, bool]:
    """Whether what the resource waits for is so; true at once for every other request.

    Raises:
        RuntimeError: when a file system of a claim failed. It never becomes available.
    """
    creating = event["ResourceType"] == MADE
    if event["RequestType"] != ("Create" if creating else "Delete"):
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    pending = {
        file_system["FileSystemId"]: str(file_system["Lifecycle"])
        for page in boto3.client("fsx").get_paginator("describe_file_systems").paginate()
        for file_system in page["FileSystems"]
        if _made_by_claim(dict(file_system), properties["TagKey"], properties["TagValue"])
    }
    # the only trace while a deploy or a destroy waits
    print("to be made:" if creating else "still there:", ", ".join(map(" ".join, sorted(pending.items()))) or "none")
    if not creating:
        return {"IsComplete": not pending}
    if failed := [name for name, lifecycle in pending.items() if lifecycle == "FAILED"]:
        raise RuntimeError(
            f"{', '.join(failed)} failed. See FailureDetails of 'aws fsx describe-file-systems', and delete it"
        )
    return {"IsComplete": bool(pending) and set(pending.values()) <= {"AVAILABLE", "UPDATING"}}


def _made_by_claim(file_system: dict[str, Any], key: str, value: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in file_system.get("Tags", [])}
    # CSIVolumeName is the driver's own mark; a file system of a stack lacks it
    return tags.get(key) == value and "CSIVolumeName" in tags

"""Custom resource: are the EBS volumes of an environment's claims really gone?"""

from __future__ import annotations

from typing import Any

import boto3

PHYSICAL_ID = "volumes-of-claims"


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Nothing to do but to be there: the waiting is done by `is_complete`."""
    return {"PhysicalResourceId": event.get("PhysicalResourceId", PHYSICAL_ID)}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, bool]:
    """Whether no volume is left, on delete; true at once for every other request."""
    if event["RequestType"] != "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    pages = (
        boto3.client("ec2")
        .get_paginator("describe_volumes")
        .paginate(
            Filters=[
                {"Name": f"tag:{properties['TagKey']}", "Values": [properties["TagValue"]]},
                # the driver's own mark: a volume of somebody else lacks it
                {"Name": "tag-key", "Values": ["CSIVolumeName"]},
            ]
        )
    )
    left = {volume["VolumeId"]: str(volume["State"]) for page in pages for volume in page["Volumes"]}
    # the only trace while a destroy waits
    print("still there:", ", ".join(map(" ".join, sorted(left.items()))) or "none")
    return {"IsComplete": not left}

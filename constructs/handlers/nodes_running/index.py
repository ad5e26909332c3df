"""Custom resource: has an instance group of a HyperPod cluster a node that runs?"""

from __future__ import annotations

from typing import Any

import boto3

PHYSICAL_ID = "nodes-running"


def on_event(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Nothing to do but to be there: the waiting is done by `is_complete`."""
    return {"PhysicalResourceId": event.get("PhysicalResourceId", PHYSICAL_ID)}


def is_complete(event: dict[str, Any], _context: object) -> dict[str, bool]:
    """True at once on delete; on create and update, true when a node of the group and of its type runs."""
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    properties = event["ResourceProperties"]
    pages = (
        boto3.client("sagemaker")
        .get_paginator("list_cluster_nodes")
        .paginate(ClusterName=properties["ClusterName"], InstanceGroupNameContains=properties["InstanceGroupName"])
    )
    states = [
        f"{node.get('InstanceId', 'no instance yet')} {node['InstanceStatus']['Status']}"
        for page in pages
        for node in page["ClusterNodeSummaries"]
        # the filter also finds groups whose names only contain this one's
        if node["InstanceGroupName"] == properties["InstanceGroupName"]
        and node["InstanceType"] == properties["InstanceType"]
    ]
    running = any(state.endswith(" Running") for state in states)
    if not running:
        print("not running yet:", ", ".join(sorted(states)) or "no node")  # the only trace while the deploy waits
    return {"IsComplete": running}

"""Events as AWS documents them, with other values; and faults: what AWS says of each, and the mails that follow."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

AWS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "aws_events.yaml").read_text("utf-8"))
"""Events as AWS documents them."""


def event(kind: str, **changes: Any) -> dict[str, Any]:
    """A documented event with other values: `event("node-health", **{"detail.InstanceId": "i-1"})`; None: without."""
    made = copy.deepcopy(AWS[kind])
    for path, value in changes.items():
        *parents, last = path.split(".")
        at = made
        for part in parents:
            at = at[part]
        assert last in at, f"AWS documents no {path} of {kind}"
        if value is None:
            del at[last]
        else:
            at[last] = value
    return made


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, what AWS says of it, and the mails or alarms that follow."""

    name: str
    event: dict[str, Any]
    mail: str = ""
    """The rule that mails it. Empty: none does."""
    counted: set[str] = field(default_factory=set)
    """The alarms that count it."""


def health(**changes: str | None) -> dict[str, Any]:
    return event("node-health", **{f"detail.{key.replace('__', '.')}": value for key, value in changes.items()})


def cluster_event(description: str, level: str = "Error") -> dict[str, Any]:
    of = "detail.EventDetails"
    return event("cluster-event", **{f"{of}.Description": description, f"{of}.EventLevel": level})


ACTION, STATUS, REASON = (f"HealthSummary__{key}" for key in ("RepairAction", "HealthStatus", "HealthStatusReason"))
FAULTS = [
    Fault(
        name="node, as documented: no repair",
        event=health(),
        mail="NodeNotRepaired",
        counted={"RepeatedGpuFaults", "ManyUnhealthy"},
    ),
    Fault(
        name="node that is replaced",
        event=health(**{ACTION: "Replace"}),
        mail="NodeFaulty",
        counted={"RepeatedGpuFaults", "ManyUnhealthy"},
    ),
    Fault(
        name="node that is rebooted",
        event=health(**{ACTION: "Reboot", REASON: "HMA has detected fault type EC2InstanceStatusCheckFailed"}),
        mail="NodeFaulty",
        counted={"ManyUnhealthy"},
    ),
    Fault(
        name="node, repair not said",
        event=health(**{ACTION: None}),
        mail="NodeNotRepaired",
        counted={"RepeatedGpuFaults", "ManyUnhealthy"},
    ),
    Fault(name="node healthy again", event=health(**{STATUS: "Healthy"}), mail="NodeHealthy"),
    Fault(name="cluster, as documented", event=event("cluster-state")),
    Fault(
        name="cluster failed", event=event("cluster-state", **{"detail.ClusterStatus": "Failed"}), mail="ClusterFailed"
    ),
    Fault(
        name="cluster rolls back",
        event=event("cluster-state", **{"detail.ClusterStatus": "RollingBack"}),
        mail="ClusterFailed",
    ),
    *(
        Fault(name=f"cluster {status}", event=event("cluster-state", **{"detail.ClusterStatus": status}))
        for status in ("Creating", "Deleting", "SystemUpdating", "Updating")
    ),
    Fault(name="no capacity, as documented", event=event("cluster-event"), counted={"InstanceFailed"}),
    Fault(
        name="EC2 instance not provisioned",
        event=cluster_event("Failed to provision EC2 Instance in Cluster c and IG g"),
        counted={"InstanceFailed"},
    ),
    Fault(
        name="replacement failed",
        event=cluster_event("Instance i-1 creation failed as part of instance replacement in Cluster c and IG g"),
        counted={"InstanceFailed"},
    ),
    Fault(
        name="replacement not started",
        event=cluster_event("Instance i-1 failed to start as part of instance replacement in Cluster c and IG g"),
        counted={"InstanceFailed"},
    ),
    Fault(
        name="lifecycle script failed",
        event=cluster_event(
            "Instance lifecycle script execution for EC2 Instance i-1 has Failed. To view lifecycle script logs, visit…"
        ),
        counted={"LifecycleFailed"},
    ),
    Fault(
        name="lifecycle script started",
        event=cluster_event("Instance lifecycle script execution for EC2 Instance i-1 has Started", "Info"),
    ),
    Fault(
        name="update failed",
        event=cluster_event("Rollback failed for IG g in Cluster c. Some instances may be in FailedMaintenance state."),
        counted={"ClusterError"},
    ),
    Fault(
        name="network interface not made",
        event=cluster_event("Failed to create Customer ENI for instance in Cluster c and IG g"),
        counted={"ClusterError"},
    ),
    Fault(
        name="update skipped",
        event=cluster_event(
            "UpdateClusterSoftware for Instance i-1 in IG g skipped due to PodDisruptionBudget", "Warn"
        ),
    ),
    Fault(name="scaling", event=cluster_event("InstanceGroup g scaling started successfully in Cluster c", "Info")),
]

"""Node objects that follow the HyperPod cluster of the embedded AWS: a model of what the service does to EKS.

A node exists from the moment its instance is Running, in deep health checks or updating; it carries the labels that
HyperPod sets, the group's own labels and taints, and while it is checked or faulty the taint
`sagemaker.amazonaws.com/node-health-status=Unschedulable:NoSchedule`. Its allocatable comes from
`hyperpod_ray_rules/data/instance_types.yaml`. Setting the health label by hand to `UnschedulablePendingReplacement` or
`UnschedulablePendingReboot` asks the service for just that, as in real life.

When an instance goes, its node is NotReady at once and its object goes after 46 s (times `time_scale`), its pods with
it. Fault hooks: `unreachable` keeps the object forever, NotReady after 41 s; `gone` deletes the object now,
`absent` keeps it from joining again; `restore` ends each.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_rules import data, names
from hyperpod_ray_sandbox.aws.client import ControlError
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.common import condition, event, node_ready, set_status
from hyperpod_ray_sandbox.kubernetes.discovery import GIT_VERSION
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request, not_found
from hyperpod_ray_sandbox.kubernetes.times import now

Json = dict[str, Any]

PREFIX = names.HYPERPOD_LABELS
HEALTH = names.HEALTH_LABEL
DEEP = names.DEEP_HEALTH_LABEL
MODE = "rehearsal.local/mode"
STATE = "rehearsal.local/state"
NOT_READY_SECONDS = 41.0
DELETED_SECONDS = 46.0
_PRESENT = ("Running", "DeepHealthCheckInProgress", "SystemUpdating", "Failure", "ShuttingDown")
_UNREACHABLE = names.UNREACHABLE
_NOT_READY = names.NOT_READY


def allocatable(instance_type: str) -> dict[str, str]:
    """What a node of the type offers to pods; a small guess for a type that is not in the table.

    The kubelet's own share: 80 m CPU and 1 GiB and 3 % of memory.
    """
    figures = data.instance_types().get(instance_type) or {"vcpus": 4, "memory_gib": 16, "pods": 14}
    memory = int(figures["memory_gib"] * 0.97 * 1024 * 1024) - 1024 * 1024
    resources = {
        "cpu": f"{int(figures['vcpus']) * 1000 - 80}m",
        "memory": f"{memory}Ki",
        "pods": str(figures.get("pods", 14)),
        "ephemeral-storage": "450Gi",
        "hugepages-2Mi": "5128Mi" if figures.get("efa") else "0",
    }
    accelerators = {"nvidia": names.GPU_RESOURCE, "neuron": names.NEURON_RESOURCE}.get(str(figures.get("accelerator")))
    if accelerators and figures.get("accelerators"):
        resources[accelerators] = str(figures["accelerators"])
    if figures.get("efa"):
        resources[names.EFA_RESOURCE] = str(figures["efa"])
    return resources


def _accelerated(labels: Json) -> bool:
    """Whether a node's type is one that the service replaces: CPU nodes stay until somebody acts."""
    return bool((data.instance_types().get(labels.get(names.INSTANCE_TYPE_LABEL, "")) or {}).get("accelerators"))


class Nodes:
    """Follows the instances of HyperPod clusters."""

    def __init__(self, api: Api, time_scale: float, *, network: Callable[[str], str] | None = None) -> None:
        """`network` says why an instance gets no pod network, or nothing; without it, a cluster's own nodes do."""
        self.api = api
        self.scale = time_scale
        self._network = network
        self._without_network: dict[str, str] = {}
        self._details: dict[str, Json] = {}
        self._lost: dict[str, float] = {}
        self._asked: set[str] = set()
        self._rebooting: set[str] = set()
        self._absent: set[str] = set()

    # ---- from AWS --------------------------------------------------------------------------------------------------

    async def poll(self, aws: Aws, eks_arn: str) -> list[Json]:
        """Read the service once and bring the Node objects in line; `eks_arn` names the EKS cluster this API is.

        Returns:
            The HyperPod clusters of this EKS cluster.
        """
        clusters: list[Json] = []
        instances: dict[str, tuple[Json, Json, Json]] = {}
        for summary in await aws.pages("sagemaker", "list_clusters", "ClusterSummaries"):
            cluster = await aws.call("sagemaker", "describe_cluster", ClusterName=summary["ClusterName"])
            hosting = ((cluster.get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn", "")
            if eks_arn and hosting != eks_arn:
                continue
            clusters.append(cluster)
            nodes = await aws.pages(
                "sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=summary["ClusterName"]
            )
            for node in nodes:
                if node["InstanceStatus"]["Status"] in _PRESENT:
                    instances[f"hyperpod-{node['InstanceId']}"] = (
                        cluster,
                        node,
                        await self._detail(aws, cluster, node),
                    )
        await self._networks(instances)
        for name, (cluster, node, detail) in instances.items():
            self._present(name, cluster, node, detail)
        await self._requests(aws, instances)
        for existing in self.api.all("v1", "Node"):
            meta = existing["metadata"]
            if (meta.get("labels") or {}).get(PREFIX + "compute-type") == "hyperpod" and meta["name"] not in instances:
                self._vanished(existing)
        return clusters

    async def _networks(self, instances: dict[str, tuple[Json, Json, Json]]) -> None:
        """Ask of each instance whether it has a pod network, until it has."""
        self._without_network = {name: why for name, why in self._without_network.items() if name in instances}
        for name, (_, node, _) in instances.items():
            if self._network is not None and self._without_network.get(name, "not asked"):
                try:
                    self._without_network[name] = await asyncio.to_thread(self._network, node["InstanceId"])
                except ControlError as error:
                    self._without_network[name] = str(error)

    async def _detail(self, aws: Aws, cluster: Json, node: Json) -> Json:
        identifier = node["InstanceId"]
        if identifier not in self._details:
            answer = await aws.call(
                "sagemaker", "describe_cluster_node", ClusterName=cluster["ClusterName"], NodeId=identifier
            )
            self._details[identifier] = answer.get("NodeDetails") or {}
        return self._details[identifier]

    async def _requests(self, aws: Aws, instances: dict[str, tuple[Json, Json, Json]]) -> None:
        calls = {
            names.REPLACE: "batch_replace_cluster_nodes",
            names.REBOOT: "batch_reboot_cluster_nodes",
        }
        for name, (cluster, node, _) in instances.items():
            existing = self.api.find("v1", "Node", "", name)
            label = ((existing or {"metadata": {}})["metadata"].get("labels") or {}).get(HEALTH, "")
            if label not in calls:
                self._asked.discard(name)
                self._rebooting.discard(name)
            elif name in self._rebooting and node["InstanceStatus"]["Status"] == "Running":
                # asked for at an earlier look, and it runs: however short the reboot was, it is over
                self._asked.discard(name)
                self._rebooting.discard(name)
                self._rebooted(name)
            elif name not in self._asked and node["InstanceStatus"]["Status"] == "Running":
                self._asked.add(name)
                try:
                    await aws.call(
                        "sagemaker", calls[label], ClusterName=cluster["ClusterName"], NodeIds=[node["InstanceId"]]
                    )
                    if label == names.REBOOT:
                        self._rebooting.add(name)
                except AwsError as error:
                    if existing:
                        event(self.api, existing, "Warning", "HyperPodRequestFailed", str(error), "hyperpod")

    def _rebooted(self, name: str) -> None:
        node = self.api.find("v1", "Node", "", name)
        if node is None:
            return

        def change(current: Json) -> None:
            current["metadata"].setdefault("labels", {})[HEALTH] = "Schedulable"

        event(self.api, self.api.modify(node, change) or node, "Normal", "NodeRebooted", "rebooted", "hyperpod")

    # ---- objects ---------------------------------------------------------------------------------------------------

    def _labels(self, cluster: Json, node: Json, detail: Json) -> dict[str, str]:
        placement = detail.get("Placement") or {}
        zone = str(placement.get("AvailabilityZone", ""))
        labels = {
            PREFIX + "cluster-name": cluster["ClusterName"],
            names.INSTANCE_GROUP_LABEL: node["InstanceGroupName"],
            PREFIX + "compute-type": "hyperpod",
            PREFIX + "node-recovery": str(cluster.get("NodeRecovery", "None")),
            names.INSTANCE_TYPE_LABEL: node["InstanceType"],
            "beta.kubernetes.io/instance-type": node["InstanceType"],
            names.HOSTNAME_LABEL: node.get("PrivateDnsHostname")
            or detail.get("PrivateDnsHostname")
            or f"hyperpod-{node['InstanceId']}",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        }
        if zone:
            labels |= {
                names.ZONE_LABEL: zone,
                "topology.kubernetes.io/region": zone[:-1],
                "failure-domain.beta.kubernetes.io/zone": zone,
            }
        if placement.get("AvailabilityZoneId"):
            labels["topology.k8s.aws/zone-id"] = str(placement["AvailabilityZoneId"])
        return labels

    @staticmethod
    def _group(cluster: Json, node: Json) -> Json:
        return next(
            (
                dict(g)
                for g in cluster.get("InstanceGroups") or []
                if g["InstanceGroupName"] == node["InstanceGroupName"]
            ),
            {},
        )

    def _present(self, name: str, cluster: Json, node: Json, detail: Json) -> None:
        status = node["InstanceStatus"]["Status"]
        group = self._group(cluster, node)
        config = group.get("KubernetesConfig") or {}
        own_taints = [
            {"key": t["Key"], "value": t.get("Value", ""), "effect": t["Effect"]}
            for t in config.get("CurrentTaints") or config.get("DesiredTaints") or config.get("Taints") or []
        ]
        own_labels = config.get("CurrentLabels") or config.get("DesiredLabels") or config.get("Labels") or {}
        existing = self.api.find("v1", "Node", "", name)
        if existing is None:
            if status in ("Failure", "ShuttingDown") or name in self._absent:
                return
            existing = self._create(name, {**self._labels(cluster, node, detail), **own_labels}, node, detail)
        state = f"{status}:{hashlib.sha256(repr((own_taints, own_labels)).encode()).hexdigest()[:8]}"
        if (existing["metadata"].get("annotations") or {}).get(STATE) != state:
            existing = self._follow(
                existing,
                status,
                state,
                own_labels,
                own_taints,
                checks=bool(group.get("OnStartDeepHealthChecks")),
                message=node["InstanceStatus"].get("Message") or "",
            )
        mode = (existing["metadata"].get("annotations") or {}).get(MODE, "")
        if mode == "unreachable":
            if time.monotonic() - self._lost.setdefault(name, time.monotonic()) >= NOT_READY_SECONDS * self.scale:
                self._ready(existing, ready=False, why="Kubelet stopped posting node status.")
        else:
            self._lost.pop(name, None)
            lacks = self._without_network.get(name, "")
            if status == "ShuttingDown":
                self._ready(existing, ready=False, why="instance is shutting down")
            elif lacks:
                why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
                why += f"Network plugin returns error: cni plugin not initialized: {lacks}"
                self._ready(existing, ready=False, why=why, silent=False)
            else:
                self._ready(existing, ready=True, why="")

    def _create(self, name: str, labels: dict[str, str], node: Json, detail: Json) -> Json:
        room = allocatable(node["InstanceType"])
        info = {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "rehearsal",
            "osImage": "Amazon Linux 2023",
            "containerRuntimeVersion": "none",
            "kubeletVersion": GIT_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        }
        address = str(detail.get("PrivatePrimaryIp") or "10.0.0.1")
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": f"aws:///{labels.get(names.ZONE_LABEL, '')}/sagemaker/cluster/{name}"},
            "status": {
                "capacity": room,
                "allocatable": room,
                "nodeInfo": info,
                "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            },
        }
        return self.api.create(self.api.kind("v1", "Node"), "", body, trusted=True)

    def _follow(
        self,
        existing: Json,
        status: str,
        state: str,
        labels: dict[str, str],
        taints: list[Json],
        *,
        checks: bool,
        message: str,
    ) -> Json:
        """Labels and taints for a new state of the instance; between changes they are left to whoever edits them."""
        healthy = status in ("Running", "SystemUpdating")

        def change(current: Json) -> None:
            meta, spec = current["metadata"], current.setdefault("spec", {})
            meta.setdefault("annotations", {})[STATE] = state
            meta.setdefault("labels", {}).update(labels)
            # a node that failed waits for its replacement where recovery is on and the type has accelerators
            recovers = meta["labels"].get(PREFIX + "node-recovery") == "Automatic" and _accelerated(meta["labels"])
            failed = names.REPLACE if recovers else "Unschedulable"
            meta["labels"][HEALTH] = "Schedulable" if healthy else (failed if status == "Failure" else "Unschedulable")
            if status == "DeepHealthCheckInProgress":
                meta["labels"][DEEP] = "InProgress"
            elif status == "Failure" and meta["labels"].get(DEEP) == "InProgress":
                meta["labels"][DEEP] = "Failed"
            elif status == "Running" and (checks or DEEP in meta["labels"]):
                meta["labels"][DEEP] = "Passed"
            if status == "Failure" and message:
                meta["annotations"][names.FAULT_DETAILS] = message
            elif healthy:
                meta["annotations"].pop(names.FAULT_DETAILS, None)
            kept = [t for t in spec.get("taints") or [] if t["key"].startswith("node.kubernetes.io/")]
            mark = [] if healthy else [{"key": HEALTH, "value": "Unschedulable", "effect": "NoSchedule"}]
            spec["taints"] = [*kept, *taints, *mark]

        changed = self.api.modify(existing, change) or existing
        if status == "Failure":
            event(self.api, changed, "Warning", "NodeUnhealthy", message or "HyperPod reports a failure", "hyperpod")
        return changed

    def _ready(self, node: Json, *, ready: bool, why: str, silent: bool = True) -> None:
        """Set a node's readiness; one that is not ready is `silent`, or its kubelet itself says why."""
        if node_ready(node) == ready and any(
            c["type"] == "Ready" for c in (node.get("status") or {}).get("conditions") or []
        ):
            return

        def fill(status: Json) -> None:
            word = "KubeletReady" if ready else "NodeStatusUnknown" if silent else "KubeletNotReady"
            condition(
                status,
                "Ready",
                "True" if ready else "Unknown" if silent else "False",
                word,
                "kubelet is posting ready status" if ready else why,
            )
            for node_condition in status["conditions"]:
                node_condition.setdefault("lastHeartbeatTime", now())

        def taint(current: Json) -> None:
            taints = (current.get("spec") or {}).get("taints") or []
            kept = [t for t in taints if t["key"] not in (_UNREACHABLE, _NOT_READY)]
            key = _UNREACHABLE if silent else _NOT_READY
            added = (
                [] if ready else [{"key": key, "effect": e, "timeAdded": now()} for e in ("NoSchedule", "NoExecute")]
            )
            current.setdefault("spec", {})["taints"] = [*kept, *added]

        set_status(self.api, node, fill)
        self.api.modify(node, taint)
        event(
            self.api,
            node,
            "Normal",
            "NodeReady" if ready else "NodeNotReady",
            why or "Node status is now: NodeReady",
            "node-controller",
        )

    def _vanished(self, node: Json) -> None:
        name = node["metadata"]["name"]
        self._ready(node, ready=False, why="the instance is gone")
        if (node["metadata"].get("annotations") or {}).get(MODE) == "unreachable":
            return  # the fault hook: its object is kept
        if time.monotonic() - self._lost.setdefault(name, time.monotonic()) >= DELETED_SECONDS * self.scale:
            self._delete(node)

    def _delete(self, node: Json) -> None:
        name = node["metadata"]["name"]
        self._lost.pop(name, None)
        try:
            self.api.delete(self.api.kind("v1", "Node"), "", name, Options())
        except ApiError:
            return

    # ---- hooks and nodes that are given ----------------------------------------------------------------------------

    def hook(self, name: str, mode: str) -> Json:
        """Put a node into a mode: `unreachable`, `gone`, `absent` (`gone`, and it does not join again) or `restore`."""
        if mode == "restore" and name in self._absent:
            self._absent.discard(name)
            return {"name": name, "mode": mode}
        node = self.api.find("v1", "Node", "", name)
        if node is None:
            raise not_found("nodes", "", name)
        if mode not in ("unreachable", "gone", "absent", "restore"):
            raise bad_request(f"mode must be unreachable, gone, absent or restore, got {mode!r}")
        if mode in ("gone", "absent"):
            self._absent |= {name} if mode == "absent" else set()
            self._delete(node)
            return {"name": name, "mode": mode}

        def change(current: Json) -> None:
            annotations = current["metadata"].setdefault("annotations", {})
            if mode == "unreachable":
                annotations[MODE] = mode
            else:
                annotations.pop(MODE, None)

        self.api.modify(node, change)
        self._lost.pop(name, None)
        return {"name": name, "mode": mode}

    def follow_given(self) -> None:
        """Nodes that no HyperPod cluster made are ready unless a hook says otherwise.

        Such nodes are created by hand or given at start.
        """
        for node in self.api.all("v1", "Node"):
            meta = node["metadata"]
            if (meta.get("annotations") or {}).get(STATE):
                continue
            name = meta["name"]
            if (meta.get("annotations") or {}).get(MODE) == "unreachable":
                if time.monotonic() - self._lost.setdefault(name, time.monotonic()) >= NOT_READY_SECONDS * self.scale:
                    self._ready(node, ready=False, why="Kubelet stopped posting node status.")
            else:
                self._ready(node, ready=True, why="")

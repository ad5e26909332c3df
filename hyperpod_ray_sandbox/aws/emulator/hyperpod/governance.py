"""The operations of HyperPod task governance: the cluster's policy and the teams' quotas.

What Kueue does with them is the embedded Kubernetes' affair (`hyperpod_ray_sandbox.kubernetes.controllers.governance`).
Source: the SageMaker API reference (CreateComputeQuota, CreateClusterSchedulerConfig and their neighbours).
"""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules.names import GOVERNANCE_ADDON
from hyperpod_ray_sandbox.aws.emulator.context import Context, tag_map, word
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters

Json = dict[str, Any]
QUOTA, POLICY = "ComputeQuota", "ClusterSchedulerConfig"
PATHS = {QUOTA: "compute-quota", POLICY: "cluster-scheduler-config"}


class GovernanceOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self._hooks = context.hooks
        self._clusters = clusters
        self._kept: Any = context.hooks.scoped_dict()
        """Identifier to record, of quotas and policies."""

    def CreateComputeQuota(self, data: Json) -> Json:
        """Create the quota of a team; a team has one in a cluster."""
        team = data["ComputeQuotaTarget"]["TeamName"]
        for other in self._of(QUOTA, data["ClusterArn"]):
            if other["ComputeQuotaTarget"]["TeamName"] == team:
                raise ServiceError("ConflictException", f"Team {team} already has {other['ComputeQuotaArn']}")
        types = self._types(data["ClusterArn"])
        for resource in data["ComputeQuotaConfig"].get("ComputeQuotaResources", []):
            if resource["InstanceType"] not in types:
                raise ServiceError(
                    "ValidationException", f"Instance type {resource['InstanceType']} is not in the cluster"
                )
        return self._create(QUOTA, {"ActivationState": "Enabled", **data})

    def UpdateComputeQuota(self, data: Json) -> Json:
        """Change a quota, if the version is the one that the caller saw."""
        there = self._find(QUOTA, data["ComputeQuotaId"])["ComputeQuotaTarget"]["TeamName"]
        if data.get("ComputeQuotaTarget", {}).get("TeamName", there) != there:
            raise ServiceError("ValidationException", "TeamName cannot change")
        return self._update(QUOTA, data)

    def DeleteComputeQuota(self, data: Json) -> Json:
        """Delete a quota."""
        return self._delete(QUOTA, data)

    def DescribeComputeQuota(self, data: Json) -> Json:
        """Answer a quota."""
        return self._view(self._find(QUOTA, data["ComputeQuotaId"]))

    def ListComputeQuotas(self, data: Json) -> Json:
        """Answer the quotas of a cluster, or all."""
        found = self._of(QUOTA, data.get("ClusterArn", ""))
        keys = ("ComputeQuotaArn", "ComputeQuotaId", "Name", "ComputeQuotaVersion", "Status", "ClusterArn",
                "ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "CreationTime")  # fmt: skip
        return {"ComputeQuotaSummaries": [{key: one[key] for key in keys if key in one} for one in found]}

    def CreateClusterSchedulerConfig(self, data: Json) -> Json:
        """Create the policy of a cluster, which has one."""
        if self._of(POLICY, data["ClusterArn"]):
            raise ServiceError("ConflictException", f"Cluster {data['ClusterArn']} already has a policy")
        return self._create(POLICY, data)

    def UpdateClusterSchedulerConfig(self, data: Json) -> Json:
        """Change a policy, if the version is the one that the caller saw."""
        return self._update(POLICY, data)

    def DeleteClusterSchedulerConfig(self, data: Json) -> Json:
        """Delete a policy."""
        return self._delete(POLICY, data)

    def DescribeClusterSchedulerConfig(self, data: Json) -> Json:
        """Answer a policy."""
        return self._view(self._find(POLICY, data["ClusterSchedulerConfigId"]))

    def ListClusterSchedulerConfigs(self, data: Json) -> Json:
        """Answer the policy of a cluster, or all."""
        keys = ("ClusterSchedulerConfigArn", "ClusterSchedulerConfigId", "ClusterSchedulerConfigVersion", "Name",
                "CreationTime", "Status", "ClusterArn")  # fmt: skip
        found = self._of(POLICY, data.get("ClusterArn", ""))
        return {"ClusterSchedulerConfigSummaries": [{key: one[key] for key in keys} for one in found]}

    def governance_inventory(self) -> list[Json]:
        """Return what exists now."""
        return [
            {"type": f"AWS::SageMaker::{one['_kind']}", "id": one[f"{one['_kind']}Arn"], "state": one["Status"]}
            for one in self._kept.values()
        ]

    # -- what both have in common ---------------------------------------------------------------------------------

    def _create(self, kind: str, data: Json) -> Json:
        self._require_kueue(data["ClusterArn"])
        identifier = word(12)
        arn = self._hooks.arn("sagemaker", f"{PATHS[kind]}/{identifier}")
        self._kept[identifier] = {
            **{key: value for key, value in data.items() if key != "Tags"},
            f"{kind}Arn": arn,
            f"{kind}Id": identifier,
            f"{kind}Version": 1,
            "Status": "Created",
            "CreationTime": time.time(),
            "_kind": kind,
        }
        self._clusters.tags[arn] = tag_map(data.get("Tags"))
        return {f"{kind}Arn": arn, f"{kind}Id": identifier}

    def _update(self, kind: str, data: Json) -> Json:
        record = self._find(kind, data[f"{kind}Id"])
        if data["TargetVersion"] != record[f"{kind}Version"]:
            raise ServiceError(
                "ConflictException", f"Version {data['TargetVersion']} is not {record[f'{kind}Version']}, the newest"
            )
        members = ("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "SchedulerConfig", "Description")
        record.update({key: data[key] for key in members if key in data})
        record.update({f"{kind}Version": record[f"{kind}Version"] + 1, "Status": "Updated"})
        return {f"{kind}Arn": record[f"{kind}Arn"], f"{kind}Version": record[f"{kind}Version"]}

    def _delete(self, kind: str, data: Json) -> Json:
        self._kept.pop(self._find(kind, data[f"{kind}Id"])[f"{kind}Id"], None)
        return {}

    def _find(self, kind: str, identifier: str) -> Json:
        found: Json | None = self._kept.get(identifier)
        if found is None or found["_kind"] != kind:
            raise ServiceError("ResourceNotFound", f"{kind} {identifier} not found")
        return found

    def _of(self, kind: str, cluster: str) -> list[Json]:
        kept = [one for one in self._kept.values() if one["_kind"] == kind]
        return [one for one in kept if not cluster or one["ClusterArn"] == cluster]

    def _view(self, record: Json) -> Json:
        return {key: value for key, value in record.items() if not key.startswith("_")}

    def _types(self, cluster: str) -> set[str]:
        return {group["InstanceType"] for group in self._clusters.find(cluster)["_groups"].values()}

    def _require_kueue(self, cluster: str) -> None:
        """The add-on comes first: without it there is nobody who makes queues of quotas."""
        eks = (self._clusters.find(cluster).get("Orchestrator") or {}).get("Eks") or {}
        name = str(eks.get("ClusterArn", "")).rpartition("/")[2]
        if f"{name}/{GOVERNANCE_ADDON}" not in self._hooks.eks._addons:
            raise ServiceError("ValidationException", f"The add-on {GOVERNANCE_ADDON} is not installed on {name}")

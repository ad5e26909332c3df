"""The operations of HyperPod task governance: the cluster's policy and the teams' quotas.

What Kueue does with them is the embedded Kubernetes' affair (`hyperpod_ray_sandbox.kubernetes.controllers.governance`).
Source: the SageMaker API reference (CreateComputeQuota, CreateClusterSchedulerConfig and their neighbours).
"""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules import hyperpod as rules
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
        for quota in self._of(QUOTA, data["ClusterArn"]):
            if quota["ComputeQuotaTarget"]["TeamName"] == team:
                raise ServiceError("ConflictException", f"Team {team} already has {quota['ComputeQuotaArn']}")
        types = self._types(data["ClusterArn"])
        for resource in data["ComputeQuotaConfig"].get("ComputeQuotaResources", []):
            if resource["InstanceType"] not in types:
                raise ServiceError(
                    "ValidationException", f"Instance type {resource['InstanceType']} is not in the cluster"
                )
        return self._create(QUOTA, {"ActivationState": "Enabled", **data})

    def UpdateComputeQuota(self, data: Json) -> Json:
        """Change a quota, if the version is the one that the caller saw."""
        current_team = self._find(QUOTA, data["ComputeQuotaId"])["ComputeQuotaTarget"]["TeamName"]
        if data.get("ComputeQuotaTarget", {}).get("TeamName", current_team) != current_team:
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
        quotas = self._of(QUOTA, data.get("ClusterArn", ""))
        keys = ("ComputeQuotaArn", "ComputeQuotaId", "Name", "ComputeQuotaVersion", "Status", "ClusterArn",
                "ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "CreationTime")  # fmt: skip
        return {"ComputeQuotaSummaries": [{key: quota[key] for key in keys if key in quota} for quota in quotas]}

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
        policies = self._of(POLICY, data.get("ClusterArn", ""))
        return {"ClusterSchedulerConfigSummaries": [{key: policy[key] for key in keys} for policy in policies]}

    def governance_inventory(self) -> list[Json]:
        """Return what exists now."""
        return [
            {
                "type": f"AWS::SageMaker::{record['_kind']}",
                "id": record[f"{record['_kind']}Arn"],
                "state": record["Status"],
            }
            for record in self._kept.values()
        ]

    # -- what both have in common ---------------------------------------------------------------------------------

    def _create(self, resource: str, data: Json) -> Json:
        self._require_kueue(data["ClusterArn"])
        identifier = word(12)
        arn = self._hooks.arn("sagemaker", f"{PATHS[resource]}/{identifier}")
        self._kept[identifier] = {
            **{key: value for key, value in data.items() if key != "Tags"},
            f"{resource}Arn": arn,
            f"{resource}Id": identifier,
            f"{resource}Version": 1,
            "Status": "Created",
            "CreationTime": time.time(),
            "_kind": resource,
        }
        self._clusters.tags[arn] = tag_map(data.get("Tags"))
        return {f"{resource}Arn": arn, f"{resource}Id": identifier}

    def _update(self, resource: str, data: Json) -> Json:
        record = self._find(resource, data[f"{resource}Id"])
        if data["TargetVersion"] != record[f"{resource}Version"]:
            raise ServiceError(
                "ConflictException",
                f"Version {data['TargetVersion']} is not {record[f'{resource}Version']}, the newest",
            )
        members = ("ComputeQuotaConfig", "ComputeQuotaTarget", "ActivationState", "SchedulerConfig", "Description")
        record.update({key: data[key] for key in members if key in data})
        record.update({f"{resource}Version": record[f"{resource}Version"] + 1, "Status": "Updated"})
        return {f"{resource}Arn": record[f"{resource}Arn"], f"{resource}Version": record[f"{resource}Version"]}

    def _delete(self, resource: str, data: Json) -> Json:
        self._kept.pop(self._find(resource, data[f"{resource}Id"])[f"{resource}Id"], None)
        return {}

    def _find(self, resource: str, identifier: str) -> Json:
        record: Json | None = self._kept.get(identifier)
        if record is None or record["_kind"] != resource:
            raise ServiceError("ResourceNotFound", f"{resource} {identifier} not found")
        return record

    def _of(self, resource: str, cluster: str) -> list[Json]:
        kept = [record for record in self._kept.values() if record["_kind"] == resource]
        return [record for record in kept if not cluster or record["ClusterArn"] == cluster]

    def _view(self, record: Json) -> Json:
        return {key: value for key, value in record.items() if not key.startswith("_")}

    def _types(self, cluster: str) -> set[str]:
        return {
            name for group in self._clusters.find(cluster)["_groups"].values() for name in rules.instance_types(group)
        }

    def _require_kueue(self, cluster: str) -> None:
        """The add-on comes first: without it there is nobody who makes queues of quotas."""
        eks = (self._clusters.find(cluster).get("Orchestrator") or {}).get("Eks") or {}
        name = str(eks.get("ClusterArn", "")).rpartition("/")[2]
        if f"{name}/{GOVERNANCE_ADDON}" not in self._hooks.eks._addons:
            raise ServiceError("ValidationException", f"The add-on {GOVERNANCE_ADDON} is not installed on {name}")

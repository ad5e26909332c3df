"""The requests that an environment becomes, as far as a service's rules read them (`hyperpod_ray_rules`).

The templates hold the same members with references in place of ids; a test compares the two.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan, catalogue
from hyperpod_ray.core.model import ElasticStorage, HyperPod, NodeGroup, UpdateSchedule
from hyperpod_ray_rules import fsx, hyperpod
from hyperpod_ray_rules.refusal import Refusal

Json = dict[str, Any]


def create_cluster(plan: CommonPlan) -> Json:
    """CreateCluster of SageMaker."""
    settings = plan.settings.hyperpod
    request: Json = {
        "ClusterName": settings.cluster_name,
        "NodeRecovery": settings.node_recovery,
        "Orchestrator": plan.orchestrator_request,
        "VpcConfig": {},
        "InstanceGroups": [_group(plan, group) for group in plan.groups],
    }
    if settings.node_provisioning_mode:
        request["NodeProvisioningMode"] = settings.node_provisioning_mode
    if isinstance(settings, HyperPod) and settings.managed_autoscaling:
        request["AutoScaling"] = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    return request


def create_file_system(plan: CommonPlan) -> Json | None:
    """CreateFileSystem of FSx, by the stack or by a claim; None where the file system exists."""
    file_system, ssd, elastic = plan.new_file_system, plan.ssd_file_system, plan.elastic_file_system
    if file_system is None:
        return None
    lustre: Json = {
        "DeploymentType": "PERSISTENT_2",
        "DataCompressionType": file_system.compression,
        "AutomaticBackupRetentionDays": file_system.backup_retention_days,
    }
    request: Json = {"FileSystemType": "LUSTRE", "SubnetIds": ["subnet-00000000"], "LustreConfiguration": lustre}
    if ssd is not None:
        request |= {"StorageCapacity": ssd.capacity_gib, "FileSystemTypeVersion": ssd.lustre_version}
        lustre["PerUnitStorageThroughput"] = ssd.throughput_mbs_per_tib
        if plan.stack_file_system is not None:
            lustre["MetadataConfiguration"] = {"Mode": "AUTOMATIC"}
    if elastic is not None:
        request |= {"StorageType": fsx.INTELLIGENT_TIERING, "FileSystemTypeVersion": "2.15"}
        lustre["ThroughputCapacity"] = elastic.throughput_mbs
        lustre["DataReadCacheConfiguration"] = read_cache(elastic)
        lustre["MetadataConfiguration"] = {"Mode": "USER_PROVISIONED", "Iops": elastic.metadata_iops}
    if plan.efa_storage:
        lustre["EfaEnabled"] = True
    return request


def read_cache(elastic: ElasticStorage) -> Json:
    """`DataReadCacheConfiguration` of FSx."""
    if elastic.read_cache_gib is None:
        return {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}
    if elastic.read_cache_gib == 0:
        return {"SizingMode": "NO_CACHE"}
    return {"SizingMode": "USER_PROVISIONED", "SizeGiB": elastic.read_cache_gib}


def read_cache_gib(plan: CommonPlan) -> int:
    """GiB of the read cache of the elastic file system that the stack creates; 0 without a cache, and without it."""
    request = create_file_system(plan) or {}
    return fsx.read_cache_gib(request.get("LustreConfiguration") or {})


def create_homes(plan: CommonPlan) -> Json:
    """CreateFileSystem of FSx for OpenZFS, by the stack; empty where no home folders are created."""
    homes = plan.new_homes
    if homes is None:
        return {}
    return {
        "FileSystemType": "OPENZFS",
        "StorageCapacity": homes.capacity_gib,
        "SubnetIds": ["subnet-00000000"],
        "OpenZFSConfiguration": {
            "DeploymentType": homes.deployment_type,
            "ThroughputCapacity": homes.throughput_mbs,
            "AutomaticBackupRetentionDays": homes.backup_retention_days,
        },
    }


def refused(plan: CommonPlan, *rules: str) -> Iterator[Refusal]:
    """What HyperPod refuses of an environment's cluster by some of its rules; `index` is that of the group."""
    settings = plan.settings
    specs = _known_types() | {name: row.model_dump() for name, row in settings.instance_types.items()}
    where = hyperpod.Where(region=settings.region, account=settings.account, types=specs)
    request = create_cluster(plan)
    for rule in rules:
        yield from hyperpod.RULES[rule](request, where)


@functools.cache
def _known_types() -> dict[str, Json]:
    """Figures of the known instance types; hundreds of rows, which many rules ask for."""
    return {name: row.model_dump() for name, row in catalogue().items()}


def _group(plan: CommonPlan, group: NodeGroup) -> Json:
    has_spec = plan.known(group.type)
    request: Json = {
        "InstanceGroupName": group.name,
        "InstanceCount": group.count,
        "ThreadsPerCore": group.threads_per_core,
    }
    several = len(group.types) > 1
    optional: Json = {
        "InstanceType": None if several else group.type,
        "InstanceRequirements": {"InstanceTypes": group.types} if several else None,
        "MinInstanceCount": group.min_count,
        "CapacityRequirements": {"Spot": {}} if group.capacity == "spot" else None,
        "TrainingPlanArn": group.training_plan_arn,
        "OnStartDeepHealthChecks": (plan.deep_health_checks(group) if has_spec else group.deep_health_checks) or None,
        "ImageId": group.image_id,
        "ImageReleaseVersion": group.image_release_version,
        "NetworkInterface": {"InterfaceType": group.network_interface} if group.network_interface else None,
        "ScheduledUpdateConfig": _schedule(group.update_schedule) if group.update_schedule else None,
        "AutoPatchConfig": {"PatchingStrategy": group.auto_patch} if group.auto_patch else None,
    }
    if group.volume_kms_key_arn:
        optional["InstanceStorageConfigs"] = [{"EbsVolumeConfig": {"VolumeKmsKeyId": group.volume_kms_key_arn}}]
    present = {member: value for member, value in optional.items() if value is not None}
    return request | plan.scheduler_request(group) | present


def _schedule(schedule: UpdateSchedule) -> Json:
    batch = {"Type": schedule.rolling.batch_unit, "Value": schedule.rolling.maximum_batch}
    return {
        "ScheduleExpression": schedule.cron,
        "DeploymentConfig": {"RollingUpdatePolicy": {"MaximumBatchSize": batch}},
    }

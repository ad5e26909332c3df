"""Limits that the model of a file encodes, beside those of the service's own API: none is wider than the service's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from botocore.model import Shape
from pydantic import BaseModel

from hyperpod_ray.core.model import (
    Environment,
    InstanceGroup,
    ManagedMetrics,
    Partition,
    PriorityClass,
    RollingUpdate,
    StaticStorage,
    TaskGovernance,
    Team,
    TeamQuota,
    TieredStorage,
)
from hyperpod_ray.core.model.hyperpod import HyperPod
from hyperpod_ray.core.model.storage import DataRepository
from tests.core.service_shapes_helpers import limits_of_setting, model

CLUSTER, GROUP = "sagemaker.CreateCluster", "InstanceGroups/*"
QUOTA, SCHEDULER = "sagemaker.CreateComputeQuota", "sagemaker.CreateClusterSchedulerConfig"
UPDATE = f"{GROUP}/ScheduledUpdateConfig/DeploymentConfig"
RESOURCE = "ComputeQuotaConfig/ComputeQuotaResources"

FIELDS: list[tuple[type[BaseModel], str, str, str]] = [
    (HyperPod, "cluster_name", CLUSTER, "ClusterName"),
    (HyperPod, "instance_groups", CLUSTER, "InstanceGroups"),
    (InstanceGroup, "name", CLUSTER, f"{GROUP}/InstanceGroupName"),
    (InstanceGroup, "count", CLUSTER, f"{GROUP}/InstanceCount"),
    (InstanceGroup, "min_count", CLUSTER, f"{GROUP}/MinInstanceCount"),
    (InstanceGroup, "labels", CLUSTER, f"{GROUP}/KubernetesConfig/Labels"),
    (InstanceGroup, "taints", CLUSTER, f"{GROUP}/KubernetesConfig/Taints"),
    (InstanceGroup, "deep_health_checks", CLUSTER, f"{GROUP}/OnStartDeepHealthChecks"),
    (InstanceGroup, "data_volume_gib", CLUSTER, f"{GROUP}/InstanceStorageConfigs/*/EbsVolumeConfig/VolumeSizeInGB"),
    (RollingUpdate, "wait_seconds", CLUSTER, f"{UPDATE}/WaitIntervalInSeconds"),
    (RollingUpdate, "rollback_alarm_names", CLUSTER, f"{UPDATE}/AutoRollbackConfiguration"),
    (TieredStorage, "memory_percent", CLUSTER, "TieredStorageConfig/InstanceMemoryAllocationPercentage"),
    (Team, "quota", QUOTA, RESOURCE),
    (Team, "fair_share_weight", QUOTA, "ComputeQuotaTarget/FairShareWeight"),
    (Team, "borrow_limit_percent", QUOTA, "ComputeQuotaConfig/ResourceSharingConfig/BorrowLimit"),
    (Team, "borrow_limits", QUOTA, "ComputeQuotaConfig/ResourceSharingConfig/AbsoluteBorrowLimits"),
    (Partition, "profile", QUOTA, f"{RESOURCE}/*/AcceleratorPartition/Type"),
    (Partition, "count", QUOTA, f"{RESOURCE}/*/AcceleratorPartition/Count"),
    (TeamQuota, "instances", QUOTA, f"{RESOURCE}/*/Count"),
    (TeamQuota, "accelerators", QUOTA, f"{RESOURCE}/*/Accelerators"),
    (TeamQuota, "vcpus", QUOTA, f"{RESOURCE}/*/VCpu"),
    (TeamQuota, "memory_gib", QUOTA, f"{RESOURCE}/*/MemoryInGiB"),
    (TaskGovernance, "priority_classes", SCHEDULER, "SchedulerConfig/PriorityClasses"),
    (PriorityClass, "weight", SCHEDULER, "SchedulerConfig/PriorityClasses/*/Weight"),
    (
        StaticStorage,
        "backup_retention_days",
        "fsx.CreateFileSystem",
        "LustreConfiguration/AutomaticBackupRetentionDays",
    ),
    (StaticStorage, "capacity_gib", "fsx.CreateFileSystem", "StorageCapacity"),
    (DataRepository, "auto_import", "fsx.CreateDataRepositoryAssociation", "S3/AutoImportPolicy/Events"),
    (DataRepository, "auto_export", "fsx.CreateDataRepositoryAssociation", "S3/AutoExportPolicy/Events"),
    (DataRepository, "path", "fsx.CreateDataRepositoryAssociation", "FileSystemPath"),
    (ManagedMetrics, "retention_days", "amp.UpdateWorkspaceConfiguration", "retentionPeriodInDays"),
    (Environment, "tags", "sagemaker.CreateCluster", "Tags"),
]


def limits_of_service(call: str, path: str) -> dict[str, Any]:
    """`min`, `max` and `pattern` of a member of a call's request."""
    service, _, operation = call.partition(".")
    shape: Any = model(service).operation_model(operation).input_shape
    for part in path.split("/"):
        shape = shape.member if part == "*" else shape.members[part]
    assert isinstance(shape, Shape)
    return dict(shape.metadata)


@pytest.mark.parametrize(
    ("section", "name", "call", "path"), FIELDS, ids=lambda value: getattr(value, "__name__", value)
)
def test_no_limit_is_wider_than_the_services(section: type[BaseModel], name: str, call: str, path: str) -> None:
    service = limits_of_service(call, path)
    assert service, f"{call} {path} has no limits any more"
    least, most = limits_of_setting(section, name)
    if "max" in service and most != float("inf"):
        assert most <= service["max"], f"{name}: at most {most:g}, and the service takes {service['max']}"
    if "min" in service and least != float("-inf") and path not in {"InstanceGroups/*/OnStartDeepHealthChecks"}:
        assert least >= service["min"], f"{name}: from {least:g}, and the service takes from {service['min']}"


def test_numbers_with_a_limit_of_the_service_have_one_here() -> None:
    """A list or a number without a limit of ours, where the service has one, is refused hours later."""
    open_ = {"capacity_gib"}  # steps of 2400 GiB, far below the service's largest number
    unlimited = [
        f"{section.__name__}.{name}"
        for section, name, call, path in FIELDS
        if "max" in limits_of_service(call, path)
        and "pattern" not in limits_of_service(call, path)
        and limits_of_setting(section, name)[1] == float("inf")
        and name not in open_
    ]
    assert unlimited == []


@pytest.mark.parametrize(
    ("module", "constant", "call", "path"),
    [
        ("hyperpod_ray.ops.repair.nodes", "BATCH", "sagemaker.BatchRebootClusterNodes", "NodeIds"),
        ("hyperpod_ray.ops.repair.nodes", "BATCH", "sagemaker.BatchReplaceClusterNodes", "NodeIds"),
        ("hyperpod_ray.ops.observe.hyperpod", "EVENTS", "sagemaker.ListClusterEvents", "MaxResults"),
        ("hyperpod_ray.ops.orchestrators.hyperpod_logs", "STREAMS_PER_CALL", "logs.FilterLogEvents", "logStreamNames"),
        ("hyperpod_ray.constructs.alarms", "MAXIMUM_PATTERN", "logs.PutMetricFilter", "filterPattern"),
    ],
)
def test_no_call_asks_for_more_than_the_service_takes(module: str, constant: str, call: str, path: str) -> None:
    assert getattr(importlib.import_module(module), constant) <= limits_of_service(call, path)["max"]

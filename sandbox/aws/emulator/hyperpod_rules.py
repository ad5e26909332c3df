"""What HyperPod rejects although botocore's model and CloudFormation's schema let it through.

Source: the SageMaker API reference (ClusterInstanceGroupSpecification, CreateCluster, UpdateCluster) and the user
guide's "HyperPod continuous provisioning" and "deep health checks" pages.
"""

from __future__ import annotations

import re
from typing import Any

from sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]

# families with GPUs or Trainium: the ones with deep health checks and automatic replacement
_ACCELERATED = re.compile(r"^ml\.(p\d|g\d|gr\d|trn\d|inf\d)")
IMMUTABLE = ("OverrideVpcConfig", "CapacityRequirements", "ExecutionRole", "NetworkInterface")


def instance_type(group: Json) -> str:
    """Return the type of a group's instances; of several allowed ones, the first."""
    kind = group.get("InstanceType") or group.get("InstanceRequirements", {}).get("InstanceTypes", [""])[0]
    return str(kind)


def is_accelerated(instance_type: str) -> bool:
    """Say whether a type has GPUs or Trainium chips."""
    return _ACCELERATED.match(instance_type) is not None


def check_cluster(data: Json) -> None:
    """Raise what CreateCluster and UpdateCluster answer to settings that contradict each other."""
    groups = data.get("InstanceGroups", [])
    names = [g["InstanceGroupName"] for g in groups]
    for name in names:
        if names.count(name) > 1:
            raise _invalid(f"Instance group names must be unique: {name} is given {names.count(name)} times")
    if not groups and not data.get("RestrictedInstanceGroups"):
        raise _invalid("At least one of InstanceGroups and RestrictedInstanceGroups is needed")
    if "Eks" in data.get("Orchestrator", {}) and "VpcConfig" not in data:
        raise _invalid("VpcConfig is needed for a cluster orchestrated by Amazon EKS")
    continuous = data.get("NodeProvisioningMode") == "Continuous"
    scaling = data.get("AutoScaling", {})
    if scaling.get("Mode") == "Enable":
        if not continuous:
            raise _invalid("AutoScaling needs NodeProvisioningMode Continuous")
        if data.get("NodeRecovery") != "Automatic":
            raise _invalid("AutoScaling needs NodeRecovery Automatic")
    for group in groups:
        _check_group(group, continuous=continuous)


def check_group_update(old: Json, new: Json) -> None:
    """Raise where an update would change what a group keeps for life."""
    for member in IMMUTABLE:
        if member in new and new[member] != old.get(member):
            raise _invalid(f"{member} of instance group {old['InstanceGroupName']} cannot be changed")
    if "InstanceType" in new and "InstanceType" in old and new["InstanceType"] != old["InstanceType"]:
        raise _invalid(f"InstanceType of instance group {old['InstanceGroupName']} cannot be changed")


def check_deep_health_checks(group: Json) -> None:
    """Raise where a group cannot run the deep health checks asked of it."""
    checks = group.get("OnStartDeepHealthChecks", [])
    name = group["InstanceGroupName"]
    if checks and not is_accelerated(instance_type(group)):
        raise _invalid(f"Deep health checks of instance group {name} are not supported on {instance_type(group)}")
    if "InstanceConnectivity" in checks and group["InstanceCount"] == 1:
        raise _invalid(f"InstanceConnectivity of instance group {name} needs at least 2 instances")


def _check_group(group: Json, *, continuous: bool) -> None:
    name = group["InstanceGroupName"]
    if ("InstanceType" in group) == ("InstanceRequirements" in group):
        raise _invalid(f"Instance group {name} needs exactly one of InstanceType and InstanceRequirements")
    if not continuous:
        for member in ("MinInstanceCount", "InstanceRequirements", "CapacityRequirements"):
            if member in group and group[member] != {"OnDemand": {}}:
                raise _invalid(f"{member} of instance group {name} needs NodeProvisioningMode Continuous")
    if group.get("MinInstanceCount", 0) > group["InstanceCount"]:
        raise _invalid(f"MinInstanceCount of instance group {name} is greater than its InstanceCount")
    if "Spot" in group.get("CapacityRequirements", {}) and "TrainingPlanArn" in group:
        raise _invalid(f"Instance group {name} cannot use both Spot capacity and a training plan")
    script = group.get("LifeCycleConfig", {}).get("SourceS3Uri", "s3://sagemaker-")
    if not re.match(r"^(https|s3)://", script):
        raise _invalid(f"LifeCycleConfig.SourceS3Uri of instance group {name} is not an S3 URI: {script}")
    check_deep_health_checks(group)


def _invalid(message: str) -> ServiceError:
    return ServiceError("ValidationException", message)

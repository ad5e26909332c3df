"""What the services refuse, as environment files and as requests: both sides are sent the same list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hyperpod_ray.core import requests
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan
from tests.core.environment_files import SLURM as SLURM_FILE
from tests.core.environment_files import changed

Json = dict[str, Any]
ACCOUNT = "000000000001"
GROUPS = "hyperpod/instance_groups"
HEAD, WORKERS = f"{GROUPS}/0", f"{GROUPS}/1"
PLAN = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/p"
CPU = {"name": "more", "type": "ml.m7g.4xlarge", "count": 2, "threads_per_core": 2}
BURST = {"name": "burst", "type": "ml.p5.48xlarge", "count": 0}
PLANNED = {**BURST, "training_plan_arn": PLAN}
KARPENTER = {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}
KEY = "arn:aws:kms:us-west-2:000000000001:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@dataclass(frozen=True)
class Case:
    """One rule with a file that it refuses, and the nearest one that it accepts."""

    rule: str
    refused: Json
    accepted: Json = field(default_factory=dict)


def _schedule(cron: str = "cron(0 6 ? * SUN *)", **rolling: Any) -> Json:
    return {"cron": cron, **({"rolling": rolling} if rolling else {})}


HYPERPOD = [
    Case("unique_names", {f"{GROUPS}/2": {**CPU, "name": "head", "threads_per_core": 1}}),
    Case("autoscaling_is_continuous", {**KARPENTER, "hyperpod/node_provisioning_mode": None}, KARPENTER),
    Case("autoscaling_recovers", {**KARPENTER, "hyperpod/node_recovery": "None"}, KARPENTER),
    Case("continuous_members", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/min_count": 1},
         {f"{WORKERS}/min_count": 1}),
    Case("continuous_members", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/capacity": "spot"},
         {f"{WORKERS}/capacity": "spot"}),
    Case("minimum_at_most_count", {f"{WORKERS}/min_count": 5}, {f"{WORKERS}/min_count": 4}),
    Case("spot_or_plan", {f"{WORKERS}/capacity": "spot", f"{WORKERS}/training_plan_arn": PLAN},
         {f"{WORKERS}/training_plan_arn": PLAN}),
    Case("plan_is_ours", {f"{WORKERS}/training_plan_arn": PLAN.replace("us-west-2", "us-east-1")},
         {f"{WORKERS}/training_plan_arn": PLAN}),
    Case("plan_is_ours", {f"{WORKERS}/training_plan_arn": PLAN.replace(ACCOUNT, "999999999999")}),
    Case("plan_is_ours", {f"{WORKERS}/training_plan_arn": PLAN.replace("aws", "aws-cn", 1)}),
    Case("plan_sells_the_type",
         {f"{WORKERS}/training_plan_arn": PLAN, f"{WORKERS}/type": "ml.g5.48xlarge"},
         {f"{WORKERS}/training_plan_arn": PLAN, f"{WORKERS}/type": "ml.p4d.24xlarge"}),
    Case("plan_has_one_type",
         {f"{WORKERS}/training_plan_arn": PLAN, f"{GROUPS}/2": {**PLANNED, "type": "ml.p4d.24xlarge"}},
         {f"{WORKERS}/training_plan_arn": PLAN, f"{GROUPS}/2": PLANNED}),
    Case("key_is_of_the_region", {f"{WORKERS}/volume_kms_key_arn": KEY.replace("aws", "aws-us-gov", 1)}),
    Case("key_is_of_the_region", {f"{WORKERS}/volume_kms_key_arn": KEY.replace("us-west-2", "us-east-1")},
         {f"{WORKERS}/volume_kms_key_arn": KEY.replace(ACCOUNT, "999999999999")}),
    Case("deep_checks_have_a_device", {f"{HEAD}/deep_health_checks": ["InstanceStress"]},
         {f"{WORKERS}/deep_health_checks": ["InstanceStress"]}),
    Case("connectivity_needs_two",
         {f"{WORKERS}/count": 1, "ray/workers/0/replicas": 1,
          f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]},
         {f"{WORKERS}/count": 2, "ray/workers/0/replicas": 2,
          f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]}),
    Case("deep_checks_once", {f"{WORKERS}/deep_health_checks": ["InstanceStress", "InstanceStress"]}),
    Case("threads_exist", {f"{GROUPS}/2": CPU}, {f"{GROUPS}/2": {**CPU, "threads_per_core": 1}}),
    Case("interfaces_are_efa", {f"{HEAD}/network_interface": "efa"}, {f"{WORKERS}/network_interface": "efa"}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": _schedule("cron(0 24 ? * SUN *)")},
         {f"{WORKERS}/update_schedule": _schedule("cron(0 23 ? * SUN *)")}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": _schedule("cron(0 6 ? * SUN)")}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": _schedule("cron(0 6 1 * SUN *)")}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": _schedule(maximum_batch=5)},
         {f"{WORKERS}/update_schedule": _schedule(maximum_batch=4)}),
    Case("batches_fit",
         {f"{WORKERS}/update_schedule": _schedule(maximum_batch=101, batch_unit="CAPACITY_PERCENTAGE")},
         {f"{WORKERS}/update_schedule": _schedule(maximum_batch=100, batch_unit="CAPACITY_PERCENTAGE")}),
]  # fmt: skip
"""What an environment file can ask of HyperPod and does not get."""


def _without(request: Json, member: str) -> Json:
    return {key: value for key, value in request.items() if key != member}


def _first_group(request: Json, **more: Any) -> Json:
    first, *rest = request["InstanceGroups"]
    return {**request, "InstanceGroups": [{**first, **more}, *rest]}


OF_NO_FILE: dict[str, Callable[[Json], Json]] = {
    "some_group": lambda request: _without(request, "InstanceGroups"),
    "vpc_for_eks": lambda request: _without(request, "VpcConfig"),
    "one_kind_of_type": lambda request: _first_group(
        request, InstanceRequirements={"InstanceTypes": ["ml.m5.2xlarge"]}
    ),
}
"""Rules that no environment file can trip, because the settings have no such values: what trips them."""

FSX = [
    Case("capacity", {"storage/capacity_gib": 3600}, {"storage/capacity_gib": 4800}),
    Case("capacity", {"storage/efa": True}, {"storage/efa": True, "storage/capacity_gib": 19200}),
    Case("capacity", {"storage/capacity_gib": 1201}, {"storage/capacity_gib": 1200}),
    Case("metadata", {"storage/lustre_version": "2.12"}, {"storage/lustre_version": "2.12", "storage/mode": "dynamic"}),
]
FSX_OF_NO_FILE: dict[str, Json] = {
    "throughput": {"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 200}},
    "backups": {"StorageCapacity": 3600, "LustreConfiguration": {"AutomaticBackupRetentionDays": 7}},
    "efa": {"LustreConfiguration": {"DeploymentType": "SCRATCH_2", "EfaEnabled": True}},
    "one_subnet": {"SubnetIds": ["subnet-01234567", "subnet-12345678"]},
}
"""Likewise: merged into a good request."""


def slurm_request() -> Json:
    """CreateCluster of `environments/examples/slurm.yaml` in the sandbox's account, as the template sends it."""
    settings = SlurmEnvironment.model_validate({**SLURM_FILE, "account": ACCOUNT})
    request = requests.create_cluster(SlurmPlan(name="test", settings=settings))
    lustre = {
        "DnsName": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
        "MountName": "abcdefgh",
        "MountPath": "/fsx",
    }
    for group in request["InstanceGroups"]:
        group["ExecutionRole"] = f"arn:aws:iam::{ACCOUNT}:role/execution"
        group["InstanceStorageConfigs"] = [{"FsxLustreConfig": lustre}]
    request["VpcConfig"] = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    return request


def _slurm_group(request: Json, index: int, **more: Any) -> Json:
    groups = [dict(group) for group in request["InstanceGroups"]]
    groups[index] = {member: value for member, value in {**groups[index], **more}.items() if value is not None}
    return {**request, "InstanceGroups": groups}


def _more_lustre(request: Json) -> Json:
    return _slurm_group(request, 2, InstanceStorageConfigs=request["InstanceGroups"][2]["InstanceStorageConfigs"] * 2)


_SCRIPTS = {"SourceS3Uri": "s3://sagemaker-scripts/a/", "OnInitComplete": "more.sh"}
_DATABASE = {"Endpoint": "db.example.com", "SecretArn": f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:db-AbCdEf"}
_BY_SLURM = {"Slurm": {"AccountingDatabase": _DATABASE}}
SLURM: list[tuple[str, Callable[[Json], Json]]] = [
    ("slurm_members", lambda r: _slurm_group(r, 2, KubernetesConfig={"Labels": {"a": "b"}})),
    ("slurm_members", lambda r: {**r, "TieredStorageConfig": {"Mode": "Enable"}}),
    ("slurm_roles", lambda r: _slurm_group(r, 1, SlurmConfig=None)),
    ("slurm_roles", lambda r: _slurm_group(r, 0, SlurmConfig={"NodeType": "Login"})),
    ("slurm_roles", lambda r: _slurm_group(r, 1, SlurmConfig={"NodeType": "Controller"})),
    ("slurm_roles", lambda r: _slurm_group(r, 0, InstanceCount=2)),
    ("release_with_eks", lambda r: _slurm_group(r, 2, ImageReleaseVersion="1.2.3")),
    ("slurm_partitions", lambda r: _slurm_group(r, 2, SlurmConfig={"NodeType": "Compute"})),
    ("slurm_partitions", lambda r: _slurm_group(r, 1, SlurmConfig={"NodeType": "Login", "PartitionNames": ["train"]})),
    ("accounting_is_continuous",
     lambda r: _slurm_group(
         _without({**r, "Orchestrator": _BY_SLURM}, "NodeProvisioningMode"), 2, MinInstanceCount=None
     )),
    ("file_systems_have_a_vpc", lambda r: _without(r, "VpcConfig")),
    ("file_systems_have_a_vpc", _more_lustre),
    ("one_way_to_start", lambda r: _slurm_group(r, 2, LifeCycleConfig={**_SCRIPTS, "OnCreate": "all.sh"})),
]  # fmt: skip
"""What a cluster on Slurm does not get: the rule, and what trips it in a good request."""


def plan_of(edits: Json) -> Plan:
    """The plan of a changed environment of the sandbox's account, whatever the checks say of it."""
    return Plan(name="test", settings=Environment.model_validate(changed({"account": ACCOUNT, **edits})))


def cluster_request(edits: Json) -> Json:
    """Its CreateCluster request, with what only the account knows made up."""
    request = requests.create_cluster(plan_of(edits))
    for group in request["InstanceGroups"]:
        group["ExecutionRole"] = f"arn:aws:iam::{ACCOUNT}:role/execution"
        group["LifeCycleConfig"] = {"SourceS3Uri": "s3://sagemaker-scripts/a/", "OnCreate": "on_create.sh"}
        if "ScheduledUpdateConfig" in group:
            policy = group["ScheduledUpdateConfig"]["DeploymentConfig"]["RollingUpdatePolicy"]
            policy["RollbackMaximumBatchSize"] = policy["MaximumBatchSize"]
    request["Orchestrator"] = {"Eks": {"ClusterArn": f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/none"}}
    request["VpcConfig"] = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    return request

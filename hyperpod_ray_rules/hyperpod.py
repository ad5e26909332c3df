"""What HyperPod refuses although botocore's model and CloudFormation's schema let it through.

Each rule reads a CreateCluster request, with the members that it needs; UpdateCluster is judged as the request that
would create the cluster after the update. Source: the SageMaker API reference
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html, CreateCluster,
UpdateCluster) and the user guide's pages on continuous provisioning, deep health checks and autoscaling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hyperpod_ray_rules import data, training_plan
from hyperpod_ray_rules.arns import arn_of
from hyperpod_ray_rules.refusal import Json, Refusal, Rule, named

# families with GPUs or Trainium, for a type whose specification is not known
_ACCELERATED = re.compile(r"^ml\.(p\d|g\d|gr\d|trn\d|inf\d)")
IMMUTABLE = ("OverrideVpcConfig", "CapacityRequirements", "ExecutionRole", "InstanceType")
CRON = {
    "minutes": (r"[0-5]?[0-9]", "0-59"),
    "hours": (r"[01]?[0-9]|2[0-3]", "0-23"),
    "day of month": (r"0?[1-9]|[12][0-9]|3[01]|\?", "1-31 or ?"),
    "month": (r"0?[1-9]|1[0-2]|\*|\*/([1-9]|1[0-2])", "1-12, * or */N"),
    "day of week": (
        r"MON|TUE|WED|THU|FRI|SAT|SUN|[1-7]|\?|L|[1-7]#[1-5]|[1-7]L",
        "MON-SUN (one of them), 1-7, ?, L, 3#2 or 5L",
    ),
    "year": (r"20[2-9][0-9]|\*", "2020-2099 or *"),
}
"""Fields of a schedule, narrower than EventBridge's: pattern and allowed values."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """What a rule needs beside the request."""

    region: str = ""
    account: str = ""
    types: Json | None = None
    """Figures by instance type; default: the data of this package."""

    def type_spec(self, instance_type: str) -> Json:
        """Figures of a type, empty where it is not known."""
        types = data.instance_types() if self.types is None else self.types
        spec: Json = types.get(instance_type) or {}
        return spec

    def accelerated(self, instance_type: str) -> bool:
        """Whether a type has GPUs or Trainium chips: by its specification, else by its family."""
        spec = self.type_spec(instance_type)
        return bool(spec["accelerators"]) if spec else _ACCELERATED.match(instance_type) is not None


def instance_types(group: Json) -> list[str]:
    """Types that a group's instances may have, the first choice first."""
    several = (group.get("InstanceRequirements") or {}).get("InstanceTypes") or [""]
    return [str(name) for name in ([group["InstanceType"]] if group.get("InstanceType") else several)]


def instance_type(group: Json) -> str:
    """Type of a group's instances; of several allowed ones, the first."""
    return instance_types(group)[0]


def partition_of(region: str) -> str:
    """ARN partition of a region.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
    """
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def groups_of(request: Json) -> list[tuple[int, Json]]:
    """Instance groups with their positions."""
    return list(enumerate(request.get("InstanceGroups") or []))


def create_cluster(request: Json, where: Where | None = None) -> Iterator[Refusal]:
    """Every refusal of a request, in the order of the rules."""
    for check in RULES.values():
        yield from check(request, where or Where())


# --- the cluster -----------------------------------------------------------------------------------------------------


def unique_names(request: Json, _where: Where) -> Iterator[Refusal]:
    """Instance group names are unique in a cluster."""
    used_names: set[str] = set()
    for index, group in groups_of(request):
        name = group["InstanceGroupName"]
        if name in used_names:
            message = f"Instance group names must be unique: {name} is given more than once"
            yield Refusal(rule="unique_names", message=message, index=index, member="InstanceGroupName")
        used_names.add(name)


def some_group(request: Json, _where: Where) -> Iterator[Refusal]:
    """A cluster has a group."""
    if not request.get("InstanceGroups") and not request.get("RestrictedInstanceGroups"):
        message = "At least one of InstanceGroups and RestrictedInstanceGroups is needed"
        yield Refusal(rule="some_group", message=message, member="InstanceGroups")


def vpc_for_eks(request: Json, _where: Where) -> Iterator[Refusal]:
    """A cluster that EKS orchestrates names its subnets."""
    if "Eks" in request.get("Orchestrator", {}) and "VpcConfig" not in request:
        message = "VpcConfig is needed for a cluster orchestrated by Amazon EKS"
        yield Refusal(rule="vpc_for_eks", message=message, member="VpcConfig")


def autoscaling_is_continuous(request: Json, _where: Where) -> Iterator[Refusal]:
    """Managed Karpenter needs continuous provisioning."""
    if _autoscaled(request) and not _continuous(request):
        message = "AutoScaling needs NodeProvisioningMode Continuous"
        yield Refusal(rule="autoscaling_is_continuous", message=message, member="AutoScaling")


def autoscaling_recovers(request: Json, _where: Where) -> Iterator[Refusal]:
    """Managed Karpenter needs node recovery."""
    if _autoscaled(request) and request.get("NodeRecovery") != "Automatic":
        message = "AutoScaling needs NodeRecovery Automatic"
        yield Refusal(rule="autoscaling_recovers", message=message, member="NodeRecovery")


# --- its groups ------------------------------------------------------------------------------------------------------


def one_kind_of_type(request: Json, _where: Where) -> Iterator[Refusal]:
    """A group names one type, or several as requirements."""
    for index, group in groups_of(request):
        if ("InstanceType" in group) == ("InstanceRequirements" in group):
            message = f"{_of(group)} needs exactly one of InstanceType and InstanceRequirements"
            yield Refusal(rule="one_kind_of_type", message=message, index=index, member="InstanceType")


def continuous_members(request: Json, _where: Where) -> Iterator[Refusal]:
    """Spot capacity, a minimum of instances and requirements exist with continuous provisioning only."""
    if _continuous(request):
        return
    for index, group in groups_of(request):
        for member in ("MinInstanceCount", "InstanceRequirements", "CapacityRequirements"):
            if member in group and group[member] != {"OnDemand": {}}:
                message = f"{member} of {_of(group)} needs NodeProvisioningMode Continuous"
                yield Refusal(rule="continuous_members", message=message, index=index, member=member)


def minimum_at_most_count(request: Json, _where: Where) -> Iterator[Refusal]:
    """A cluster cannot wait for more instances than it asks for."""
    for index, group in groups_of(request):
        if group.get("MinInstanceCount", 0) > group["InstanceCount"]:
            message = f"MinInstanceCount of {_of(group)} is greater than its InstanceCount"
            yield Refusal(rule="minimum_at_most_count", message=message, index=index, member="MinInstanceCount")


def spot_or_plan(request: Json, _where: Where) -> Iterator[Refusal]:
    """A training plan is reserved capacity; a group draws from one or the other."""
    for index, group in groups_of(request):
        if "Spot" in group.get("CapacityRequirements", {}) and "TrainingPlanArn" in group:
            message = f"{_of(group)} cannot use both Spot capacity and a training plan"
            yield Refusal(rule="spot_or_plan", message=message, index=index, member="CapacityRequirements")


def plan_is_ours(request: Json, where: Where) -> Iterator[Refusal]:
    """A training plan belongs to one account and region."""
    for index, group in groups_of(request):
        arn = group.get("TrainingPlanArn")
        if not arn or not where.region:
            continue
        plan = arn_of(str(arn))
        for part, plan_value, cluster_value in (
            ("partition", plan.partition, partition_of(where.region)),
            ("region", plan.region, where.region),
            ("account", plan.account, where.account),
        ):
            if plan_value != cluster_value:
                message = f"Training plan {arn} of {_of(group)} is of {part} {plan_value}, not of {cluster_value}"
                yield Refusal(rule="plan_is_ours", message=message, index=index, member="TrainingPlanArn")


def key_is_of_the_region(request: Json, where: Where) -> Iterator[Refusal]:
    """An EBS volume is encrypted with a key of its own region; an ARN says which that is."""
    for index, group in groups_of(request):
        keys = {
            str(config.get("EbsVolumeConfig", {}).get("VolumeKmsKeyId", ""))
            for config in group.get("InstanceStorageConfigs", [])
        }
        for key in sorted(keys):
            if not key.startswith("arn:") or not where.region:
                continue
            if key.split(":")[1] != partition_of(where.region) or key.split(":")[3] != where.region:
                message = f"KMS key {key} of {_of(group)} is not in {where.region}"
                yield Refusal(rule="key_is_of_the_region", message=message, index=index, member="VolumeKmsKeyId")


def plan_sells_the_type(request: Json, _where: Where) -> Iterator[Refusal]:
    """Training plans exist for some instance types."""
    for index, group in groups_of(request):
        if group.get("TrainingPlanArn"):
            for refusal in training_plan.type_is_sold(instance_type(group)):
                yield Refusal(
                    rule="plan_sells_the_type",
                    message=f"{_of(group)}: {refusal.message}",
                    expected=refusal.expected,
                    index=index,
                    member="TrainingPlanArn",
                )


def plan_has_one_type(request: Json, _where: Where) -> Iterator[Refusal]:
    """A training plan reserves one instance type."""
    types: dict[str, str] = {}
    for index, group in groups_of(request):
        arn = group.get("TrainingPlanArn")
        if arn and types.setdefault(arn, instance_type(group)) != instance_type(group):
            message = f"Training plan {arn} of {_of(group)} is used for {types[arn]} and for {instance_type(group)}"
            yield Refusal(rule="plan_has_one_type", message=message, index=index, member="TrainingPlanArn")


def deep_checks_have_a_device(request: Json, where: Where) -> Iterator[Refusal]:
    """Deep health checks exist for types with GPUs or Trainium chips."""
    for index, group in groups_of(request):
        if group.get("OnStartDeepHealthChecks") and not where.accelerated(instance_type(group)):
            message = f"Deep health checks of {_of(group)} are not supported on {instance_type(group)}"
            yield Refusal(
                rule="deep_checks_have_a_device", message=message, index=index, member="OnStartDeepHealthChecks"
            )


def connectivity_needs_two(request: Json, where: Where) -> Iterator[Refusal]:
    """`InstanceConnectivity` tests the network between instances; a group of none waits until it has two."""
    for index, group in groups_of(request):
        checked = "InstanceConnectivity" in group.get("OnStartDeepHealthChecks", [])
        if checked and group["InstanceCount"] == 1 and where.accelerated(instance_type(group)):
            message = f"InstanceConnectivity of {_of(group)} needs at least 2 instances"
            yield Refusal(rule="connectivity_needs_two", message=message, index=index, member="OnStartDeepHealthChecks")


def deep_checks_once(request: Json, _where: Where) -> Iterator[Refusal]:
    """Each check is named once; CloudFormation's schema has unique items."""
    for index, group in groups_of(request):
        checks = group.get("OnStartDeepHealthChecks", [])
        if len(set(checks)) < len(checks):
            message = f"OnStartDeepHealthChecks of {_of(group)} has duplicates"
            yield Refusal(rule="deep_checks_once", message=message, index=index, member="OnStartDeepHealthChecks")


def threads_exist(request: Json, where: Where) -> Iterator[Refusal]:
    """Two threads per core are refused by types whose cores have one (Graviton, g7, m8a).

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cpu-options-supported-instances-values.html
    """
    for index, group in groups_of(request):
        spec = where.type_spec(instance_type(group))
        if spec and group.get("ThreadsPerCore", 1) > spec.get("threads", 2):
            message = f"ThreadsPerCore of {_of(group)} is 2, and the cores of {instance_type(group)} have one thread"
            yield Refusal(rule="threads_exist", message=message, index=index, member="ThreadsPerCore")


def schedule_is_cron(request: Json, _where: Where) -> Iterator[Refusal]:
    """`ScheduleExpression`: six fields, narrower than EventBridge's cron.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-sagemaker-cluster-scheduledupdateconfig.html
    """
    for index, group in groups_of(request):
        expression = group.get("ScheduledUpdateConfig", {}).get("ScheduleExpression")
        for reason, expected in () if expression is None else cron_faults(str(expression)):
            yield Refusal(
                rule="schedule_is_cron", message=reason, expected=expected, index=index, member="ScheduleExpression"
            )


def cron_faults(expression: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a schedule expression, and what is allowed."""
    values = expression.removeprefix("cron(").removesuffix(")").split(" ")
    if len(values) != len(CRON):
        yield f"{len(values)} fields", f"six, separated by single spaces: {', '.join(CRON)}"
        return
    for value, (name, (pattern, allowed)) in zip(values, CRON.items(), strict=True):
        if not re.fullmatch(pattern, value):
            yield f"invalid {name} field '{value[:20]}'", allowed
    if (values[2] == "?") == (values[4] == "?"):
        yield f"day of month '{values[2]}' with day of week '{values[4]}'", "? in exactly one of the two"


_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def never_fires(expression: str, this_year: int) -> str:
    """Why a valid schedule expression has no day to come; empty where it has one."""
    values = expression.removeprefix("cron(").removesuffix(")").split(" ")
    if len(values) != len(CRON) or any(cron_faults(expression)):
        return ""
    _, _, day, month, _, year = values
    if year != "*" and int(year) < this_year:
        return f"the year {year} is over"
    if not day.isdigit():
        return ""
    start, step = (int(month), 12) if month.isdigit() else (1, int(month.partition("/")[2] or 1))
    longest = max(_MONTH_DAYS[number - 1] for number in range(start, 13, step))
    if int(day) > longest:
        return f"no month of '{month}' has {day} days"
    if (day, month) in {("29", "2"), ("29", "02")} and year != "*" and (int(year) % 4 or not int(year) % 100):
        return f"February has 28 days in {year}"
    return ""


def release_with_eks(request: Json, _where: Where) -> Iterator[Refusal]:
    """`ImageReleaseVersion` is "supported only for EKS-orchestrated clusters" (schema of `AWS::SageMaker::Cluster`)."""
    for index, group in groups_of(request) if _slurm(request) else []:
        if "ImageReleaseVersion" in group:
            message = f"ImageReleaseVersion of {_of(group)} is not supported for a cluster orchestrated by Slurm"
            yield Refusal(rule="release_with_eks", message=message, index=index, member="ImageReleaseVersion")


def interfaces_are_efa(request: Json, where: Where) -> Iterator[Refusal]:
    """`NetworkInterface` chooses between two kinds of EFA, which a type without EFA has not.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterNetworkInterface.html
    """
    for index, group in groups_of(request):
        spec = where.type_spec(instance_type(group))
        if "NetworkInterface" in group and spec and not spec.get("efa"):
            message = f"NetworkInterface of {_of(group)} is for types with EFA, and {instance_type(group)} has none"
            yield Refusal(rule="interfaces_are_efa", message=message, index=index, member="NetworkInterface")


def batches_fit(request: Json, _where: Where) -> Iterator[Refusal]:
    """A rolling update in percent takes 1 to 100; in instances no more than the group has."""
    for index, group in groups_of(request):
        policy = group.get("ScheduledUpdateConfig", {}).get("DeploymentConfig", {}).get("RollingUpdatePolicy", {})
        batch = policy.get("MaximumBatchSize", {})
        value = batch.get("Value", 0)
        if batch.get("Type") == "CAPACITY_PERCENTAGE" and value > 100:
            message, expected = f"{value} percent", "1 to 100 percent"
        elif batch.get("Type") == "INSTANCE_COUNT" and value > max(1, group["InstanceCount"]):
            message = f"{value} nodes at once, but the group has {group['InstanceCount']}"
            expected = f"1 to {max(1, group['InstanceCount'])}"
        else:
            continue
        yield Refusal(rule="batches_fit", message=message, expected=expected, index=index, member="MaximumBatchSize")


# --- Slurm -----------------------------------------------------------------------------------------------------------


def slurm_members(request: Json, _where: Where) -> Iterator[Refusal]:
    """Labels, taints, autoscaling and tiered checkpoints exist with EKS; parts in Slurm exist with Slurm."""
    slurm = _slurm(request)
    for member in ("AutoScaling", "TieredStorageConfig"):
        if slurm and member in request:
            message = f"{member} is not supported for a cluster orchestrated by Slurm"
            yield Refusal(rule="slurm_members", message=message, member=member)
    member = "KubernetesConfig" if slurm else "SlurmConfig"
    for index, group in groups_of(request):
        if member in group:
            orchestrator = "Slurm" if slurm else "Amazon EKS"
            message = f"{member} of {_of(group)} is not supported for a cluster orchestrated by {orchestrator}"
            yield Refusal(rule="slurm_members", message=message, index=index, member=member)


def slurm_roles(request: Json, _where: Where) -> Iterator[Refusal]:
    """Every group has a part in Slurm, and exactly one is the controller, with one instance.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ref.html (API-driven Slurm configuration)
    """
    if not _slurm(request):
        return
    controllers = [(index, group) for index, group in groups_of(request) if _part(group) == "Controller"]
    for index, group in groups_of(request):
        if not _part(group):
            message = f"{_of(group)} has no SlurmConfig"
            yield Refusal(rule="slurm_roles", message=message, index=index, member="SlurmConfig")
    if not controllers:
        yield Refusal(rule="slurm_roles", message="No instance group is of NodeType Controller", member="SlurmConfig")
    for index, group in controllers[1:]:
        message = f"{_of(group)} is a second group of NodeType Controller; a cluster has exactly one"
        yield Refusal(rule="slurm_roles", message=message, index=index, member="SlurmConfig")
    for index, group in controllers[:1]:
        if group["InstanceCount"] != 1:
            message = f"{_of(group)} is the controller and has {group['InstanceCount']} instances; it has exactly one"
            yield Refusal(rule="slurm_roles", message=message, index=index, member="InstanceCount")


def slurm_partitions(request: Json, _where: Where) -> Iterator[Refusal]:
    """Groups of compute are in a partition, and others in none."""
    for index, group in groups_of(request) if _slurm(request) else []:
        partitioned = bool(group.get("SlurmConfig", {}).get("PartitionNames"))
        part = _part(group)
        if part and partitioned != (part == "Compute"):
            message = f"PartitionNames of {_of(group)} {'is missing' if not partitioned else 'is not supported'}: its "
            message += f"NodeType is {part}"
            yield Refusal(rule="slurm_partitions", message=message, index=index, member="PartitionNames")


def accounting_is_continuous(request: Json, _where: Where) -> Iterator[Refusal]:
    """An accounting database of yours needs continuous provisioning (botocore's documentation of the member)."""
    if request.get("Orchestrator", {}).get("Slurm", {}).get("AccountingDatabase") and not _continuous(request):
        message = "AccountingDatabase needs NodeProvisioningMode Continuous"
        yield Refusal(rule="accounting_is_continuous", message=message, member="AccountingDatabase")


def file_systems_have_a_vpc(request: Json, _where: Where) -> Iterator[Refusal]:
    """A group mounts at most one FSx for Lustre and one OpenZFS file system, through the cluster's own network."""
    for index, group in groups_of(request):
        for member in ("FsxLustreConfig", "FsxOpenZfsConfig"):
            mounted = [config for config in group.get("InstanceStorageConfigs", []) if member in config]
            if len(mounted) > 1:
                message = f"{_of(group)} has {len(mounted)} entries of {member}; one is supported"
            elif mounted and "VpcConfig" not in request and "OverrideVpcConfig" not in group:
                message = f"{member} of {_of(group)} needs VpcConfig"
            else:
                continue
            yield Refusal(rule="file_systems_have_a_vpc", message=message, index=index, member=member)


def one_way_to_start(request: Json, _where: Where) -> Iterator[Refusal]:
    """`OnCreate` does everything itself, `OnInitComplete` extends AWS's set-up, which exists with Slurm."""
    for index, group in groups_of(request):
        scripts = group.get("LifeCycleConfig", {})
        if "OnInitComplete" in scripts and ("OnCreate" in scripts or not _slurm(request)):
            why = "with OnCreate" if "OnCreate" in scripts else "for a cluster orchestrated by Amazon EKS"
            message = f"OnInitComplete of {_of(group)} is not supported {why}"
            yield Refusal(rule="one_way_to_start", message=message, index=index, member="OnInitComplete")


RULES: dict[str, Rule] = named(
    (
        unique_names,
        some_group,
        vpc_for_eks,
        autoscaling_is_continuous,
        autoscaling_recovers,
        one_kind_of_type,
        continuous_members,
        minimum_at_most_count,
        spot_or_plan,
        plan_is_ours,
        plan_sells_the_type,
        plan_has_one_type,
        key_is_of_the_region,
        deep_checks_have_a_device,
        connectivity_needs_two,
        deep_checks_once,
        threads_exist,
        schedule_is_cron,
        release_with_eks,
        interfaces_are_efa,
        batches_fit,
        slurm_members,
        slurm_roles,
        slurm_partitions,
        accounting_is_continuous,
        file_systems_have_a_vpc,
        one_way_to_start,
    )
)
"""Rules of a CreateCluster request."""


# --- other calls -----------------------------------------------------------------------------------------------------


def update_group(old: Json, new: Json) -> Iterator[Refusal]:
    """What a group keeps for life."""
    for member in IMMUTABLE:
        if member in new and new[member] != old.get(member):
            message = f"{member} of {_of(old)} cannot be changed"
            yield Refusal(rule="group_keeps", message=message, member=member)


def update_software(group: Json, image: str | None) -> Iterator[Refusal]:
    """A group with an AMI of its own is updated to an AMI that the request names, or to `default`.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html
    """
    if group.get("ImageId", "default") != "default" and not image:
        message = f"{_of(group)} uses the custom AMI {group['ImageId']}: provide an ImageId, or default"
        yield Refusal(rule="own_image_is_named", message=message, member="ImageId")


def orchestrator_version(version: str) -> Iterator[Refusal]:
    """HyperPod supports a range of Kubernetes versions.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
    """
    supported = data.kubernetes_versions()
    if version not in supported:
        message, expected = f"HyperPod does not support Kubernetes {version}", f"one of {', '.join(supported)}"
        yield Refusal(rule="orchestrator_version", message=message, expected=expected, member="Orchestrator")


def _of(group: Json) -> str:
    return f"instance group {group['InstanceGroupName']}"


def _slurm(request: Json) -> bool:
    return "Eks" not in request.get("Orchestrator", {"Eks": {}})


def _part(group: Json) -> str:
    return str(group.get("SlurmConfig", {}).get("NodeType", ""))


def _continuous(request: Json) -> bool:
    return request.get("NodeProvisioningMode") == "Continuous"


def _autoscaled(request: Json) -> bool:
    return bool(request.get("AutoScaling", {}).get("Mode") == "Enable")

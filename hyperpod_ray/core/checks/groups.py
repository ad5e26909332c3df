"""Rules about HyperPod instance groups."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import regions
from hyperpod_ray.core.checks.lookup import GROUPS, groups, known_groups
from hyperpod_ray.core.common_plan import CommonPlan, catalogue
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.model import NodeGroup
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.requests import refused
from hyperpod_ray.core.service_limits import partition_of, platform
from hyperpod_ray.core.today import today
from hyperpod_ray_rules import data as rules_data
from hyperpod_ray_rules import hyperpod
from hyperpod_ray_rules.arns import arn_of

LEAST_VOLUME_GIB = 50
"""Below this an extra volume has no room for a training image and its successor."""
_FIGURES = ("vcpus", "memory_gib", "accelerator", "accelerators", "efa", "threads", "architecture")


@rule("hyperpod")
def group_names_differ(plan: CommonPlan) -> Iterator[Finding]:
    """Group names are unique in a cluster, and differ in more than upper and lower case.

    Log streams and labels derive from them.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html
    """
    indexes: dict[str, int] = {}
    for index, group in groups(plan):
        earlier = indexes.setdefault(group.name.casefold(), index)
        if earlier != index:
            yield error(
                *GROUPS,
                index,
                "name",
                what=f"'{group.name}' is already the name of instance_groups[{earlier}]",
                expected="names that differ in more than case",
                fix="choose another name",
            )


@rule("hyperpod", "instance_types")
def type_is_known(plan: CommonPlan) -> Iterator[Finding]:
    """A type that the service's API model does not list is most likely a misspelling.

    A new type is possible; then the file must give its specification.
    """
    types = platform().instance_types
    for index, group in groups(plan):
        has_spec = plan.known(group.type)
        path = (*GROUPS, index, "type")
        if group.type in types and not has_spec:
            yield error(
                *path,
                what=f"no specification of '{group.type}' is in the catalogue",
                expected="a type of the catalogue",
                fix=_give(group.type),
            )
        elif group.type not in types and has_spec:
            yield warning(
                *path,
                what=f"'{group.type}' is not in the service's list of instance types as known here",
                expected="a listed type; the specification in instance_types is used",
                fix=meant(group.type, types) or "make sure that HyperPod offers the type",
            )
        elif group.type not in types:
            yield error(
                *path,
                what=f"'{group.type}' is not a HyperPod instance type known here",
                expected="a listed type, or the specification of a new one",
                fix=f"{guess} If it is new, {_give(group.type)}"
                if (guess := meant(group.type, types))
                else _give(group.type),
            )


@rule("hyperpod", "region", "instance_types")
def type_is_in_the_region(plan: CommonPlan) -> Iterator[Finding]:
    """The region offers the type, as far as CloudFormation's list says; synth leaves the judgement to this rule.

    https://github.com/aws-cloudformation/cfn-lint (aws_sagemaker_cluster/instancetype_enum.json)
    """
    region = plan.settings.region
    unlisted = regions.unlisted(plan)
    for index, group in groups(plan):
        path = (*GROUPS, index, "type")
        if group.type not in unlisted or group.type not in platform().instance_types or not plan.known(group.type):
            continue  # not there, or another rule's finding
        offering = regions.offering(group.type)
        if regions.vouched(plan, group.type):
            yield warning(
                *path,
                what=f"CloudFormation's list does not have '{group.type}' in {region if offering else 'any region'}",
                expected="a type that the Region offers",
                fix=f"make sure that {region} offers it",
            )
        else:
            yield error(
                *path,
                what=f"'{group.type}' is not offered in {region}",
                expected=f"a type of this Region, or one of the Regions {', '.join(offering)}"
                if offering
                else "a type of this Region",
                fix=f"`hyperpod-ray env new --list-types --region {region}` lists types with accelerators. "
                f"If AWS offers it in {region} now, {_give(group.type)}",
            )


_AT_LEAST = {
    "vcpus": "vCPUs", "memory_gib": "GiB of memory", "efa": "EFA interfaces", "pods": "pods",
}  # fmt: skip
_ALIKE = {
    "accelerator": "accelerator", "accelerators": "accelerators", "architecture": "architecture",
    "threads": "threads of a core",
}  # fmt: skip


@rule("hyperpod", "instance_types", "region", orchestrator="eks")
def fallback_types_stand_in(plan: Plan) -> Iterator[Finding]:
    """What runs on a group's `type` runs on each of its fallback types: pods get their size from `type`.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceRequirements.html
    """
    unlisted = regions.unlisted(plan)
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        for position, name in enumerate(group.fallback_types):
            path = (*GROUPS, index, "fallback_types", position)
            if name in group.types[: position + 1]:
                yield error(*path, what=f"'{name}' is named twice", expected="each type once", fix="remove one")
            elif not plan.known(name):
                yield error(
                    *path,
                    what=f"'{name}' is not a HyperPod instance type known here",
                    expected="a type of the catalogue",
                    fix=meant(name, tuple(catalogue())) or _give(name),
                )
            elif name in unlisted and not regions.vouched(plan, name):
                yield error(
                    *path,
                    what=f"'{name}' is not offered in {plan.settings.region}",
                    expected="a type of this Region",
                    fix="remove it",
                )
            elif plan.known(group.type):
                yield from _stands_in(plan, group, name, path)


def _stands_in(plan: Plan, group: NodeGroup, name: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    first, other = plan.type_spec(group.type), plan.type_spec(name)
    for figure, words in _ALIKE.items():
        if getattr(other, figure) != getattr(first, figure):
            yield error(
                *path,
                what=f"{words} of {name}: {getattr(other, figure)}",
                expected=f"{getattr(first, figure)}, as of {group.type}",
                fix="remove it",
            )
            return
    for figure, words in _AT_LEAST.items():
        if getattr(other, figure) < getattr(first, figure):
            yield error(
                *path,
                what=f"{name} has {getattr(other, figure)} {words}",
                expected=f"{getattr(first, figure)} or more, as {group.type}, which sizes the pods",
                fix="remove it",
            )
            return
    families = [of.removeprefix("ml.").partition(".")[0] for of in (group.type, name)]
    if first.accelerators and families[0] != families[1]:
        yield warning(
            *path,
            what=f"{name} has other accelerators than {group.type}",
            expected="accelerators of one speed and memory: a run goes at the pace of the slowest",
            fix="remove it, or make sure that training fits in the memory of each",
        )


@rule("hyperpod", "teams", orchestrator="eks")
def fallback_types_have_no_reader_of_one(plan: Plan) -> Iterator[Finding]:
    """Training plans, quotas of teams and managed Karpenter know a group's nodes by one type.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ComputeQuotaResourceConfig.html
    """
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        readers = {
            "a training plan reserves one type": group.training_plan_arn is not None,
            "a team's quota counts instances of one type": bool(plan.teams),
            "a NodePool of managed Karpenter has one type": group in plan.scaled_groups,
        }
        for reader in (words for words, used in readers.items() if used and group.fallback_types):
            yield error(
                *GROUPS,
                index,
                "fallback_types",
                what=f"{reader}, and '{group.name}' has {len(group.types)}",
                expected="one type",
                fix="remove fallback_types",
            )


def _give(name: str) -> str:
    return (
        f"give its specification in the environment: instance_types: {{{name}: {{vcpus: …, memory_gib: …, "
        "accelerator: …, accelerators: …, efa: …, ips: …, pods: …}}"
    )


@rule("hyperpod", "instance_types")
def specs_are_used(plan: CommonPlan) -> Iterator[Finding]:
    """Figures of a type that no group has are left over, or misspelled."""
    used = {name for _, group in groups(plan) for name in group.types}
    for name in plan.settings.instance_types:
        if name not in used:
            yield warning(
                "instance_types",
                name,
                what="no instance group is of this type",
                expected="specifications of types that groups have",
                fix=f"rename the entry to {' or '.join(sorted(used))}, or remove it",
            )


@rule("instance_types")
def specs_agree(plan: CommonPlan) -> Iterator[Finding]:
    """An accelerator kind comes with a number of devices, and `none` with none."""
    for name, spec in plan.settings.instance_types.items():
        if (spec.accelerator == "none") != (spec.accelerators == 0):
            yield error(
                "instance_types",
                name,
                "accelerators",
                what=f"{spec.accelerators} with accelerator '{spec.accelerator}'",
                expected="0 with 'none', at least 1 with any other kind",
                fix="correct one of the two",
            )


@rule("instance_types")
def specs_are_those_of_the_catalogue(plan: CommonPlan) -> Iterator[Finding]:
    """Figures of a known type that differ from EC2's make pods that fit no node, or leave a part of it idle.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
    """
    for name, spec in plan.settings.instance_types.items():
        published = catalogue().get(name)
        for member in _FIGURES if published else ():
            stated, listed = getattr(spec, member), getattr(published, member)
            if stated != listed:
                yield warning(
                    "instance_types",
                    name,
                    member,
                    what=f"{stated}, and {name} has {listed}",
                    expected=f"{listed}",
                    fix=f"set {listed}, or remove the entry: its specification is known",
                )


@rule("hyperpod", "instance_types", "region", "account")
def deep_health_checks_have_a_device(plan: CommonPlan) -> Iterator[Finding]:
    """Deep health checks exist for GPU and Trainium types only.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-deep-health-checks.html
    """
    for index, group in _refused(plan, "deep_checks_have_a_device"):
        yield error(
            *GROUPS,
            index,
            "deep_health_checks",
            what=f"{group.type} has no accelerator",
            expected="a GPU or Trainium type for deep health checks",
            fix="remove the setting",
        )


@rule("hyperpod", "instance_types", "region", "account")
def connectivity_needs_two(plan: CommonPlan) -> Iterator[Finding]:
    """`InstanceConnectivity` tests the network between nodes and so needs two; a group of none waits for them."""
    for index, group in _refused(plan, "connectivity_needs_two"):
        yield error(
            *GROUPS,
            index,
            "deep_health_checks",
            what=f"InstanceConnectivity tests nodes against each other, and count is {group.count}",
            expected="a count of 2 or more",
            fix="set deep_health_checks: [InstanceStress]",
        )


@rule("hyperpod", "instance_types", "region", "account")
def deep_health_checks_once(plan: CommonPlan) -> Iterator[Finding]:
    """Each check is named once; CloudFormation's list has unique items."""
    for index, group in _refused(plan, "deep_checks_once"):
        repeated = plan.deep_health_checks(group)[0]
        yield error(
            *GROUPS,
            index,
            "deep_health_checks",
            what=f"{repeated} is named twice",
            expected="each check once",
            fix="keep one",
        )


@rule("hyperpod", "instance_types", orchestrator="eks")
def taints_meet_deep_health_checks(plan: Plan) -> Iterator[Finding]:
    """Groups with deep health checks take no custom taints: the checks' pods do not tolerate them.

    The guide says so; no account confirmed it: a warning.
    """
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        if plan.known(group.type) and group.taints and plan.deep_health_checks(group):
            yield warning(
                *GROUPS,
                index,
                "taints",
                what=(
                    "the pods of deep health checks may not tolerate custom taints, and the nodes then never take work"
                ),
                expected="taints or deep health checks",
                fix="set deep_health_checks: [], or remove the taints",
            )


@rule("hyperpod", "instance_types", "region", "account")
def continuous_features(plan: CommonPlan) -> Iterator[Finding]:
    """Spot capacity, `MinInstanceCount` and managed Karpenter need provisioning mode `Continuous`.

    Karpenter also needs node recovery. CloudFormation accepts them without, and the create fails.
    """
    fix = "set hyperpod.node_provisioning_mode: Continuous"
    for refusal in refused(plan, "continuous_members"):
        if refusal.member == "CapacityRequirements":
            yield error(
                *GROUPS,
                refusal.index or 0,
                "capacity",
                what="'spot' without provisioning mode Continuous",
                expected="node_provisioning_mode Continuous",
                fix=f"{fix}, or use 'on-demand'",
            )
        elif refusal.member == "InstanceRequirements":
            yield error(
                *GROUPS,
                refusal.index or 0,
                "fallback_types",
                what="fallback_types without provisioning mode Continuous",
                expected="node_provisioning_mode Continuous",
                fix=f"{fix}, or remove fallback_types",
            )
        else:
            yield error(
                *GROUPS,
                refusal.index or 0,
                "min_count",
                what="min_count without provisioning mode Continuous",
                expected="node_provisioning_mode Continuous",
                fix=f"{fix}, or remove min_count",
            )
    for _ in refused(plan, "autoscaling_is_continuous"):
        yield error(
            "hyperpod",
            "managed_autoscaling",
            what="managed autoscaling without provisioning mode Continuous",
            expected="node_provisioning_mode Continuous",
            fix=fix,
        )
    for _ in refused(plan, "autoscaling_recovers"):
        yield error(
            "hyperpod",
            "managed_autoscaling",
            what=f"managed autoscaling with node_recovery '{plan.settings.hyperpod.node_recovery}'",
            expected="node recovery",
            fix="set hyperpod.node_recovery: Automatic",
        )


@rule("hyperpod", "ray")
def karpenter_has_groups(plan: Plan) -> Iterator[Finding]:
    """Managed Karpenter scales groups that start from 0, draw from no plan and have no deep health checks.

    What runs before it does needs nodes of its own.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html
    """
    hyperpod, ray = plan.settings.hyperpod, plan.settings.ray
    if not hyperpod.managed_autoscaling:
        return
    if not plan.scaled_groups:
        yield error(
            "hyperpod",
            "managed_autoscaling",
            what="scales nothing: no group has a count of 0, from which Karpenter scales",
            expected="a group with count 0",
            fix="give the groups that it scales a count of 0, or remove the setting",
        )
    driver = ray.gcs_fault_tolerance.driver_instance_group if ray.gcs_fault_tolerance else None
    for index, group in groups(plan):
        if group.count:
            continue
        if group.deep_health_checks:
            yield error(
                *GROUPS,
                index,
                "deep_health_checks",
                what="managed Karpenter does not scale a group with deep health checks",
                expected="none on a group with count 0",
                fix="remove the setting",
            )
        if group.training_plan_arn:
            yield error(
                *GROUPS,
                index,
                "training_plan_arn",
                what="managed Karpenter does not scale reserved capacity",
                expected="no training plan on a group with count 0",
                fix="set a count, or remove the plan",
            )
        if group.name in {ray.head.instance_group, driver}:
            yield error(
                *GROUPS,
                index,
                "count",
                what="0, but head, driver and system pods need nodes before Karpenter adds any",
                expected="at least one node",
                fix="set count: 2",
            )


@rule("hyperpod", "instance_types", "region", "account")
def min_count_at_most_count(plan: CommonPlan) -> Iterator[Finding]:
    """A cluster cannot wait for more nodes than it asks for."""
    for index, group in _refused(plan, "minimum_at_most_count"):
        yield error(
            *GROUPS,
            index,
            "min_count",
            what=f"{group.min_count} is more than the group's count of {group.count}",
            expected=f"at most {group.count}",
            fix="lower min_count, or raise count",
        )


@rule("hyperpod", "instance_types", "region", "account")
def spot_draws_from_no_plan(plan: CommonPlan) -> Iterator[Finding]:
    """A training plan is reserved capacity; a group draws from one or the other."""
    for index, _ in _refused(plan, "spot_or_plan"):
        yield error(
            *GROUPS,
            index,
            "capacity",
            what="'spot' and training_plan_arn exclude each other",
            expected="one of the two",
            fix="remove one",
        )


@rule("hyperpod", "instance_types", "region", "account")
def plan_and_key_are_ours(plan: CommonPlan) -> Iterator[Finding]:
    """A training plan belongs to one account and region, and an EBS key to the region of its volumes."""
    settings = plan.settings
    names = {"plan_is_ours": "training_plan_arn", "key_is_of_the_region": "volume_kms_key_arn"}
    for rule_name, setting in names.items():
        for index, group in _refused(plan, rule_name, once=True):
            arn = str(getattr(group, setting))
            partition, _, region, account, _ = arn_of(arn)
            path = (*GROUPS, index, setting)
            if partition != (own_partition := partition_of(settings.region)):
                yield error(
                    *path,
                    what=f"is in partition {partition}",
                    expected=f"partition {own_partition}, that of {settings.region}",
                    fix=f"name one of that partition, or remove {setting}",
                )
            if region != settings.region:
                yield error(
                    *path,
                    what=f"is of region {region}",
                    expected=f"{settings.region}, the environment's Region",
                    fix=f"name one of that Region, or remove {setting}",
                )
            if account != settings.account and setting == "training_plan_arn":
                yield error(
                    *path,
                    what=f"is of account {account}",
                    expected=f"{settings.account}, the environment's account",
                    fix="name a plan of that account, or remove the setting",
                )


@rule("hyperpod", "account", "region")
def keys_of_others_are_granted(plan: CommonPlan) -> Iterator[Finding]:
    """A key of another account encrypts a volume only where its policy lets this account use it and create grants.

    https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
    """
    settings = plan.settings
    for index, group in groups(plan):
        owner = arn_of(group.volume_kms_key_arn).account if group.volume_kms_key_arn else settings.account
        if owner != settings.account:
            yield warning(
                *GROUPS,
                index,
                "volume_kms_key_arn",
                what=f"is of account {owner}",
                expected=f"a key policy that lets {settings.account} use the key and create grants",
                fix="make sure of both, or name a key of this account",
            )


@rule("hyperpod", "network")
def a_training_plan_is_of_one_zone(plan: CommonPlan) -> Iterator[Finding]:
    """A training plan's instances are in one Availability Zone.

    https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html
    """
    zones: dict[str, tuple[str, str]] = {}
    for index, group in groups(plan):
        if group.training_plan_arn is None:
            continue
        zone = plan.zone(group)
        first_group, first_zone = zones.setdefault(group.training_plan_arn, (group.name, zone))
        if first_zone != zone:
            yield warning(
                *GROUPS,
                index,
                "availability_zone_id",
                what=f"'{group.name}' is in {zone}, and '{first_group}' of the same training plan in {first_zone}",
                expected="one zone for the groups of a plan, unless it has parts in several",
                fix=f"set {first_zone}, or name another training plan",
            )


@rule("hyperpod", "instance_types", "region", "account")
def training_plans_sell_the_types(plan: CommonPlan) -> Iterator[Finding]:
    """Training plans exist for some instance types, and a plan reserves one of them.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ReservedCapacitySummary.html (InstanceType)
    """
    for refusal in refused(plan, "plan_sells_the_type", "plan_has_one_type"):
        path = (*GROUPS, refusal.index or 0, "training_plan_arn")
        yield error(
            *path,
            what=refusal.message,
            expected=refusal.expected or "one instance type for each plan",
            fix=f"{'choose one of these types' if refusal.expected else 'name another plan'}, or remove the setting",
        )


@rule("hyperpod", "instance_types")
def ultraservers_are_whole(plan: CommonPlan) -> Iterator[Finding]:
    """GB200 instances come by UltraServers of 9 or 18: another number leaves paid instances unused, or never comes.

    https://aws.amazon.com/ec2/instance-types/p6/
    """
    for index, group in groups(plan):
        per_server = rules_data.ultraservers().get(group.type)
        if per_server and group.count % per_server and plan.known(group.type):
            below, above = group.count // per_server * per_server, (group.count // per_server + 1) * per_server
            yield warning(
                *GROUPS,
                index,
                "count",
                what=f"{group.count} × {group.type}",
                expected=f"whole UltraServers of {per_server} or {2 * per_server} instances",
                fix=f"set {below or above} or {above}",
            )


@rule("hyperpod")
def volumes_hold_an_image(plan: CommonPlan) -> Iterator[Finding]:
    """Container images are kept on the extra volume; a training image with CUDA unpacks to more than 20 GB."""
    for index, group in groups(plan):
        if group.data_volume_gib is not None and group.data_volume_gib < LEAST_VOLUME_GIB:
            yield warning(
                *GROUPS,
                index,
                "data_volume_gib",
                what=f"{group.data_volume_gib} GiB cannot store a training image",
                expected=f"{LEAST_VOLUME_GIB} GiB or more",
                fix="set 500, or null for none",
            )


@rule("hyperpod", "instance_types", "region", "account")
def threads_exist(plan: CommonPlan) -> Iterator[Finding]:
    """`ThreadsPerCore: 2` is refused by types whose cores have one thread (Graviton, g7, m8a).

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cpu-options-supported-instances-values.html
    """
    for index, group in _refused(plan, "threads_exist"):
        yield error(
            *GROUPS,
            index,
            "threads_per_core",
            what=f"the cores of {group.type} have one thread",
            expected="threads_per_core 1",
            fix="remove the setting",
        )


@rule("hyperpod", "instance_types", "region", "account")
def schedule_is_cron(plan: CommonPlan) -> Iterator[Finding]:
    """`ScheduleExpression`: six fields, narrower than EventBridge's cron."""
    for refusal in refused(plan, "schedule_is_cron"):
        yield error(
            *GROUPS,
            refusal.index or 0,
            "update_schedule",
            "cron",
            what=refusal.message,
            expected=refusal.expected,
            fix="correct the expression, for example cron(0 6 ? * SUN *)",
        )
    for index, group in groups(plan):
        if group.update_schedule and (reason := hyperpod.never_fires(group.update_schedule.cron, today().year)):
            yield error(
                *GROUPS,
                index,
                "update_schedule",
                "cron",
                what=f"never fires: {reason}",
                expected="a date to come",
                fix="correct the expression",
            )


@rule("hyperpod", "instance_types", "region", "account")
def interfaces_are_efa(plan: CommonPlan) -> Iterator[Finding]:
    """`NetworkInterface` chooses between two kinds of EFA interface, and a type without EFA has neither.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterNetworkInterface.html
    """
    for index, group in _refused(plan, "interfaces_are_efa"):
        yield error(
            *GROUPS,
            index,
            "network_interface",
            what=f"'{group.network_interface}' on {group.type}, which has no EFA",
            expected="network_interface on types with EFA",
            fix="remove the setting",
        )


@rule("hyperpod")
def images_have_one_source(plan: CommonPlan) -> Iterator[Finding]:
    """A group has an AMI of your own, or a release of HyperPod's, which HyperPod alone patches.

    `UpdateClusterSoftware` asks for an image where a group has an AMI of your own, and a schedule names none.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html
    """
    for index, group in groups(plan):
        if group.image_id is None:
            continue
        if group.image_release_version is not None:
            yield error(
                *GROUPS,
                index,
                "image_release_version",
                what=f"{group.image_release_version} is of HyperPod's AMI, and image_id names {group.image_id}",
                expected="one of the two",
                fix="remove image_release_version",
            )
        for setting, value in (("auto_patch", group.auto_patch), ("update_schedule", group.update_schedule)):
            if value is not None:
                yield error(
                    *GROUPS,
                    index,
                    setting,
                    what=f"{setting} takes AMIs of HyperPod, and image_id names {group.image_id}",
                    expected="updates of an AMI of your own by another image_id",
                    fix=f"remove {setting}",
                )


@rule("hyperpod", "instance_types", "region", "account")
def batches_fit(plan: CommonPlan) -> Iterator[Finding]:
    """A rolling update in percent takes 1 to 100; in instances no more than the group has."""
    for refusal in refused(plan, "batches_fit"):
        path = (*GROUPS, refusal.index or 0, "update_schedule", "rolling", "maximum_batch")
        yield error(*path, what=refusal.message, expected=refusal.expected, fix="lower maximum_batch")
    for index, group in groups(plan):
        rolling = group.update_schedule.rolling if group.update_schedule else None
        if rolling is None or group.count < 2:
            continue
        share = rolling.batch_unit == "CAPACITY_PERCENTAGE"
        if rolling.maximum_batch == (100 if share else group.count):
            yield warning(
                *GROUPS,
                index,
                "update_schedule",
                "rolling",
                "maximum_batch",
                what=(
                    f"{rolling.maximum_batch}{' percent' if share else ''} takes all {group.count} nodes at "
                    "once, and training stops"
                ),
                expected="a batch that leaves nodes at work",
                fix="lower maximum_batch",
            )


@rule("hyperpod", "ray")
def patches_find_idle_nodes(plan: Plan) -> Iterator[Finding]:
    """HyperPod patches idle nodes only, and the pods of a standing RayCluster never leave theirs.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterAutoPatchConfig.html
    """
    ray = plan.settings.ray
    standing = {ray.head.instance_group, *(worker.instance_group for worker in ray.workers if worker.replicas)}
    for index, group in groups(plan):
        if group.auto_patch and group.name in standing:
            yield warning(
                *GROUPS,
                index,
                "auto_patch",
                what=f"the standing RayCluster keeps pods on '{group.name}', so its nodes are never idle. A patch "
                "cordons them for up to 24 hours, and a lost pod finds no node in that time",
                expected="auto_patch on groups whose pods end with their job",
                fix="remove auto_patch and set update_schedule, or give its workers no replicas and submit jobs with "
                "clusters of their own",
            )


@rule("hyperpod", "ray", "instance_types")
def groups_are_used(plan: Plan) -> Iterator[Finding]:
    """A group that no part of Ray is bound to costs money and does nothing; CPU groups carry system pods."""
    ray = plan.settings.ray
    used = {ray.head.instance_group, *(worker.instance_group for worker in ray.workers)}
    if ray.gcs_fault_tolerance:
        used.add(ray.gcs_fault_tolerance.driver_instance_group)
    if used - {group.name for _, group in groups(plan)}:
        return  # a misspelled name is reported by its own rule; this group may be the one that was meant
    for index, group in known_groups(plan):
        if group.name not in used and plan.accelerated(group) and group.count:
            yield warning(
                *GROUPS,
                index,
                "name",
                what=f"no part of Ray is bound to '{group.name}', so its {group.count} nodes stand idle",
                expected="Ray workers on each accelerated group",
                fix="name it as instance_group of a worker group, or remove the group",
            )


@rule("hyperpod", "instance_types", orchestrator="eks")
def system_pods_have_a_place(plan: Plan) -> Iterator[Finding]:
    """CoreDNS, the CSI controller and the KubeRay operator need a node without accelerators.

    Otherwise they take room on the nodes that train, and go with them when a GPU fails.
    """
    specified = list(known_groups(plan))
    if len(specified) == len(plan.settings.hyperpod.instance_groups) and all(
        plan.accelerated(group) or group.count == 0 for _, group in specified
    ):
        yield error(
            *GROUPS,
            what="no group of a CPU type with nodes",
            expected="one for CoreDNS, the CSI controller and the Ray head",
            fix="add a group of a CPU type, for example ml.m5.2xlarge with count: 2",
        )


@rule("hyperpod")
def recovery_is_on(plan: CommonPlan) -> Iterator[Finding]:
    """Without node recovery a faulty node stays until you act."""
    if plan.settings.hyperpod.node_recovery == "None":
        yield warning(
            "hyperpod",
            "node_recovery",
            what="'None' leaves faulty nodes to you; training then waits until you replace them",
            expected="Automatic",
            fix="set node_recovery: Automatic",
        )


def _refused(plan: CommonPlan, rule_name: str, *, once: bool = False) -> Iterator[tuple[int, NodeGroup]]:
    """Groups that HyperPod refuses by one of its rules; `once`: each a single time."""
    reported: set[int] = set()
    for refusal in refused(plan, rule_name):
        index = refusal.index or 0
        if not once or index not in reported:
            reported.add(index)
            yield index, plan.groups[index]

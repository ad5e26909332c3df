"""Rules about environments whose orchestrator is Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hyperpod_ray.core import project, regions
from hyperpod_ray.core.checks.lookup import GROUPS, known_groups
from hyperpod_ray.core.checks.network import addresses
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.requests import create_homes, refused
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray_rules import fsx
from hyperpod_ray_rules.arns import arn_of

SECTIONS = ("hyperpod", "instance_types", "region", "account")
CONTROLLER_GIB = 16
"""Memory below which slurmctld, slurmdbd and their database share too little."""


@rule(*SECTIONS, orchestrator="slurm")
def one_controller(plan: SlurmPlan) -> Iterator[Finding]:
    """A Slurm cluster has exactly one controller, on one node.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ref.html
    """
    for refusal in refused(plan, "slurm_roles"):
        if refusal.index is None:
            yield error(
                *GROUPS,
                what="no group is the controller",
                expected="exactly one group with role controller",
                fix="add {name: controller, type: ml.m5.4xlarge, count: 1, slurm: {role: controller}}",
            )
        elif refusal.member == "InstanceCount":
            yield error(
                *GROUPS,
                refusal.index,
                "count",
                what=f"{plan.groups[refusal.index].count} nodes of the controller",
                expected="1",
                fix="set count: 1",
            )
        else:
            yield error(
                *GROUPS,
                refusal.index,
                "slurm",
                "role",
                what=f"'{plan.groups[refusal.index].name}' is a second controller",
                expected="exactly one group with role controller",
                fix="use login or compute, or remove the group",
            )


@rule("hyperpod", orchestrator="slurm")
def something_runs_jobs(plan: SlurmPlan) -> Iterator[Finding]:
    """Jobs run on groups of compute: without one, no job ever starts."""
    if not plan.compute:
        yield error(
            *GROUPS,
            what="no group runs jobs",
            expected="one or more groups with role compute",
            fix="add a group with slurm: {role: compute, partitions: [train]}",
        )
    elif not any(group.count for group in plan.compute):
        index = next(position for position, group in enumerate(plan.groups) if group.slurm.role == "compute")
        yield warning(
            *GROUPS,
            index,
            "count",
            what="no group of compute has a node, so no job ever starts",
            expected="1 or more",
            fix="set count: 1",
        )


@rule("hyperpod", orchestrator="slurm")
def partitions_have_names_of_their_own(plan: SlurmPlan) -> Iterator[Finding]:
    """Slurm reads a partition called DEFAULT as the defaults of the lines after it: nothing is in such a partition.

    https://slurm.schedmd.com/slurm.conf.html#SECTION_PARTITION-CONFIGURATION (PartitionName)
    """
    for index, group in enumerate(plan.groups):
        for position, name in enumerate(group.slurm.partitions):
            if name.upper() == "DEFAULT":
                yield error(
                    *GROUPS,
                    index,
                    "slurm",
                    "partitions",
                    position,
                    what=f"'{name}' is a reserved word of slurm.conf",
                    expected="a name of your own",
                    fix="set hyperpod.instance_groups"
                    f"[{index}].slurm.partitions[{position}]: train, or another name that no group has",
                )


@rule(*SECTIONS, orchestrator="slurm")
def partitions_are_of_compute(plan: SlurmPlan) -> Iterator[Finding]:
    """A group of compute is in a partition; the controller and login nodes are in none."""
    for refusal in refused(plan, "slurm_partitions"):
        index = refusal.index or 0
        group = plan.groups[index]
        if group.slurm.role == "compute":
            yield error(
                *GROUPS,
                index,
                "slurm",
                what="a group of compute without a partition",
                expected="the partition that its nodes are in",
                fix="add partitions: [train]",
            )
        else:
            yield error(
                *GROUPS,
                index,
                "slurm",
                "partitions",
                what=f"role {group.slurm.role} is in no partition",
                expected="partitions on groups with role compute",
                fix="remove partitions",
            )


@rule(*SECTIONS, orchestrator="slurm")
def accounting_needs_continuous(plan: SlurmPlan) -> Iterator[Finding]:
    """`AccountingDatabase` needs provisioning mode `Continuous`.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterOrchestratorSlurmConfig.html
    """
    for _ in refused(plan, "accounting_is_continuous"):
        yield error(
            "hyperpod",
            "accounting_database",
            what="an accounting database without provisioning mode Continuous",
            expected="node_provisioning_mode Continuous",
            fix="set hyperpod.node_provisioning_mode: Continuous, or remove accounting_database",
        )


@rule(*SECTIONS, orchestrator="slurm")
def releases_are_of_eks(plan: SlurmPlan) -> Iterator[Finding]:
    """`ImageReleaseVersion` is for clusters that EKS orchestrates, by the registry schema of `AWS::SageMaker::Cluster`.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-sagemaker-cluster-clusterinstancegroup.html
    """
    for refusal in refused(plan, "release_with_eks"):
        yield error(
            *GROUPS,
            refusal.index or 0,
            "image_release_version",
            what="HyperPod takes a release with EKS only",
            expected="no release with Slurm",
            fix="remove the setting",
        )


@rule("hyperpod", orchestrator="slurm")
def jobs_have_a_role_of_their_own(plan: SlurmPlan) -> Iterator[Finding]:
    """A job takes its node's role from instance metadata: with the controller's, it reads the database's password."""
    database = plan.settings.hyperpod.accounting_database
    if database is not None and not database.separate_role:
        yield warning(
            "hyperpod",
            "accounting_database",
            "separate_role",
            what="false: any job reads the accounting database's password with the role of its node",
            expected="true, as soon as each login and compute group can be replaced",
            fix="rename these groups one after the other, drain the old ones, and remove separate_role",
        )


@rule("hyperpod", "region", orchestrator="slurm")
def accounting_secret_is_of_the_region(plan: SlurmPlan) -> Iterator[Finding]:
    """The controller reads the database's password in its own Region, and decrypts it there."""
    database = plan.settings.hyperpod.accounting_database
    if database is None:
        return
    own_region = plan.settings.region
    replica = "name a secret of the Region, or replicate it"
    named = [("secret_arn", database.secret_arn, "secret", replica)]
    if database.kms_key_arn is not None:
        named.append(("kms_key_arn", database.kms_key_arn, "key", "name the key of the secret in the Region"))
    for setting, arn, resource, fix in named:
        if (region := arn_of(arn).region) != own_region:
            yield error(
                "hyperpod",
                "accounting_database",
                setting,
                what=f"a {resource} of {region}",
                expected=f"a {resource} of {own_region}",
                fix=fix,
            )


@rule("hyperpod", "instance_types", orchestrator="slurm")
def controller_is_off_accelerators(plan: SlurmPlan) -> Iterator[Finding]:
    """Slurm runs no job on controller and login nodes: their accelerators would be paid for and idle."""
    for index, group in known_groups(plan):
        role = plan.groups[index].slurm.role
        spec = plan.type_spec(group.type)
        if role != "compute" and spec.accelerators:
            yield warning(
                *GROUPS,
                index,
                "type",
                what=f"{group.type} has {spec.accelerators} accelerators, and no job runs on a {role} node",
                expected="a type without accelerators",
                fix="use ml.m5.4xlarge" if role == "controller" else "use ml.m5.2xlarge",
            )
        elif role == "controller" and spec.memory_gib < CONTROLLER_GIB:
            yield warning(
                *GROUPS,
                index,
                "type",
                what=f"{spec.memory_gib} GiB for slurmctld, slurmdbd and their database",
                expected=f"{CONTROLLER_GIB} GiB or more",
                fix="use ml.m5.2xlarge or larger",
            )


@rule("hyperpod", orchestrator="slurm")
def controller_is_kept(plan: SlurmPlan) -> Iterator[Finding]:
    """Spot capacity can be taken away, and with the controller go the queue and the accounting."""
    for index, group in enumerate(plan.groups):
        if group.slurm.role == "controller" and group.capacity == "spot":
            yield error(
                *GROUPS,
                index,
                "capacity",
                what="a controller on Spot capacity: the queue is lost with it",
                expected="on-demand",
                fix="remove capacity",
            )


@rule("hyperpod", "network", "instance_types", orchestrator="slurm")
def partitions_share_a_zone(plan: SlurmPlan) -> Iterator[Finding]:
    """EFA does not cross zones: a job over the groups of a partition would talk over TCP.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-limits
    """
    for name, groups in plan.partitions.items():
        zones = sorted({plan.zone(group) for group in groups})
        efa = any(plan.known(group.type) and plan.type_spec(group.type).efa for group in groups)
        if efa and len(zones) > 1:
            index = plan.groups.index(groups[-1])
            yield warning(
                *GROUPS,
                index,
                "availability_zone_id",
                what=f"partition '{name}' spans {' and '.join(zones)}, and EFA does not cross zones",
                expected="the groups of a partition in one zone",
                fix="put the group into a partition of its own",
            )


@rule("network", "hyperpod", "instance_types", orchestrator="slurm")
def nodes_have_addresses(plan: SlurmPlan) -> Iterator[Finding]:
    """Each network card of a node takes an address of its subnet, so a subnet bounds the number of nodes."""
    yield from addresses(plan)


@rule("storage", "hyperpod", orchestrator="slurm")
def efa_storage_is_set_up(plan: SlurmPlan) -> Iterator[Finding]:
    """HyperPod mounts the file system, and nothing sets the nodes' Lustre client up for EFA but a script of yours.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
    """
    if plan.efa_storage and plan.script is None:
        yield warning(
            "storage",
            "efa",
            what="true, and no script sets the nodes' Lustre client up for EFA: it stays on TCP",
            expected="hyperpod.on_init_complete with the set-up of the FSx for Lustre guide",
            fix="add the script, or remove efa",
        )


@rule("homes", orchestrator="slurm")
def homes_have_a_throughput_of_their_kind(plan: SlurmPlan) -> Iterator[Finding]:
    """`ThroughputCapacity` of OpenZFS has a few values, which depend on the deployment type.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemOpenZFSConfiguration.html
    """
    request = create_homes(plan)
    for refusal in fsx.create_file_system(request) if request else ():
        homes = request["OpenZFSConfiguration"]
        values = fsx.OPENZFS_THROUGHPUT[homes["DeploymentType"]]
        nearest = min(values, key=lambda value: abs(value - homes["ThroughputCapacity"]))
        yield error(
            "homes",
            "throughput_mbs",
            what=refusal.message,
            expected=f"one of {', '.join(map(str, values))}",
            fix=f"set {nearest}, or another deployment_type",
        )


@rule("homes", "region", orchestrator="slurm")
def homes_are_of_the_region(plan: SlurmPlan) -> Iterator[Finding]:
    """The newest deployment types of OpenZFS are in some Regions, and the oldest is in all.

    https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/available-aws-regions.html
    """
    homes, region = plan.new_homes, plan.settings.region
    if homes is None or homes.deployment_type == "SINGLE_AZ_1":
        return
    known = regions.with_openzfs(homes.deployment_type)
    if region not in known:
        yield warning(
            "homes",
            "deployment_type",
            what=f"{homes.deployment_type} is not known to be in {region}",
            expected=f"a deployment type of the Region; {homes.deployment_type} is in {', '.join(sorted(known))}",
            fix="look at the page Availability by AWS Region of FSx for OpenZFS, or set SINGLE_AZ_1 and its throughput",
        )


@rule("homes", "storage", orchestrator="slurm")
def homes_are_another_file_system(plan: SlurmPlan) -> Iterator[Finding]:
    """One file system is Lustre or OpenZFS."""
    existing = plan.existing_file_system
    if existing is not None and existing.file_system_id == plan.existing_homes:
        yield error(
            "homes",
            "existing",
            "file_system_id",
            what=f"{existing.file_system_id} is storage.existing, which is FSx for Lustre",
            expected="an FSx for OpenZFS file system",
            fix="name that of the home folders, or remove homes",
        )


@rule("homes", "network", orchestrator="slurm")
def homes_are_in_the_network(plan: SlurmPlan) -> Iterator[Finding]:
    """A file system mounts in its own VPC, and a VPC that the Network stack creates is not where an older one is.

    https://docs.aws.amazon.com/fsx/latest/OpenZFSGuide/mount-openzfs-file-systems.html
    """
    if plan.existing_homes is not None and plan.new_network is not None:
        yield warning(
            "homes",
            "existing",
            "file_system_id",
            what="exists, and network creates a VPC, in which the file system is only if you created it there",
            expected="the VPC of the file system",
            fix="name its VPC in network.existing",
        )


@rule("hyperpod", needs="repository", orchestrator="slurm")
def script_exists(plan: SlurmPlan, repository: Repository) -> Iterator[Finding]:
    """The script that extends AWS's set-up is there, inside the project."""
    script = plan.script
    if script is None or repository.root is None:
        return
    path = ("hyperpod", "on_init_complete")
    script_name = plan.settings.hyperpod.on_init_complete
    if ".." in Path(script[0]).parts:
        yield error(
            *path, what=f"'{script_name}' leaves the project", expected="a path inside it", fix="move the script"
        )
    elif not (project.file(repository.root, script[0]) / script[1]).is_file():
        yield error(*path, what=f"no file '{script_name}'", expected="a script of the project", fix="create it")

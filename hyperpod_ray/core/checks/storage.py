"""Rules about the shared file system."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names, regions
from hyperpod_ray.core.checks.lookup import known_groups
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.model import DataRepository
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.requests import create_file_system, read_cache_gib
from hyperpod_ray_rules import fsx

OWN_FOLDER = "/.system"
"""What this project keeps on the file system: Redis' log."""


@rule("storage")
def capacity_is_a_step(plan: CommonPlan) -> Iterator[Finding]:
    """PERSISTENT_2 SSD: 1200 GiB, 2400 GiB or a multiple of 2400 GiB; with EFA, multiples of a step by throughput.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (StorageCapacity)
    """
    if plan.ssd_file_system is None:
        return
    capacity, tier = plan.ssd_file_system.capacity_gib, plan.ssd_file_system.throughput_mbs_per_tib
    if plan.efa_storage:
        step = fsx.EFA_STEP[tier]
        for _ in fsx.capacity(capacity, deployment="PERSISTENT_2", efa_throughput=tier):
            below, above = max(step, capacity // step * step), (capacity // step + 1) * step
            sizes = f"{below} or {above}" if below < above else f"{above}"
            yield error(
                "storage",
                "capacity_gib",
                what=f"{capacity} is no size of an EFA-enabled file system at {tier} MB/s per TiB",
                expected=f"multiples of {step}",
                fix=f"set {sizes}",
            )
        return
    for _ in fsx.capacity(capacity, deployment="PERSISTENT_2"):
        below, above = max(1200, capacity // 2400 * 2400), (capacity // 2400 + 1) * 2400
        yield error(
            "storage",
            "capacity_gib",
            what=f"{capacity} is no size of FSx for Lustre",
            expected="1200, 2400 and multiples of 2400",
            fix=f"set {below} or {above}",
        )


@rule("storage")
def metadata_follows_the_size(plan: CommonPlan) -> Iterator[Finding]:
    """A file system that the stack creates has metadata IOPS by its size, which Lustre 2.12 has not.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (FileSystemTypeVersion)
    """
    request = create_file_system(plan) or {}
    for refusal in fsx.create_file_system(request):
        if refusal.rule == "metadata" and refusal.member == "FileSystemTypeVersion":
            yield error(
                "storage",
                "lustre_version",
                what=f"{request['FileSystemTypeVersion']} with the metadata IOPS of mode static: FSx refuses it",
                expected="2.15 with mode static",
                fix="remove lustre_version",
            )


@rule("storage")
def elastic_throughput_is_a_step(plan: CommonPlan) -> Iterator[Finding]:
    """Intelligent-Tiering: 4000 MB/s or a multiple of it.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
    """
    elastic, step = plan.elastic_file_system, fsx.ELASTIC_STEP_MBS
    if elastic is not None and [*fsx.throughput_capacity(elastic.throughput_mbs)]:
        below = elastic.throughput_mbs // step * step
        yield error(
            "storage",
            "throughput_mbs",
            what=f"{elastic.throughput_mbs} MB/s is no throughput of Intelligent-Tiering",
            expected=f"{step} and multiples of {step}",
            fix=f"set {below} or {below + step}",
        )


@rule("storage")
def read_cache_fits_the_throughput(plan: CommonPlan) -> Iterator[Finding]:
    """The size of a read cache depends on the throughput.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreReadCacheConfiguration.html
    """
    elastic = plan.elastic_file_system
    if elastic is None or not elastic.read_cache_gib or [*fsx.throughput_capacity(elastic.throughput_mbs)]:
        return
    smallest, largest = fsx.read_cache_limits(elastic.throughput_mbs)
    if not smallest <= elastic.read_cache_gib <= largest:
        nearest = smallest if elastic.read_cache_gib < smallest else largest
        yield error(
            "storage",
            "read_cache_gib",
            what=f"{elastic.read_cache_gib} GiB of read cache at {elastic.throughput_mbs} MB/s",
            expected=f"{smallest} to {largest}, or 0 for none",
            fix=f"set {nearest}, or remove read_cache_gib",
        )


@rule("storage", "region")
def elastic_storage_is_of_the_region(plan: CommonPlan) -> Iterator[Finding]:
    """Not each Region has file systems of deployment type PERSISTENT_2 with each storage class.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html#persistent-deployment-regions
    """
    region, known = plan.settings.region, regions.with_intelligent_tiering()
    if plan.elastic_file_system is not None and region not in known:
        yield warning(
            "storage",
            "mode",
            what=f"intelligent_tiering is not known to be in {region}",
            expected=f"one of {', '.join(sorted(known))}",
            fix="set storage.mode: static",
        )


@rule("storage", "hyperpod", "instance_types", eks=("ray",))
def efa_storage_has_efa_clients(plan: CommonPlan) -> Iterator[Finding]:
    """Lustre uses EFA on instances with Nitro v4 or later, and not on trn2; others stay on TCP.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
    """
    if not plan.efa_storage:
        return
    types = sorted({group.type for group in plan.training_groups if plan.known(group.type)})
    without = [
        instance_type
        for instance_type in types
        if not fsx.efa_interfaces(instance_type, efa=plan.type_spec(instance_type).efa)
    ]
    if without:
        yield warning(
            "storage",
            "efa",
            what=f"true, and Lustre has no EFA on {', '.join(without)}",
            expected="instance types with EFA and Nitro v4 or later, but not trn2",
            fix="remove efa, or change the type",
        )


@rule("storage", "hyperpod", "instance_types")
def efa_storage_has_connections(plan: CommonPlan) -> Iterator[Finding]:
    """A file system takes 1,024 EFA connections: eight of each P5, P5e, P5en and P6-B200 node, one or two of others.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
    """
    if not plan.efa_storage:
        return
    clients = [group for _, group in known_groups(plan)]
    needed = sum(group.count * fsx.efa_interfaces(group.type, efa=plan.type_spec(group.type).efa) for group in clients)
    if needed > fsx.EFA_CONNECTIONS:
        yield warning(
            "storage",
            "efa",
            what=f"true, and the nodes open {needed:,} EFA connections",
            expected=f"{fsx.EFA_CONNECTIONS:,} at most",
            fix="use fewer nodes, or remove efa",
        )


DEFAULT_QUOTA_GIB = 100_800
"""Default of the quota Lustre Persistent_2 storage capacity. "
"https://docs.aws.amazon.com/fsx/latest/LustreGuide/limits.html"""
DEFAULT_QUOTA_MBS = 100_000
"""Default of the quota of throughput capacity, Intelligent-Tiering. The same page."""
DEFAULT_QUOTA_CACHE_GIB = 100_800
"""Default of the quota of SSD read cache, Intelligent-Tiering. The same page."""


@rule("storage")
def capacity_is_within_the_default_quota(plan: CommonPlan) -> Iterator[Finding]:
    """A file system above the default quota needs an increase first.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/limits.html
    """
    file_system = plan.ssd_file_system
    if file_system is not None and file_system.capacity_gib > DEFAULT_QUOTA_GIB:
        yield warning(
            "storage",
            "capacity_gib",
            what=f"{file_system.capacity_gib:,} GiB",
            expected=f"at most {DEFAULT_QUOTA_GIB:,}, the default quota of a Region",
            fix="ask for an increase, or set a smaller size",
        )


@rule("storage")
def elastic_storage_is_within_the_default_quotas(plan: CommonPlan) -> Iterator[Finding]:
    """Throughput and read cache of all elastic file systems of a Region have a quota each.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/limits.html
    """
    elastic = plan.elastic_file_system
    if elastic is None:
        return
    if elastic.throughput_mbs > DEFAULT_QUOTA_MBS:
        yield warning(
            "storage",
            "throughput_mbs",
            what=f"{elastic.throughput_mbs:,} MB/s",
            expected=f"at most {DEFAULT_QUOTA_MBS:,}, the default quota of a Region",
            fix=f"ask for an increase, or set {DEFAULT_QUOTA_MBS}",
        )
    cache = read_cache_gib(plan)
    if cache > DEFAULT_QUOTA_CACHE_GIB:
        yield warning(
            "storage",
            "read_cache_gib" if elastic.read_cache_gib else "throughput_mbs",
            what=f"a read cache of {cache:,} GiB",
            expected=f"at most {DEFAULT_QUOTA_CACHE_GIB:,}, the default quota of a Region",
            fix=f"ask for an increase, or set read_cache_gib: {DEFAULT_QUOTA_CACHE_GIB}",
        )


@rule("storage", "network")
def existing_file_system_has_its_network(plan: CommonPlan) -> Iterator[Finding]:
    """A file system mounts in its own VPC, and a VPC that the Network stack creates is not where an older one is.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-on-premises.html
    """
    if plan.existing_file_system is not None and plan.new_network is not None:
        yield warning(
            "storage",
            "existing",
            "file_system_id",
            what="exists, and network creates a VPC, in which the file system is only if you created it there",
            expected="the VPC of the file system",
            fix="name its VPC in network.existing",
        )


@rule("storage", "network", "region")
def storage_zone_exists(plan: CommonPlan) -> Iterator[Finding]:
    """The file system stands in a zone of the network (exactly one subnet)."""
    file_system, existing, zones = (
        plan.new_file_system,
        plan.existing_file_system,
        plan.settings.network.availability_zone_ids,
    )
    for path, zone in (
        (("storage", "availability_zone_id"), file_system.availability_zone_id if file_system else None),
        (("storage", "existing", "availability_zone_id"), existing.availability_zone_id if existing else None),
    ):
        if zone is not None and zone not in zones:
            yield error(
                *path,
                what=f"'{zone}' is not one of network.availability_zone_ids",
                expected=f"one of {', '.join(zones)}",
                fix=meant(zone, zones) or "correct the zone, or add it there",
            )


@rule("storage", "hyperpod", "network", "instance_types", eks=("ray",))
def storage_is_beside_the_workers(plan: CommonPlan) -> Iterator[Finding]:
    """Traffic between zones is charged in both directions and adds latency to every read of a training step.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance.html
    """
    zone = plan.storage_zone
    path = ("storage", "existing" if plan.existing_file_system else "availability_zone_id")
    for member, group in plan.trainers:
        if plan.zone(group) != zone:
            message = (
                f"the file system is in {zone}, the {member} in "
                f"{plan.zone(group)}: traffic between zones is slow and charged"
            )
            if plan.existing_file_system:
                yield warning(
                    *path,
                    "availability_zone_id",
                    what=message,
                    expected="file system and workers in one zone",
                    fix="move the group, or the data",
                )
            elif plan.new_file_system and plan.new_file_system.availability_zone_id:
                yield error(
                    *path,
                    what=message,
                    expected=f"{plan.zone(group)}, the zone of the workers",
                    fix=f"remove the setting, or set it to {plan.zone(group)}",
                )


@rule("storage", orchestrator="eks")
def claims_keep_their_data(plan: Plan) -> Iterator[Finding]:
    """Backups are of little use for a file system that CloudFormation does not own and destroy deletes."""
    storage = plan.new_file_system
    if storage is not None and storage.on_destroy == "delete" and storage.backup_retention_days:
        yield warning(
            "storage",
            "backup_retention_days",
            what="automatic backups are deleted together with the file system (on_destroy 'delete')",
            expected="on_destroy 'retain' with automatic backups",
            fix="set on_destroy: retain, or take backups yourself",
        )


@rule("storage")
def linked_folders_lie_apart(plan: CommonPlan) -> Iterator[Finding]:
    """Folders of two links do not overlap, `/` stands alone, and each place in S3 has one link.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html (FileSystemPath)
    """
    links = plan.data_repositories
    for index, link in enumerate(links):
        path = ("storage", "data_repositories", index)
        for number, earlier in enumerate(links[:index]):
            yield from _apart(path, link, number, earlier)
        if {".", ".."} & set(link.path.split("/")):
            yield error(
                *path,
                "path",
                what=f"'{link.path}' has a part . or .. that FSx does not resolve",
                expected="the folder's own path",
                fix="write the path without them",
            )
        if "//" in link.prefix:
            yield warning(
                *path,
                "prefix",
                what=f"'{link.prefix}' has an empty part; FSx imports no object with // in its key",
                expected="single slashes",
                fix="remove one slash",
            )
        if _overlap(link.path, OWN_FOLDER) and link.path != "/":
            yield error(
                *path,
                "path",
                what=f"{OWN_FOLDER} is this project's own",
                expected="another folder",
                fix="choose another folder",
            )
        if link.path == names.MOUNT_PATH or link.path.startswith(f"{names.MOUNT_PATH}/"):
            inside = link.path.removeprefix(names.MOUNT_PATH) or "/"
            yield error(
                *path,
                "path",
                what=f"'{link.path}' is {names.MOUNT_PATH}{link.path} in Ray's pods: a path begins at the file system",
                expected=f"a path without {names.MOUNT_PATH}",
                fix=f"set {dotted_link(index)}.path: {inside}",
            )
        if link.path == "/" and "DELETED" in link.auto_import:
            yield warning(
                *path,
                "auto_import",
                what="with DELETED on '/', an object deleted in the bucket deletes its file, checkpoints included",
                expected="a link of a folder, not of '/'",
                fix="link a folder such as /data, or remove DELETED",
            )


def _apart(
    path: tuple[str | int, ...], link: DataRepository, number: int, earlier: DataRepository
) -> Iterator[Finding]:
    """Two links: their folders, and their places in S3."""
    if _overlap(link.path, earlier.path):
        yield error(
            *path,
            "path",
            what=f"'{link.path}' overlaps '{earlier.path}' of data_repositories[{number}]",
            expected="folders that lie apart: FSx links a folder with its content once",
            fix="choose a folder beside it",
        )
    nested = link.bucket == earlier.bucket and link.prefix != earlier.prefix
    if nested and (link.prefix.startswith(earlier.prefix) or earlier.prefix.startswith(link.prefix)):
        yield warning(
            *path,
            "prefix" if link.prefix else "bucket",
            what=f"{_place(link)} overlaps {_place(earlier)} of data_repositories[{number}]",
            expected="places apart: an object in two folders changes in both on export",
            fix="use prefixes beside each other",
        )
    if _place(link) == _place(earlier):
        yield error(
            *path,
            "prefix" if link.prefix else "bucket",
            what=f"{_place(link)} is already linked by data_repositories[{number}]",
            expected="one link for each place",
            fix="remove one",
        )


def dotted_link(index: int) -> str:
    """The path of a link in the file, as messages write it."""
    return f"storage.data_repositories[{index}]"


def _overlap(first_path: str, second_path: str) -> bool:
    """Whether two folders are one, or one is in the other."""
    a, b = (f"{path.rstrip('/')}/" for path in (first_path, second_path))
    return a.startswith(b) or b.startswith(a)


def _place(link: DataRepository) -> str:
    return f"s3://{link.bucket}/{link.prefix}"


@rule("storage")
def events_are_named_once(plan: CommonPlan) -> Iterator[Finding]:
    """The registry's schema requires unique events."""
    for index, link in enumerate(plan.data_repositories):
        for name in ("auto_import", "auto_export"):
            events = getattr(link, name)
            if len(set(events)) < len(events):
                yield error(
                    "storage",
                    "data_repositories",
                    index,
                    name,
                    what="names an event twice",
                    expected="each event once",
                    fix="remove one",
                )
        if not link.import_metadata and not link.auto_import and not link.auto_export:
            yield error(
                "storage",
                "data_repositories",
                index,
                what="nothing goes either way: import_metadata is false, auto_import and auto_export are empty",
                expected="an import or an export",
                fix="set one, or remove the link",
            )


@rule("storage")
def linked_file_systems_take_no_backups(plan: CommonPlan) -> Iterator[Finding]:
    """FSx backs up no file system that is linked to S3.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html
    """
    storage = plan.new_file_system
    if plan.data_repositories and storage is not None and storage.backup_retention_days:
        yield error(
            "storage",
            "backup_retention_days",
            what=f"{storage.backup_retention_days}, and FSx takes no backups of a file system with data_repositories",
            expected="0",
            fix="set 0 and keep checkpoints with auto_export, or remove the links",
        )

"""Rules about the shared file system."""

from __future__ import annotations

from collections.abc import Iterator

from core.checks.lookup import find, workers
from core.findings import Finding, error, rule, suggestion, warning
from core.plan import Plan


@rule("storage")
def capacity_is_a_step(plan: Plan) -> Iterator[Finding]:
    """PERSISTENT_2 SSD: 1200 GiB, 2400 GiB or a multiple of 2400 GiB.
    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (StorageCapacity)
    """
    capacity = plan.settings.storage.capacity_gib
    if capacity != 1200 and capacity % 2400:
        below, above = max(1200, capacity // 2400 * 2400), (capacity // 2400 + 1) * 2400
        yield error(
            "storage",
            "capacity_gib",
            message=(
                f"{capacity} is no size of FSx for Lustre; allowed: 1200, 2400 and multiples of "
                f"2400 ({below} or {above})"
            ),
        )


@rule("storage")
def mode_and_existing_agree(plan: Plan) -> Iterator[Finding]:
    """`existing` holds the file system of mode `existing` and of no other; what would make one then has no effect."""
    storage = plan.settings.storage
    if storage.mode == "existing" and storage.existing is None:
        yield error(
            "storage",
            "existing",
            message=(
                "mode 'existing' needs the file system: existing: {file_system_id, mount_name, availability_zone_id}"
            ),
        )
    if storage.mode != "existing" and storage.existing is not None:
        yield error(
            "storage",
            "mode",
            message=(
                f"'{storage.mode}' makes a file system, but storage.existing names one; set mode: existing or remove it"
            ),
        )
    if storage.mode == "existing":
        for name in (
            "capacity_gib",
            "throughput_mbs_per_tib",
            "compression",
            "lustre_version",
            "backup_retention_days",
            "availability_zone_id",
        ):
            if name in storage.model_fields_set:
                yield warning("storage", name, message="has no effect with mode 'existing'")
        if storage.on_destroy == "delete":
            yield error(
                "storage",
                "on_destroy",
                message="'delete' is refused with mode 'existing': what was made elsewhere is kept",
            )


@rule("storage", "network", "region")
def storage_zone_exists(plan: Plan) -> Iterator[Finding]:
    """The file system stands in a zone of the network (exactly one subnet)."""
    storage, zones = plan.settings.storage, plan.settings.network.availability_zone_ids
    for path, zone in (
        (("storage", "availability_zone_id"), storage.availability_zone_id),
        (
            ("storage", "existing", "availability_zone_id"),
            storage.existing.availability_zone_id if storage.existing else None,
        ),
    ):
        if zone is not None and zone not in zones:
            yield error(
                *path,
                message=(
                    f"'{zone}' is not one of network.availability_zone_ids "
                    f"({', '.join(zones)}){suggestion(zone, zones)}"
                ),
            )


@rule("storage", "ray", "hyperpod", "network", "instance_types")
def storage_is_beside_the_workers(plan: Plan) -> Iterator[Finding]:
    """Traffic between zones is charged in both directions and adds latency to every read of a training step.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance.html
    """
    if find(plan, plan.settings.ray.workers[0].instance_group) is None:
        return
    storage = plan.settings.storage
    zone = plan.storage_zone
    path = ("storage", "existing" if storage.existing else "availability_zone_id")
    for _, worker, group in workers(plan):
        if plan.zone(group) != zone:
            message = (
                f"the file system is in {zone}, the workers '{worker.name}' in "
                f"{plan.zone(group)}; traffic between zones is slow and charged"
            )
            if storage.existing:
                yield warning(*path, "availability_zone_id", message=f"{message}; move the group or the data")
            elif storage.availability_zone_id:
                yield error(*path, message=f"{message}; remove the setting, or set it to {plan.zone(group)}")


@rule("storage")
def claims_keep_their_data(plan: Plan) -> Iterator[Finding]:
    """Backups are of little use for a file system that CloudFormation does not own and destroy deletes."""
    storage = plan.settings.storage
    if storage.mode != "existing" and storage.on_destroy == "delete" and storage.backup_retention_days:
        yield warning(
            "storage",
            "backup_retention_days",
            message=(
                "automatic backups are deleted together with the file system (on_destroy "
                "'delete'); use 'retain' or take backups yourself"
            ),
        )

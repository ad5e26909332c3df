"""The shared file system and that of home folders, when the stack makes them."""

from __future__ import annotations

from constructs import Construct
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import DataRepository, HomeFileSystem, IntelligentTiering, LustreFileSystem, Ssd
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import ElasticStorage, NewHomes, StaticStorage
from hyperpod_ray.core.names import HOMES_PATH, MOUNT_PATH
from hyperpod_ray.core.requests import read_cache
from hyperpod_ray.stacks.base import EnvironmentStack


class StorageStack(EnvironmentStack):
    """An FSx for Lustre file system (modes `static`, `intelligent_tiering`), and one of FSx for OpenZFS (`homes`)."""

    file_system: LustreFileSystem | None = None
    """The shared one; None where it exists."""
    homes: HomeFileSystem | None = None
    """That of home folders; None where it exists, and without home folders."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: CommonPlan, network: Network) -> None:
        super().__init__(scope, construct_id, plan=plan, description="shared file system")
        if (settings := plan.stack_file_system) is not None:
            self.file_system = self._lustre(settings, plan, network)
            self.output("FileSystemId", self.file_system.file_system_id, f"mounted at {MOUNT_PATH}")
        if plan.new_homes is not None:
            self.homes = self._open_zfs(plan.new_homes, plan, network)
            self.output("HomesFileSystemId", self.homes.file_system_id, f"mounted at {HOMES_PATH}")

    def _lustre(self, settings: StaticStorage | ElasticStorage, plan: CommonPlan, network: Network) -> LustreFileSystem:
        return LustreFileSystem(
            self,
            "Lustre",
            storage=_storage_class(settings),
            efa=settings.efa,
            compression=settings.compression,
            backup_retention_days=settings.backup_retention_days,
            retain=settings.on_destroy == "retain",
            data_repositories=[
                DataRepository(
                    bucket=link.bucket,
                    path=link.path,
                    prefix=link.prefix,
                    import_metadata=link.import_metadata,
                    auto_import=link.auto_import,
                    auto_export=link.auto_export,
                )
                for link in plan.data_repositories
            ],
            subnet=network.node_subnets[plan.storage_zone],
            security_group=network.file_system_security_group,
        )

    def _open_zfs(self, settings: NewHomes, plan: CommonPlan, network: Network) -> HomeFileSystem:
        return HomeFileSystem(
            self,
            "Homes",
            capacity_gib=settings.capacity_gib,
            throughput_mbs=settings.throughput_mbs,
            deployment_type=settings.deployment_type,
            backup_retention_days=settings.backup_retention_days,
            retain=settings.on_destroy == "retain",
            subnet=network.node_subnets[plan.storage_zone],
            security_group=network.file_system_security_group,
        )


def _storage_class(settings: StaticStorage | ElasticStorage) -> Ssd | IntelligentTiering:
    if isinstance(settings, StaticStorage):
        return Ssd(
            capacity_gib=settings.capacity_gib,
            throughput_mbs_per_tib=settings.throughput_mbs_per_tib,
            lustre_version=settings.lustre_version,
        )
    return IntelligentTiering(
        throughput_mbs=settings.throughput_mbs,
        read_cache=read_cache(settings),
        metadata_iops=settings.metadata_iops,
    )

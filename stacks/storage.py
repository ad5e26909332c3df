"""The shared file system, when the stack makes it."""

from __future__ import annotations

from constructs import Construct
from hyperpod_ray.constructs.network import Network
from hyperpod_ray.constructs.storage import DataRepository, LustreFileSystem
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import StaticStorage
from hyperpod_ray.core.names import MOUNT_PATH
from hyperpod_ray.stacks.base import EnvironmentStack


class StorageStack(EnvironmentStack):
    """An FSx for Lustre file system (storage mode `static`)."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: CommonPlan, network: Network) -> None:
        super().__init__(scope, construct_id, plan=plan, description="shared file system")
        settings = plan.settings.storage
        assert isinstance(settings, StaticStorage)  # noqa: S101  (the stage makes this stack only then)
        self.file_system = LustreFileSystem(
            self,
            "Lustre",
            capacity_gib=settings.capacity_gib,
            throughput_mbs_per_tib=settings.throughput_mbs_per_tib,
            efa=settings.efa,
            compression=settings.compression,
            lustre_version=settings.lustre_version,
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
                for link in settings.data_repositories
            ],
            subnet=network.node_subnets[plan.storage_zone],
            security_group=network.file_system_security_group,
        )
        self.output("FileSystemId", self.file_system.file_system_id, f"mounted at {MOUNT_PATH}")

"""The shared file system, when the stack makes it."""

from __future__ import annotations

from constructs import Construct
from core.model import StaticStorage
from core.names import MOUNT_PATH
from core.plan import Plan
from hyperpod_ray.network import ClusterNetwork
from hyperpod_ray.storage import LustreFileSystem
from stacks.base import EnvironmentStack


class StorageStack(EnvironmentStack):
    """An FSx for Lustre file system made beside EKS (storage mode `static`)."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, network: ClusterNetwork) -> None:
        super().__init__(scope, construct_id, plan=plan, description="shared file system")
        settings = plan.settings.storage
        assert isinstance(settings, StaticStorage)  # noqa: S101  (the stage makes this stack only then)
        self.file_system = LustreFileSystem(
            self,
            "Lustre",
            settings=settings,
            subnet=network.node_subnets[plan.storage_zone],
            security_group=network.file_system_security_group,
        )
        self.say("FileSystemId", self.file_system.file_system.ref, f"mounted at {MOUNT_PATH}")

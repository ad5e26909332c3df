"""The figures that follow from the settings of a Slurm environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan, SettingPath
from hyperpod_ray.core.model import ExistingHomes, NewHomes, NodeGroup
from hyperpod_ray.core.slurm_model import SlurmEnvironment, SlurmGroup


@dataclass(frozen=True, kw_only=True)
class SlurmPlan(CommonPlan):
    """An environment's settings with what follows from them; its orchestrator is Slurm."""

    settings: SlurmEnvironment

    @property
    def groups(self) -> list[SlurmGroup]:
        """Instance groups of the cluster."""
        return self.settings.hyperpod.instance_groups

    def group(self, name: str) -> SlurmGroup:
        """The instance group called `name`. KeyError when there is none."""
        return {group.name: group for group in self.groups}[name]

    def of_role(self, role: str) -> list[SlurmGroup]:
        """Groups of a role, in the order of the file."""
        return [group for group in self.groups if group.slurm.role == role]

    def role(self, name: str) -> str:
        """Controller, Login or Compute; empty for a group that the file does not have."""
        return next((group.slurm.role.capitalize() for group in self.groups if group.name == name), "")

    @property
    def own_roles(self) -> list[str]:
        """Groups with `access`."""
        return [group.name for group in self.groups if group.access is not None]

    @property
    def absent_stacks(self) -> frozenset[str]:
        """Stacks of Kubernetes and Ray."""
        return frozenset({names.EKS_STACK, names.MIRROR_STACK, names.PLATFORM_STACK, names.RAY_STACK})

    @property
    def small_subnets(self) -> str | None:
        """Those of interface endpoints: there is no control plane, and NAT gateways need none."""
        return "Endpoints" if self.settings.network.closed else None

    @property
    def event_stack(self) -> str:
        """The stack that creates the log group of events."""
        return names.HYPERPOD_STACK

    @property
    def kms_keys(self) -> list[tuple[SettingPath, str]]:
        """KMS keys that the file names, by their settings."""
        database = self.settings.hyperpod.accounting_database
        listed: list[tuple[SettingPath, str]] = [
            (("hyperpod", "instance_groups", index, "access", "kms_key_arns", position), arn)
            for index, group in enumerate(self.groups)
            for position, arn in enumerate(group.access.kms_key_arns if group.access else [])
        ]
        if database is not None and database.kms_key_arn is not None:
            listed.append((("hyperpod", "accounting_database", "kms_key_arn"), database.kms_key_arn))
        return [*super().kms_keys, *listed]

    @property
    def buckets(self) -> list[tuple[SettingPath, str]]:
        """S3 buckets that the file names, by their settings."""
        granted: list[tuple[SettingPath, str]] = [
            (("hyperpod", "instance_groups", index, "access", "s3", position, "bucket"), grant.bucket)
            for index, group in enumerate(self.groups)
            for position, grant in enumerate(group.access.s3 if group.access else [])
        ]
        return [*super().buckets, *granted]

    @property
    def orchestrator_request(self) -> dict[str, Any]:
        """Member `Orchestrator` of a CreateCluster request."""
        hyperpod = self.settings.hyperpod
        slurm: dict[str, Any] = {"SlurmConfigStrategy": hyperpod.config_strategy}
        if (database := hyperpod.accounting_database) is not None:
            optional = {"Port": database.port, "Name": database.name}
            slurm["AccountingDatabase"] = {"Endpoint": database.endpoint, "SecretArn": database.secret_arn} | {
                member: value for member, value in optional.items() if value is not None
            }
        return {"Slurm": slurm}

    def scheduler_request(self, group: NodeGroup) -> dict[str, Any]:
        """Role and partitions of a group in Slurm."""
        slurm = self.group(group.name).slurm
        config: dict[str, Any] = {"NodeType": slurm.role.capitalize()}
        return {"SlurmConfig": config | ({"PartitionNames": slurm.partitions} if slurm.partitions else {})}

    @property
    def controller(self) -> SlurmGroup:
        """The group of the controller; a file that was loaded without errors has exactly one."""
        return self.of_role("controller")[0]

    @property
    def login(self) -> list[SlurmGroup]:
        """Groups of login nodes."""
        return self.of_role("login")

    @property
    def compute(self) -> list[SlurmGroup]:
        """Groups whose nodes run jobs."""
        return self.of_role("compute")

    @property
    def training_groups(self) -> list[SlurmGroup]:
        """Groups whose nodes run jobs, or all while the file has none."""
        return self.compute or self.groups

    @property
    def partitions(self) -> dict[str, list[SlurmGroup]]:
        """Groups of each Slurm partition."""
        by_partition: dict[str, list[SlurmGroup]] = {}
        for group in self.compute:
            for name in group.slurm.partitions:
                by_partition.setdefault(name, []).append(group)
        return by_partition

    def addresses(self, group: NodeGroup) -> int:
        """IP addresses that one node takes: one for each of its network cards, since there are no pods.

        EFA-only interfaces have none, beside the first.
        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html
        """
        return 1 if group.network_interface == "efa-only" else max(1, self.type_spec(group.type).efa)

    @property
    def new_homes(self) -> NewHomes | None:
        """The file system of home folders that the stack creates; None without one, and where one exists."""
        homes = self.settings.homes
        return homes if isinstance(homes, NewHomes) else None

    @property
    def existing_homes(self) -> str | None:
        """`FileSystemId` of the home folders' file system that the file names; None without one."""
        homes = self.settings.homes
        return homes.existing.file_system_id if isinstance(homes, ExistingHomes) else None

    @property
    def uploads_scripts(self) -> bool:
        """Whether the stacks upload scripts that run on nodes."""
        return self.script is not None or self.settings.homes is not None

    @property
    def script(self) -> tuple[str, str] | None:
        """Folder and file name of the script that extends AWS's set-up; None without one."""
        path = self.settings.hyperpod.on_init_complete
        return (path.rpartition("/")[0], path.rpartition("/")[2]) if path else None

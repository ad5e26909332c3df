"""The figures that follow from the settings of a Slurm environment."""

from __future__ import annotations

from dataclasses import dataclass

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.model import NodeGroup
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
        found: dict[str, list[SlurmGroup]] = {}
        for group in self.compute:
            for name in group.slurm.partitions:
                found.setdefault(name, []).append(group)
        return found

    def addresses(self, group: NodeGroup) -> int:
        """IP addresses that one node takes: one for each of its network cards, since there are no pods.

        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html
        """
        return max(1, self.type_spec(group.type).efa)

    @property
    def uploads_scripts(self) -> bool:
        """Whether the stacks upload scripts that run on nodes."""
        return self.script is not None

    @property
    def script(self) -> tuple[str, str] | None:
        """Folder and file name of the script that extends AWS's set-up; None without one."""
        path = self.settings.hyperpod.on_init_complete
        return (path.rpartition("/")[0], path.rpartition("/")[2]) if path else None

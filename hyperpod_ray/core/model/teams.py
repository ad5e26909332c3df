"""Sections `teams` and `task_governance`: who shares the cluster, and how."""

from typing import Annotated, Literal

from pydantic import Field

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.ray import RayAccess
from hyperpod_ray.core.model.words import InstanceTypeName, RoleArn, Settings

MigProfile = Literal[
    "mig-1g.5gb", "mig-1g.10gb", "mig-1g.18gb", "mig-1g.20gb", "mig-1g.23gb", "mig-1g.35gb", "mig-1g.45gb",
    "mig-1g.47gb", "mig-2g.10gb", "mig-2g.20gb", "mig-2g.35gb", "mig-2g.45gb", "mig-2g.47gb", "mig-3g.20gb",
    "mig-3g.40gb", "mig-3g.71gb", "mig-3g.90gb", "mig-3g.93gb", "mig-4g.20gb", "mig-4g.40gb", "mig-4g.71gb",
    "mig-4g.90gb", "mig-4g.93gb", "mig-7g.40gb", "mig-7g.80gb", "mig-7g.141gb", "mig-7g.180gb", "mig-7g.186gb",
]  # fmt: skip
"""`MIGProfileType` of the SageMaker API."""


class Partition(Settings):
    """Partitions of GPUs (`AcceleratorPartition`): NVIDIA Multi-Instance GPU (MIG)."""

    profile: MigProfile
    """`Type`: pods request it as `nvidia.com/PROFILE`."""
    count: Annotated[int, Field(ge=0, le=100_000)]
    """`Count`: how many of them."""


class TeamQuota(Settings):
    """What one team has of one instance type (`ComputeQuotaResources`): instances, or parts of them."""

    type: InstanceTypeName
    """`InstanceType`, with its `ml.` prefix: that of an instance group."""
    instances: Annotated[int, Field(ge=0, le=6758)] | None = None
    """Whole instances (`Count`). Alone: neither of the others can stand beside it."""
    accelerators: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """GPUs or Neuron devices (`Accelerators`). SageMaker adds vCPUs and memory in proportion."""
    vcpus: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    """vCPUs (`VCpu`): for the heads of a team's jobs, which need no whole instance."""
    memory_gib: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    """Memory (`MemoryInGiB`). Default: in proportion to the others."""
    partition: Partition | None = None
    """Partitions of GPUs, beside `vcpus` and `memory_gib`, in place of `accelerators`. The environment's Ray workers
    request whole GPUs: partitions are for RayJobs that a team writes itself. Default: none."""


class Team(Settings):
    """A team (`AWS::SageMaker::ComputeQuota`): its share, its namespace `hyperpod-ns-NAME` and its queue there.

    Jobs of the team are RayClusters of their own in that namespace: `submit --team NAME`.
    """

    name: Annotated[str, shapes.TEAM.field()]
    """`TeamName`: create-only; another name is another team, with a namespace of its own."""
    quota: Annotated[list[TeamQuota], Field(min_length=1, max_length=15)]
    """What the team is sure of, by instance type. It needs the head's type too: each job has a head."""
    fair_share_weight: Annotated[int, Field(ge=0, le=100)] = 50
    """`FairShareWeight`: of what is idle, a team with twice the weight gets twice as much."""
    sharing: Literal["lend-and-borrow", "lend", "none"] = "lend-and-borrow"
    """`Strategy`: whether others use what the team leaves idle, and the team what others leave."""
    borrow_limit_percent: Annotated[int, Field(ge=1, le=500)] = 50
    """`BorrowLimit`: how much the team borrows at most, in percent of its own quota."""
    borrow_limits: Annotated[list[TeamQuota], Field(max_length=15)] = []
    """`AbsoluteBorrowLimits`: how much the team borrows at most, in amounts, in place of `borrow_limit_percent`. Name
    each type of `quota` once. Default: none; the percentage holds."""
    preempt_lower_priority: bool = True
    """`PreemptTeamTasks`: a job with a higher priority takes the place of one of the same team with a lower."""
    role_arns: list[RoleArn] = []
    """IAM roles of the team's members: each becomes a Ray user of the team's namespace, and of nothing else."""
    uid: Annotated[int, Field(ge=2000, le=1_000_000_000)] | None = None
    """User and group number of the team's pods and files. Admission refuses a pod of the team with another one.
    Default: a number between 20000 and 59999 that follows from the name."""
    access: RayAccess | None = None
    """What the team's pods may do in AWS, with a role of their own. Default: of `ray.access.s3`, what is for reading;
    below each prefix for writing, `teams/NAME/`; the same keys; no secrets and no MLflow server. Without `ray.access`:
    nothing."""
    moves: list[Annotated[str, shapes.TEAM_FOLDER.field(max_length=200)]] = []
    """Folders of the file system that become the team's: `runs/first` moves to `teams/NAME/runs/first`, which is
    `/fsx/runs/first` in the team's pods, with the team as owner. They move before the team gets its folder, and never
    later. Default: none."""


class PriorityClass(Settings):
    """A priority of jobs (`PriorityClasses`). Jobs name it as `priority`."""

    name: Annotated[str, shapes.TEAM.field()]
    """Its name. In Kubernetes the WorkloadPriorityClass is called `NAME-priority`."""
    weight: Annotated[int, Field(ge=0, le=100)]
    """More goes first, and takes the place of less."""


class TaskGovernance(Settings):
    """How teams share what is idle (`AWS::SageMaker::ClusterSchedulerConfig`).

    The Platform stack installs the add-on `amazon-sagemaker-hyperpod-taskgovernance`, which is Kueue.
    """

    priority_classes: Annotated[list[PriorityClass], Field(max_length=10)] = []
    """Priorities that jobs can name. Default: none; jobs of a queue then start in their order."""
    fair_share: bool = True
    """`FairShare`: idle instances go to teams by weight. Without it, to who asks first."""
    share_idle: bool = True
    """`IdleResourceSharing`: instances that no quota covers go to teams that borrow."""

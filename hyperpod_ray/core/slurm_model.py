"""Settings of an environment whose orchestrator is Slurm; what both orchestrators have is in `hyperpod_ray.core.model`.

What belongs to EKS has no place here: Kubernetes labels, charts, Ray clusters, claims of file systems.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model import (
    BuiltImage,
    ClusterSettings,
    CommonEnvironment,
    ElasticStorage,
    ExistingImage,
    ExistingNodeNetwork,
    ExistingStorage,
    Homes,
    NewNetwork,
    NodeGroup,
    S3Access,
    Settings,
    StaticStorage,
    kind_of,
)

PartitionName = Annotated[str, shapes.PARTITION.field(max_length=1024)]


class SlurmRole(Settings):
    """What Slurm does with a group's nodes (`SlurmConfig`)."""

    role: Literal["controller", "login", "compute"]
    """`NodeType`. `controller` runs slurmctld, `login` is where people work, `compute` runs jobs."""
    partitions: Annotated[list[PartitionName], Field(max_length=1)] = []
    """`PartitionNames`: the Slurm partition of a `compute` group, exactly one; several groups may share it. Other roles
    have none."""


class SlurmAccess(Settings):
    """What jobs and people on a group's nodes may do in AWS, by a role of the group's own.

    A job has the role of its node: whoever may use the group's partition has these rights. Slurm decides who that is,
    by `AllowAccounts` or `AllowGroups` of the partition.
    """

    s3: Annotated[list[S3Access], Field(max_length=20)] = []
    """Buckets and prefixes."""
    kms_key_arns: Annotated[list[Annotated[str, shapes.KEY_ARN.field()]], Field(max_length=20)] = []
    """Keys that encrypt those buckets (SSE-KMS) and secrets, for use through S3 and Secrets Manager. Default: none."""
    secret_arns: Annotated[list[Annotated[str, shapes.SECRET_ARN.field()]], Field(max_length=20)] = []
    """Secrets in AWS Secrets Manager to read. Default: none."""


class SlurmGroup(NodeGroup):
    """One HyperPod instance group of a Slurm cluster."""

    slurm: SlurmRole
    """Its part in Slurm."""
    access: SlurmAccess | None = None
    """What its nodes may do in AWS, with a role of the group's own. HyperPod keeps the role of a group that exists:
    give the group another name with it. Default: nothing of yours; groups without it share a role."""


class AccountingDatabase(Settings):
    """A MySQL or MariaDB database that keeps Slurm's accounting (`AccountingDatabase`), in place of the controller's.

    You create it, and let the nodes' security group reach it.
    """

    endpoint: Annotated[str, shapes.HOST.field(max_length=253)]
    """Host name of the database."""
    secret_arn: Annotated[str, shapes.SECRET_ARN.field(max_length=2048)]
    """Secret in AWS Secrets Manager with its user name and password."""
    kms_key_arn: Annotated[str, shapes.KEY_ARN.field()] | None = None
    """Key of the secret: the nodes' role may decrypt with it, through Secrets Manager alone. Its key policy must let
    the account's roles use it. Default: the secret has the key `aws/secretsmanager`, which needs no permission."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port. Default: the service's, 3306 of MySQL."""
    name: Annotated[str, shapes.DATABASE.field()] | None = None
    """Name of the database. Default: the service's."""
    separate_role: bool = True
    """Whether groups of login and compute nodes have a role of their own, which cannot read the secret. AWS does not
    document whether the role of an existing group can change. Where the groups have one role, false leaves it as it
    is until each group has a new name."""


class SlurmCluster(ClusterSettings):
    """The HyperPod cluster (`AWS::SageMaker::Cluster`), orchestrated by Slurm.

    AWS's image starts Slurm, munge, Docker, Enroot and Pyxis by itself: no lifecycle script is needed.
    """

    instance_groups: Annotated[list[SlurmGroup], Field(min_length=2, max_length=100)]
    """Two to a hundred groups: exactly one controller, and one or more of compute."""
    config_strategy: Literal["Managed", "Overwrite", "Merge"] = "Managed"
    """`SlurmConfigStrategy`: who writes the partitions of slurm.conf. `Managed`: HyperPod, and an update stops where
    somebody changed them by hand. `Overwrite`: HyperPod, and changes by hand are lost. `Merge`: both."""
    accounting_database: AccountingDatabase | None = None
    """Accounting in a database of yours. Needs `Continuous`. Default: on the controller, and lost with it."""
    on_init_complete: Annotated[str, shapes.SCRIPT.field()] | None = None
    """Script that runs on each node after AWS's set-up (`OnInitComplete`), relative to the project. Its folder is
    uploaded. Default: none."""


class SlurmEnvironment(CommonEnvironment):
    """One environment on Slurm: one file, one CDK Stage named like the file."""

    kind: ClassVar = "slurm"

    orchestrator: Literal["slurm"]
    """What runs the nodes' work: `slurm`."""
    network: Annotated[
        Annotated[NewNetwork, Tag("new")] | Annotated[ExistingNodeNetwork, Tag("existing")], kind_of("new")
    ]
    """The VPC."""
    hyperpod: SlurmCluster
    """The HyperPod cluster."""
    storage: Annotated[
        Annotated[StaticStorage, Tag("static")]
        | Annotated[ElasticStorage, Tag("intelligent_tiering")]
        | Annotated[ExistingStorage, Tag("existing")],
        kind_of("static", modes=("static", "intelligent_tiering")),
    ] = StaticStorage.defaults()
    """The shared file system, mounted at /fsx on every node by HyperPod."""
    homes: Homes | None = None
    """Home folders that all nodes share, on FSx for OpenZFS: many small files, such as environments of Python, are
    slow on Lustre. HyperPod mounts it at /homes, and a script on each node makes /homes/ubuntu the home of the AMI's
    user, with the files that it had, its keys included. What `useradd` makes later is there too. Default: none; home
    folders are on each node."""
    image: (
        Annotated[
            Annotated[BuiltImage, Tag("built")] | Annotated[ExistingImage, Tag("existing")],
            kind_of("built", key="uri"),
        ]
        | None
    ) = None
    """A container image for Enroot and Pyxis. Default: none; jobs run in the nodes' own environment."""

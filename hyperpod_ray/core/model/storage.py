"""Section `storage`: the shared file system and its links to S3."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import AvailabilityZoneId, Settings, kind_of
from hyperpod_ray_rules import fsx


class ExistingFileSystem(Settings):
    """An FSx for Lustre file system that exists."""

    file_system_id: Annotated[str, shapes.FILE_SYSTEM_ID.field()]
    """`FileSystemId`."""
    mount_name: Annotated[str, shapes.MOUNT_NAME.field()]
    """`LustreMountName`."""
    availability_zone_id: AvailabilityZoneId
    """Where it is: traffic between zones is slow and charged."""


FileEvent = Literal["NEW", "CHANGED", "DELETED"]


class DataRepository(Settings):
    """A link between a folder of the file system and a bucket, or what is below a prefix of it.

    Creates `AWS::FSx::DataRepositoryAssociation`. FSx itself reads and writes the bucket: pods and nodes need no right
    to it. Files appear with their names at once and get their content at the first read.
    """

    bucket: Annotated[str, shapes.BUCKET.field()]
    """Name of the bucket. It exists before the deploy."""
    prefix: Annotated[str, shapes.PREFIX.field(max_length=900)] = ""
    """Prefix that ends with `/`. Default: the whole bucket."""
    path: Annotated[str, shapes.FILE_SYSTEM_PATH.field(max_length=200)]
    """Folder of the file system (`FileSystemPath`): `/data/images` is `/fsx/data/images` in Ray's pods."""
    import_metadata: bool = True
    """`BatchImportMetaDataOnCreate`: list the objects that are there when the link is created. A later change replaces
    the link, and the deploy is refused."""
    auto_import: Annotated[list[FileEvent], Field(max_length=3)] = ["NEW", "CHANGED", "DELETED"]
    """`AutoImportPolicy`: which events in the bucket change the folder. Needs a bucket in the environment's region."""
    auto_export: Annotated[list[FileEvent], Field(max_length=3)] = []
    """`AutoExportPolicy`: which events in the folder change the bucket. Default: none. Ray's pods may write to folders
    that are exported, and read the others."""


class NewFileSystem(Settings):
    """What every file system is created with, by the stack or by a claim (FSx for Lustre, PERSISTENT_2)."""

    compression: Literal["LZ4", "NONE"] = "LZ4"
    """`DataCompressionType`."""
    backup_retention_days: Annotated[int, Field(ge=0, le=90)] = 0
    """`AutomaticBackupRetentionDays`; 0 makes none."""
    availability_zone_id: AvailabilityZoneId | None = None
    """Zone of the file system. Default: the zone of the Ray workers."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the data: keep the file system, or delete it permanently."""


class SsdSize(Settings):
    """What an SSD file system has before all others on the settings' page."""

    capacity_gib: Annotated[int, Field(ge=1200)] = 1200
    """1200, 2400 or a multiple of 2400 GiB."""
    throughput_mbs_per_tib: Literal[125, 250, 500, 1000] = 250
    """`PerUnitStorageThroughput`, MB/s per TiB. With the size it bounds how fast a checkpoint is written."""
    lustre_version: Literal["2.12", "2.15"] = "2.15"
    """`FileSystemTypeVersion`."""


class SsdFileSystem(NewFileSystem, SsdSize):
    """A file system of a size that you choose, on SSD: its rate follows from the size."""


class StaticStorage(SsdFileSystem):
    """A file system that the Storage stack creates, beside EKS (the default)."""

    kind: ClassVar = "static"

    mode: Literal["static"] = "static"
    """`static`: the stack creates the file system. `dynamic`: the CSI driver creates it from a claim.
    `intelligent_tiering`: the stack creates one without a size."""
    efa: bool = False
    """`EfaEnabled`: a node with EFA and Nitro v4 or later may exchange 700 Gb/s with the file system instead of 100.
    The lifecycle script configures Lustre for it where the AMI has AWS's set-up; its log says whether. Create-only: a
    change makes a new, empty file system. Sizes are multiples of 38400, 19200, 9600 or 4800 GiB at 125, 250, 500 or
    1000 MB/s per TiB."""
    data_repositories: Annotated[list[DataRepository], Field(max_length=8)] = []
    """Links to S3. A file system with a link takes no backups (`backup_retention_days` must be 0)."""


class ElasticRate(Settings):
    """What an elastic file system has before all others on the settings' page."""

    throughput_mbs: Annotated[int, Field(ge=fsx.ELASTIC_STEP_MBS, le=fsx.ELASTIC_MOST_MBS)] = fsx.ELASTIC_STEP_MBS
    """`ThroughputCapacity`, MB/s: 4000 or a multiple of 4000, of all clients together. It only grows. It bounds how
    fast a checkpoint is written. Each 4000 holds up to 512 TiB."""
    read_cache_gib: Annotated[int, Field(ge=0)] | None = None
    """SSD read cache (`DataReadCacheConfiguration`): what it holds is read in under a millisecond, and at no charge for
    requests. 0: none. For each 4000 MB/s you may choose 32 to 131072 GiB. Default: 20000 GiB for each 4000 MB/s
    (`PROPORTIONAL_TO_THROUGHPUT_CAPACITY`)."""
    metadata_iops: Literal[6000, 12000] = 6000
    """`MetadataConfiguration`: operations per second on names and folders. It only grows."""


class ElasticStorage(NewFileSystem, ElasticRate):
    """A file system of FSx Intelligent-Tiering that the Storage stack creates.

    It has no size: you pay for what is stored, for the throughput and for the read cache. What nobody reads for 30 or
    90 days costs less. Reads that the cache does not hold begin after tens of milliseconds, and each request costs. It
    has Lustre 2.15 and no links to S3.
    """

    kind: ClassVar = "intelligent_tiering"

    mode: Literal["intelligent_tiering"]
    """`intelligent_tiering`: the stack creates a file system without a size."""
    efa: bool = False
    """`EfaEnabled`: as of a static file system. Create-only: a change makes a new, empty file system."""


class DynamicStorage(SsdFileSystem):
    """A file system that the FSx CSI driver creates from a claim, as in the AWS article.

    It takes ten minutes more, and CloudFormation does not own it.
    """

    kind: ClassVar = "dynamic"

    mode: Literal["dynamic"]
    """`static`: the stack creates the file system. `dynamic`: the CSI driver creates it from a claim."""


class ExistingStorage(Settings):
    """A file system that you name. It is mounted, and never changed or deleted."""

    kind: ClassVar = "existing"

    existing: ExistingFileSystem
    """The file system."""


Storage = Annotated[
    Annotated[StaticStorage, Tag("static")]
    | Annotated[ElasticStorage, Tag("intelligent_tiering")]
    | Annotated[DynamicStorage, Tag("dynamic")]
    | Annotated[ExistingStorage, Tag("existing")],
    kind_of("static", modes=("static", "intelligent_tiering", "dynamic")),
]
"""The shared file system for code, data and checkpoints, mounted at /fsx."""


OpenZfsDeployment = Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"]


class NewHomes(Settings):
    """A file system for home folders that the Storage stack creates (FSx for OpenZFS, SSD), beside the shared one."""

    kind: ClassVar = "new"

    capacity_gib: Annotated[int, Field(ge=fsx.OPENZFS_GIB[0], le=fsx.OPENZFS_GIB[1])] = 256
    """`StorageCapacity`, GiB. It only grows, by a tenth or more."""
    throughput_mbs: Annotated[int, Field(ge=64, le=10240)] = 160
    """`ThroughputCapacity`, MB/s. The deployment type says which values there are."""
    deployment_type: OpenZfsDeployment = "SINGLE_AZ_HA_2"
    """`DeploymentType`. `HA`: a second server stands by in the zone. Not each Region has each. Create-only: a change
    makes a new, empty file system."""
    backup_retention_days: Annotated[int, Field(ge=0, le=90)] = 7
    """`AutomaticBackupRetentionDays`; 0 makes none."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the home folders: keep the file system, or delete it. FSx takes a last backup when
    it deletes one, and the backup costs."""


class ExistingHomeFileSystem(Settings):
    """An FSx for OpenZFS file system that exists."""

    file_system_id: Annotated[str, shapes.FILE_SYSTEM_ID.field()]
    """`FileSystemId`. Its root volume's export has `no_root_squash`: root of a node makes the home folders."""


class ExistingHomes(Settings):
    """A file system for home folders that you name. It is mounted, and never changed or deleted."""

    kind: ClassVar = "existing"

    existing: ExistingHomeFileSystem
    """The file system."""


Homes = Annotated[Annotated[NewHomes, Tag("new")] | Annotated[ExistingHomes, Tag("existing")], kind_of("new", modes=())]
"""Home folders on FSx for OpenZFS, mounted at /homes."""

"""What Amazon FSx for Lustre and for OpenZFS refuse: sizes, throughputs, backups.

Source: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray_rules.refusal import Json, Refusal

EFA_STEP = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
"""GiB: smallest size and step of an EFA-enabled file system, by MB/s per TiB.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html
"""
EFA_CONNECTIONS = 1024
"""EFA connections of one file system: the EFA interfaces that its clients' Lustre uses, of all nodes together.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
"""
EFA_NOT_FOR_LUSTRE = ("c5n", "g4dn", "g5", "i3en", "p3dn", "p4d", "p4de", "trn2", "trn2u")
"""Families with EFA whose Lustre cannot use it: those of Nitro v3, and trn2.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/configure-efa-clients.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html (instance types by Nitro version)
"""
EFA_EIGHT = ("p5", "p5e", "p5en", "p6-b200")
"""Families of which AWS's set-up of the Lustre client takes eight interfaces; of others two, or their only one."""
PER_TIB = {"PERSISTENT_1": (50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
"""`PerUnitStorageThroughput` of SSD, MB/s per TiB, by deployment type."""

INTELLIGENT_TIERING = "INTELLIGENT_TIERING"
"""`StorageType` of a file system that grows and shrinks with its data, and whose rate is bought apart from it.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html#lustre-storage-classes
"""
ELASTIC_STEP_MBS = 4000
"""MB/s of one file server: `ThroughputCapacity` is a multiple of it.
https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
"""
ELASTIC_MOST_MBS = 2_000_000
"""Largest `ThroughputCapacity`."""
ELASTIC_SERVER_GIB = 512 * 1024
"""What one file server holds at most.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html#lustre-ip-addresses
"""
ELASTIC_IOPS = (6000, 12000)
"""Metadata IOPS: provisioned by you, as `AUTOMATIC` is for SSD alone.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-metadata-performance.html
"""
READ_CACHE_GIB = (32, 131_072)
"""Smallest and largest SSD read cache, for each `ELASTIC_STEP_MBS`.
https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreReadCacheConfiguration.html
"""
READ_CACHE_GIB_PER_MBS = 5
"""The read cache that is in proportion to the throughput.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-ssd-read-cache.html
"""
READ_CACHE_CHANGES_BY = 0.1
"""Share by which the size of a read cache changes at least. The same page."""


_FIRST_GENERATION = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
_SECOND_GENERATION = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
OPENZFS_THROUGHPUT = {
    "SINGLE_AZ_1": _FIRST_GENERATION,
    "SINGLE_AZ_HA_1": _FIRST_GENERATION,
    "SINGLE_AZ_2": _SECOND_GENERATION,
    "SINGLE_AZ_HA_2": _SECOND_GENERATION,
    "MULTI_AZ_1": _SECOND_GENERATION,
}
"""`ThroughputCapacity` of OpenZFS, MB/s, by deployment type.
https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemOpenZFSConfiguration.html
"""
OPENZFS_GIB = (64, 524_288)
"""Smallest and largest size of OpenZFS on SSD."""
OPENZFS_GROWS_BY = 1.1
"""What the size of OpenZFS is multiplied by at least, when it grows.
https://docs.aws.amazon.com/fsx/latest/APIReference/API_UpdateFileSystem.html (StorageCapacity)
"""


def create_file_system(request: Json) -> Iterator[Refusal]:
    """Every refusal of a CreateFileSystem request of type LUSTRE or OPENZFS."""
    if request.get("FileSystemType") == "OPENZFS":
        yield from _create_openzfs(request)
        return
    if len(subnets := request.get("SubnetIds", [])) != 1:
        message = f"Lustre takes exactly one subnet, got {len(subnets)}"
        yield Refusal(rule="one_subnet", message=message, member="SubnetIds")
    if request.get("StorageType") == INTELLIGENT_TIERING:
        yield from _create_elastic(request)
        return
    lustre = request.get("LustreConfiguration") or {}
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    for member in ("ThroughputCapacity", "DataReadCacheConfiguration"):
        if lustre.get(member):
            yield Refusal(
                rule="storage_type", message=f"{member} needs StorageType {INTELLIGENT_TIERING}", member=member
            )
    allowed, throughput = PER_TIB.get(deployment), lustre.get("PerUnitStorageThroughput")
    if allowed and throughput not in allowed:
        message = f"PerUnitStorageThroughput of {deployment} is one of {list(allowed)}, got {throughput}"
        yield Refusal(rule="throughput", message=message, member="PerUnitStorageThroughput")
    if lustre.get("AutomaticBackupRetentionDays") and deployment.startswith("SCRATCH"):
        message = f"{deployment} takes no automatic backups"
        yield Refusal(rule="backups", message=message, member="AutomaticBackupRetentionDays")
    version = request.get("FileSystemTypeVersion", "2.15")
    if lustre.get("MetadataConfiguration") and version != "2.15":
        message = f"a metadata configuration needs Lustre 2.15, got {version}"
        yield Refusal(rule="metadata", message=message, member="FileSystemTypeVersion")
    efa = bool(lustre.get("EfaEnabled"))
    if efa and deployment != "PERSISTENT_2":
        yield Refusal(rule="efa", message=f"EFA needs PERSISTENT_2, got {deployment}", member="EfaEnabled")
    if efa and not lustre.get("MetadataConfiguration"):
        yield Refusal(rule="efa", message="EFA needs a metadata configuration", member="EfaEnabled")
    yield from capacity(
        request.get("StorageCapacity"), deployment=deployment, efa_throughput=throughput if efa else None
    )


def _create_elastic(request: Json) -> Iterator[Refusal]:
    """Intelligent-Tiering: PERSISTENT_2 and Lustre 2.15, a rate in place of a size, a read cache and metadata IOPS."""
    lustre = request.get("LustreConfiguration") or {}
    if (deployment := lustre.get("DeploymentType", "SCRATCH_1")) != "PERSISTENT_2":
        message = f"Intelligent-Tiering needs PERSISTENT_2, got {deployment}"
        yield Refusal(rule="elastic", message=message, member="DeploymentType")
    if (version := request.get("FileSystemTypeVersion", "2.15")) != "2.15":
        message = f"Intelligent-Tiering needs Lustre 2.15, got {version}"
        yield Refusal(rule="elastic", message=message, member="FileSystemTypeVersion")
    for member, container in (("StorageCapacity", request), ("PerUnitStorageThroughput", lustre)):
        if container.get(member):
            message = f"Intelligent-Tiering has no {member}, got {container[member]}"
            yield Refusal(rule="elastic", message=message, member=member)
    metadata = lustre.get("MetadataConfiguration") or {}
    mode, iops = metadata.get("Mode"), metadata.get("Iops")
    if mode != "USER_PROVISIONED" or iops not in ELASTIC_IOPS:
        expected = f"USER_PROVISIONED with one of {list(ELASTIC_IOPS)} IOPS"
        message = f"MetadataConfiguration of Intelligent-Tiering is {expected}, got {mode} with {iops}"
        yield Refusal(rule="metadata", message=message, member="MetadataConfiguration")
    throughput = lustre.get("ThroughputCapacity")
    yield from throughput_capacity(throughput)
    yield from _read_cache(lustre.get("DataReadCacheConfiguration") or {}, throughput=throughput)


def throughput_capacity(mbs: int | None) -> Iterator[Refusal]:
    """4000 MB/s or a multiple of it, up to 2,000,000."""
    if mbs is None or not ELASTIC_STEP_MBS <= mbs <= ELASTIC_MOST_MBS or mbs % ELASTIC_STEP_MBS:
        message = f"ThroughputCapacity is a multiple of {ELASTIC_STEP_MBS} up to {ELASTIC_MOST_MBS} MB/s, got {mbs}"
        yield Refusal(rule="throughput", message=message, member="ThroughputCapacity")


def read_cache_limits(mbs: int) -> tuple[int, int]:
    """Smallest and largest read cache that you provision at that throughput, GiB."""
    smallest, largest = READ_CACHE_GIB
    servers = max(1, mbs // ELASTIC_STEP_MBS)
    return smallest * servers, largest * servers


def read_cache_gib(lustre: Json) -> int:
    """GiB of the read cache of an elastic file system: none, as provisioned, or in proportion to the throughput."""
    cache = lustre.get("DataReadCacheConfiguration") or {}
    match cache.get("SizingMode"):
        case "USER_PROVISIONED":
            return int(cache.get("SizeGiB") or 0)
        case "PROPORTIONAL_TO_THROUGHPUT_CAPACITY":
            return READ_CACHE_GIB_PER_MBS * int(lustre.get("ThroughputCapacity") or 0)
    return 0


def _read_cache(cache: Json, *, throughput: int | None) -> Iterator[Refusal]:
    mode, gib = cache.get("SizingMode"), cache.get("SizeGiB")
    if mode is None:
        message = "DataReadCacheConfiguration with a SizingMode is needed with Intelligent-Tiering"
        yield Refusal(rule="read_cache", message=message, member="DataReadCacheConfiguration")
    elif mode != "USER_PROVISIONED":
        if gib:
            message = f"SizeGiB is of the SizingMode USER_PROVISIONED, got {gib} with {mode}"
            yield Refusal(rule="read_cache", message=message, member="SizeGiB")
    else:
        smallest, largest = read_cache_limits(throughput or ELASTIC_STEP_MBS)
        if gib is None or not smallest <= gib <= largest:
            message = f"SizeGiB of a read cache at {throughput} MB/s is from {smallest} to {largest}, got {gib}"
            yield Refusal(rule="read_cache", message=message, member="SizeGiB")


def update_elastic(before: Json, after: Json) -> Iterator[Refusal]:
    """Throughput and metadata IOPS only grow, and a read cache changes by a tenth or more.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html

    Args:
        before: The file system, as CreateFileSystem has it.
        after: The same with what changes.
    """
    had, gets = (side.get("LustreConfiguration") or {} for side in (before, after))
    if (less := gets.get("ThroughputCapacity") or 0) < (more := had.get("ThroughputCapacity") or 0):
        message = f"ThroughputCapacity can only grow: {more} MB/s are there, got {less}"
        yield Refusal(rule="only_grows", message=message, member="ThroughputCapacity")
    fewer, most = ((side.get("MetadataConfiguration") or {}).get("Iops") or 0 for side in (gets, had))
    if fewer < most:
        message = f"metadata IOPS can only grow: {most} are there, got {fewer}"
        yield Refusal(rule="only_grows", message=message, member="MetadataConfiguration")
    caches = [side.get("DataReadCacheConfiguration") or {} for side in (had, gets)]
    if all(cache.get("SizingMode") == "USER_PROVISIONED" for cache in caches):
        size, next_size = (int(cache.get("SizeGiB") or 0) for cache in caches)
        if 0 < abs(next_size - size) < size * READ_CACHE_CHANGES_BY:
            message = f"a read cache changes by a tenth or more: {size} GiB is there, got {next_size}"
            yield Refusal(rule="read_cache", message=message, member="SizeGiB")
    yield from _create_elastic(after)


def _create_openzfs(request: Json) -> Iterator[Refusal]:
    configuration = request.get("OpenZFSConfiguration") or {}
    deployment, throughput = configuration.get("DeploymentType"), configuration.get("ThroughputCapacity")
    smallest, largest = OPENZFS_GIB
    gib = request.get("StorageCapacity")
    if deployment not in OPENZFS_THROUGHPUT:
        message = f"DeploymentType of OpenZFS is one of {sorted(OPENZFS_THROUGHPUT)}, got {deployment}"
        yield Refusal(rule="deployment", message=message, member="DeploymentType")
    elif throughput not in OPENZFS_THROUGHPUT[deployment]:
        message = (
            f"ThroughputCapacity of {deployment} is one of {list(OPENZFS_THROUGHPUT[deployment])}, got {throughput}"
        )
        yield Refusal(rule="throughput", message=message, member="ThroughputCapacity")
    if gib is None or not smallest <= gib <= largest:
        message = f"StorageCapacity of OpenZFS is from {smallest} to {largest} GiB, got {gib}"
        yield Refusal(rule="capacity", message=message, member="StorageCapacity")
    subnets = len(request.get("SubnetIds", []))
    if subnets != (2 if deployment == "MULTI_AZ_1" else 1):
        message = f"{deployment} takes {'two subnets' if deployment == 'MULTI_AZ_1' else 'one subnet'}, got {subnets}"
        yield Refusal(rule="one_subnet", message=message, member="SubnetIds")


def update_openzfs(before: Json, after: Json) -> Iterator[Refusal]:
    """An OpenZFS file system grows by a tenth or more, and its throughput is one of its deployment type.

    Args:
        before: The file system, as CreateFileSystem has it.
        after: The same with what changes.
    """
    had, gets = before["StorageCapacity"], after["StorageCapacity"]
    if gets != had and gets < had * OPENZFS_GROWS_BY:
        message = f"StorageCapacity of OpenZFS grows by a tenth or more: {had} GiB is there, got {gets}"
        yield Refusal(rule="only_grows", message=message, member="StorageCapacity")
    yield from _create_openzfs(after)


def capacity(gib: int | None, *, deployment: str, efa_throughput: int | None = None) -> Iterator[Refusal]:
    """1200 or a multiple of 2400 GiB on SSD, except SCRATCH_1 (multiples of 3600) and EFA-enabled ones (`EFA_STEP`).

    Args:
        gib: Size.
        deployment: Deployment type.
        efa_throughput: MB/s per TiB where EFA is enabled.
    """
    if gib is None:
        yield Refusal(rule="capacity", message="StorageCapacity is needed", member="StorageCapacity")
        return
    if efa_throughput in EFA_STEP:
        step = EFA_STEP[efa_throughput]
        if gib <= 0 or gib % step:
            message = f"StorageCapacity with EFA at {efa_throughput} MB/s per TiB steps by {step} GiB, got {gib}"
            yield Refusal(rule="capacity", message=message, member="StorageCapacity")
        return
    step = 3600 if deployment == "SCRATCH_1" else 2400
    if gib != 1200 and (gib <= 0 or gib % step):
        message = f"StorageCapacity is 1200 or a multiple of {step} GiB, got {gib}"
        yield Refusal(rule="capacity", message=message, member="StorageCapacity")


def efa_interfaces(instance_type: str, *, efa: int) -> int:
    """EFA interfaces that the Lustre client of a node uses after AWS's set-up; 0 where it uses TCP only.

    Args:
        instance_type: SageMaker or EC2 name: `ml.p5.48xlarge`.
        efa: EFA interfaces of the type.
    """
    family = instance_type.removeprefix("ml.").partition(".")[0]
    return 0 if family in EFA_NOT_FOR_LUSTRE else min(efa, 8 if family in EFA_EIGHT else 2)


def update_file_system(before: int, after: int, *, deployment: str) -> Iterator[Refusal]:
    """A file system only grows."""
    if after < before:
        message = f"StorageCapacity can only grow: {before} GiB is there, got {after}"
        yield Refusal(rule="only_grows", message=message, member="StorageCapacity")
    yield from capacity(after, deployment=deployment)

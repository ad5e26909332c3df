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
    lustre = request.get("LustreConfiguration") or {}
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    allowed, throughput = PER_TIB.get(deployment), lustre.get("PerUnitStorageThroughput")
    if allowed and throughput not in allowed:
        message = f"PerUnitStorageThroughput of {deployment} is one of {list(allowed)}, got {throughput}"
        yield Refusal(rule="throughput", message=message, member="PerUnitStorageThroughput")
    if lustre.get("AutomaticBackupRetentionDays") and deployment.startswith("SCRATCH"):
        message = f"{deployment} takes no automatic backups"
        yield Refusal(rule="backups", message=message, member="AutomaticBackupRetentionDays")
    efa = bool(lustre.get("EfaEnabled"))
    if efa and deployment != "PERSISTENT_2":
        yield Refusal(rule="efa", message=f"EFA needs PERSISTENT_2, got {deployment}", member="EfaEnabled")
    if efa and not lustre.get("MetadataConfiguration"):
        yield Refusal(rule="efa", message="EFA needs a metadata configuration", member="EfaEnabled")
    yield from capacity(
        request.get("StorageCapacity"), deployment=deployment, efa_throughput=throughput if efa else None
    )
    if len(subnets := request.get("SubnetIds", [])) != 1:
        message = f"Lustre takes exactly one subnet, got {len(subnets)}"
        yield Refusal(rule="one_subnet", message=message, member="SubnetIds")


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

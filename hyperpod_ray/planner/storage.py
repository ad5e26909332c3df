"""A checkpoint on the file system: how long it takes to write and read, and what limits it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.planner import PlanError, data
from hyperpod_ray_rules import fsx

Limit = Literal["file system", "clients", "clients × servers"]


@dataclass(frozen=True, kw_only=True)
class SsdFileSystem:
    """What of a file system counts for checkpoints (FSx for Lustre, PERSISTENT_2 SSD)."""

    capacity_gib: int
    throughput_mbs_per_tib: int
    efa: bool = False

    @property
    def servers(self) -> int:
        """Servers behind it."""
        facts = data.storage()
        step = facts[f"server_gib_efa_{self.throughput_mbs_per_tib}"] if self.efa else facts["server_gib"]
        return max(1, round(self.capacity_gib / step.value))

    @property
    def name(self) -> str:
        """As `parse` takes it: `9600@1000`."""
        return f"{self.capacity_gib}@{self.throughput_mbs_per_tib}{'+efa' if self.efa else ''}"

    @property
    def words(self) -> str:
        """Size and rate in a sentence."""
        return f"{self.capacity_gib:,} GiB at {self.throughput_mbs_per_tib} MB/s per TiB" + (
            ", EFA" if self.efa else ""
        )

    @property
    def mbs(self) -> float:
        """MB/s of all clients together."""
        return self.capacity_gib / 1024 * self.throughput_mbs_per_tib


@dataclass(frozen=True, kw_only=True)
class ElasticFileSystem:
    """The same of FSx Intelligent-Tiering: it has a rate and no size.

    Writes go to the tier at that rate. So do reads of what neither memory nor the read cache holds, after tens of
    milliseconds. https://docs.aws.amazon.com/fsx/latest/LustreGuide/intelligent-tiering-file-systems.html
    """

    mbs: int
    """MB/s of all clients together."""
    efa: bool = False

    @property
    def servers(self) -> int:
        """Servers behind it."""
        return max(1, self.mbs // fsx.ELASTIC_STEP_MBS)

    @property
    def capacity_gib(self) -> int:
        """What its servers hold at most."""
        return self.servers * fsx.ELASTIC_SERVER_GIB

    @property
    def name(self) -> str:
        """As `parse` takes it: `elastic@4000`."""
        return f"elastic@{self.mbs}{'+efa' if self.efa else ''}"

    @property
    def words(self) -> str:
        """Its rate in a sentence."""
        return f"Intelligent-Tiering at {self.mbs:,} MB/s" + (", EFA" if self.efa else "")


FileSystem = SsdFileSystem | ElasticFileSystem


def of(plan: CommonPlan) -> FileSystem | None:
    """The file system that an environment creates; None where it exists, as the file has no rate of it."""
    if (ssd := plan.ssd_file_system) is not None:
        return SsdFileSystem(
            capacity_gib=ssd.capacity_gib, throughput_mbs_per_tib=ssd.throughput_mbs_per_tib, efa=plan.efa_storage
        )
    elastic = plan.elastic_file_system
    return ElasticFileSystem(mbs=elastic.throughput_mbs, efa=elastic.efa) if elastic is not None else None


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate with what limits it."""

    bytes_per_second: float
    limit: Limit


def rate(system: FileSystem, *, clients: int, network_gbps: float, efa_client: bool = True) -> Rate:
    """How fast so many clients write together, or read.

    Args:
        system: The file system.
        clients: Nodes that write at once; 1 where one rank writes all.
        network_gbps: Network of one node.
        efa_client: Whether Lustre can use EFA on the node; otherwise it reaches an EFA-enabled file system by TCP.
    """
    facts = data.storage()
    efa = system.efa and efa_client
    client_gbps = min(network_gbps, facts["client_gbps_efa" if efa else "client_gbps"].value)
    limits: dict[Limit, float] = {
        "file system": system.mbs * 1e6,
        "clients": clients * client_gbps / 8 * 1e9,
    }
    if not efa:
        limits["clients × servers"] = clients * system.servers * facts["pair_gbps"].value / 8 * 1e9
    name: Limit = min(limits, key=lambda key: limits[key])
    return Rate(bytes_per_second=limits[name], limit=name)


def parse(text: str) -> FileSystem:
    """A file system from `GIB@MBS`, or `elastic@MBS` of Intelligent-Tiering, with `+efa` where it is EFA-enabled.

    Raises:
        PlanError: it is written otherwise, or FSx has no such size.
    """
    if elastic := re.fullmatch(r"elastic@(\d{1,9})(\+efa)?", text, flags=re.ASCII):
        refusal = next(iter(fsx.throughput_capacity(int(elastic[1]))), None)
        if refusal:
            raise PlanError(
                f"--storage {text}: {refusal.message}",
                expected="a throughput of FSx Intelligent-Tiering",
                fix=f"write elastic@{fsx.ELASTIC_STEP_MBS}",
            )
        return ElasticFileSystem(mbs=int(elastic[1]), efa=bool(elastic[2]))
    match = re.fullmatch(r"(\d{1,9})@(125|250|500|1000)(\+efa)?", text, flags=re.ASCII)
    if match is None:
        raise PlanError(
            f"--storage: {text[:60]}",
            expected="GIB@MBS with 125, 250, 500 or 1000 MB/s per TiB, or elastic@MBS",
            fix="write 4800@500, or elastic@4000",
        )
    capacity, tier, efa = int(match[1]), int(match[2]), bool(match[3])
    refusal = next(iter(fsx.capacity(capacity, deployment="PERSISTENT_2", efa_throughput=tier if efa else None)), None)
    if refusal:
        raise PlanError(
            f"--storage {text}: {refusal.message}", expected="a size of FSx for Lustre", fix="choose such a size"
        )
    return SsdFileSystem(capacity_gib=capacity, throughput_mbs_per_tib=tier, efa=efa)

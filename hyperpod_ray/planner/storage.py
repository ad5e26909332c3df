"""A checkpoint on the file system: how long it takes to write and read, and what limits it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.planner import PlanError, data
from hyperpod_ray_rules import fsx

Limit = Literal["file system", "clients", "clients × servers"]


@dataclass(frozen=True, kw_only=True)
class FileSystem:
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
        "file system": system.capacity_gib / 1024 * system.throughput_mbs_per_tib * 1e6,
        "clients": clients * client_gbps / 8 * 1e9,
    }
    if not efa:
        limits["clients × servers"] = clients * system.servers * facts["pair_gbps"].value / 8 * 1e9
    name: Limit = min(limits, key=lambda key: limits[key])
    return Rate(bytes_per_second=limits[name], limit=name)


def parse(text: str) -> FileSystem:
    """A file system from `GIB@MBS`, with `+efa` where it is EFA-enabled.

    Raises:
        PlanError: it is written otherwise, or FSx has no such size.
    """
    match = re.fullmatch(r"(\d{1,9})@(125|250|500|1000)(\+efa)?", text, flags=re.ASCII)
    if match is None:
        raise PlanError(
            f"--storage: {text[:60]}", expected="GIB@MBS with 125, 250, 500 or 1000 MB/s per TiB", fix="write 4800@500"
        )
    capacity, tier, efa = int(match[1]), int(match[2]), bool(match[3])
    refusal = next(iter(fsx.capacity(capacity, deployment="PERSISTENT_2", efa_throughput=tier if efa else None)), None)
    if refusal:
        raise PlanError(
            f"--storage {text}: {refusal.message}", expected="a size of FSx for Lustre", fix="choose such a size"
        )
    return FileSystem(capacity_gib=capacity, throughput_mbs_per_tib=tier, efa=efa)

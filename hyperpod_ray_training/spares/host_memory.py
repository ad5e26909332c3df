"""Does what a run with spares keeps in memory fit? Computed before the first step, said once, and refused where not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.journal import log

_COPIES, _COPIES_WITH_REPLICAS = 4, 2
"""Two steps of this rank's and two of its neighbour's, the newer one on its way; only this rank's, with replicas."""
_CGROUP = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60


def memory_needed(
    state_bytes: int | None = None,
    *,
    parameters: float = 0,
    shards: int = 1,
    bytes_per_parameter: int = 12,
    ranks_per_node: int = 1,
    replicas: bool = False,
) -> int:
    """Bytes of host memory that a run with spares keeps on one node (one pod), beyond the training itself.

    Args:
        state_bytes: A rank's parameters, optimizer state and buffers; None computes it from the next three.
        parameters: Parameters of the model.
        shards: Ranks that share one copy of them: all with `fully_shard`, 1 with DDP.
        bytes_per_parameter: 12 (default) for AdamW in float32: the parameter and two moments.
        ranks_per_node: Ranks in one pod.
        replicas: Whether every rank's shard is also on another node (DDP, HSDP): then no copies of others are kept.
    """
    rank_bytes = round(parameters / shards * bytes_per_parameter) if state_bytes is None else state_bytes
    return rank_bytes * ranks_per_node * (_COPIES_WITH_REPLICAS if replicas else _COPIES)


def check(state_bytes: int, *, nodes: Sequence[str], rank: int, replicas: bool, held: int, tell: bool) -> None:
    """Say what is needed, and refuse what does not fit.

    Args:
        state_bytes: Of this rank.
        nodes: The node of each rank.
        rank: This rank.
        replicas: Whether no copies of others are kept.
        held: Bytes that this process keeps already.
        tell: Whether to say it.
    """
    ranks = list(nodes).count(nodes[rank])
    needed = memory_needed(state_bytes, ranks_per_node=ranks, replicas=replicas)
    limit, free = memory_free()
    text = (
        f"{gigabytes(needed)} on this node for {ranks} ranks ({gigabytes(state_bytes)} a copy, "
        f"{'replicas hold the rest' if replicas else 'a neighbour has one too'}), "
        f"{gigabytes(free)} free of {gigabytes(limit)}"
    )
    if needed > free + held * ranks:
        raise InputError(
            f"memory for spares: needs {text}",
            expected="enough that is free",
            fix=(
                "more memory for the pod, RESILIENCE_MEMORY_EVERY_STEPS=0 (no copies: a lost rank goes back to "
                "the checkpoint), or spares 0"
            ),
        )
    if tell:
        log(f"memory for spares: {text}")


def memory_free(root: Path = _CGROUP, meminfo: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """The limit of this container in bytes, and what is free of it; the machine's, where it has none."""
    lines = (line.split() for line in meminfo.read_text().splitlines())
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}
    limit, free = kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024
    for allowed, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most_bytes, used_bytes = ((root / name).read_text().strip() for name in (allowed, used))
            stat = dict(line.split() for line in (root / used).with_name("memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if most_bytes != "max" and int(most_bytes) < _NO_LIMIT:
            in_use = int(used_bytes) - int(stat.get(cache, 0))  # what was read from files gives way
            limit, free = min(limit, int(most_bytes)), min(free, int(most_bytes) - in_use)
    return limit, free


def gigabytes(count: float) -> str:
    """For people."""
    return f"{count / 1e9:.1f} GB"

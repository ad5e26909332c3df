"""What spares keep in memory is computed, said, and refused where it does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_training import InputError
from hyperpod_ray_training.spares import host_memory as room
from hyperpod_ray_training.spares import memory_needed

GB = 10**9


def test_copies_per_rank_and_node() -> None:
    assert memory_needed(GB) == 4 * GB
    assert memory_needed(GB, ranks_per_node=4) == 16 * GB
    assert memory_needed(GB, replicas=True) == 2 * GB
    assert memory_needed(parameters=7e9, shards=64, ranks_per_node=8) == 42 * GB


def container(tmp_path: Path, *, limit: str, used: int, cache: int) -> Path:
    for name, text in (
        ("memory.max", limit),
        ("memory.current", used),
        ("memory.stat", f"anon 5\ninactive_file {cache}"),
    ):
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 100000000 kB\nMemFree: 1 kB\nMemAvailable: 80000000 kB\n")
    return path


def test_the_containers_limit_counts_and_cached_files_give_way(tmp_path: Path, meminfo: Path) -> None:
    root = container(tmp_path, limit=str(50 * GB), used=30 * GB, cache=10 * GB)
    assert room.memory_free(root, meminfo) == (50 * GB, 30 * GB)


@pytest.mark.parametrize("limit", ["max", str(1 << 62)])
def test_without_a_limit_the_machine_counts(tmp_path: Path, meminfo: Path, limit: str) -> None:
    root = container(tmp_path, limit=limit, used=30 * GB, cache=0)
    assert room.memory_free(root, meminfo) == (102_400_000_000, 81_920_000_000)


def test_what_the_machine_has_free_counts_where_the_limit_is_above_it(tmp_path: Path, meminfo: Path) -> None:
    """A limit reserves nothing, and those of all containers may add up to more than there is.

    https://docs.kernel.org/admin-guide/cgroup-v2.html#limits
    """
    root = container(tmp_path, limit=str(90 * GB), used=GB, cache=0)
    assert room.memory_free(root, meminfo) == (90 * GB, 81_920_000_000)
    root = container(tmp_path, limit=str(900 * GB), used=GB, cache=0)
    assert room.memory_free(root, meminfo) == (102_400_000_000, 81_920_000_000)


def test_an_older_kernels_limit_counts(tmp_path: Path, meminfo: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(40 * GB))
    (folder / "memory.usage_in_bytes").write_text(str(9 * GB))
    (folder / "memory.stat").write_text(f"total_inactive_file {GB}\n")
    assert room.memory_free(tmp_path, meminfo) == (40 * GB, 32 * GB)


def test_what_does_not_fit_is_refused_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(room, "memory_free", lambda: (64 * GB, 60 * GB))
    given: dict[str, Any] = {"nodes": ["a", "a", "b"], "rank": 0, "tell": True}
    with pytest.raises(InputError, match=r"needs 64\.0 GB on this node for 2 ranks .* RESILIENCE_MEMORY_EVERY_STEPS=0"):
        room.check(8 * GB, replicas=False, held=0, **given)
    room.check(8 * GB, replicas=False, held=2 * GB, **given)  # a later generation has its buffers already
    room.check(12 * GB, replicas=True, held=0, **given)
    assert "memory for spares: 48.0 GB on this node" in capsys.readouterr().err

"""What the review says of a changed file system of FSx Intelligent-Tiering, and of another storage class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review import assembly
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.money import of_new
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.ops.money_helpers import DAY
from tests.review.small import resources, write

Json = dict[str, Any]
CACHE = {"SizingMode": "USER_PROVISIONED", "SizeGiB": 1000}
ELASTIC: Json = {
    "DeploymentType": "PERSISTENT_2",
    "ThroughputCapacity": 8000,
    "DataReadCacheConfiguration": CACHE,
    "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
}
SSD: Json = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250}


def file_system(lustre: Json, *, policy: str = "Delete", **properties: Any) -> Json:
    return {
        "Type": "AWS::FSx::FileSystem",
        "DeletionPolicy": policy,
        "UpdateReplacePolicy": policy,
        "Properties": {"FileSystemType": "LUSTRE", "LustreConfiguration": lustre, **properties},
    }


def elastic(policy: str = "Delete", **lustre: Any) -> Json:
    return file_system({**ELASTIC, **lustre}, policy=policy, StorageType="INTELLIGENT_TIERING")


def sized(policy: str = "Delete") -> Json:
    return file_system(SSD, policy=policy, StorageType="SSD", StorageCapacity=1200)


def compared(folder: Path, before: Json, after: Json) -> EnvironmentReview:
    sides = [
        write(folder / name, {"Storage": resources(FileSystem=side)})
        for name, side in (("before", before), ("after", after))
    ]
    (environment,) = review(*sides).environments
    return environment


@pytest.mark.parametrize(
    ("lustre", "effect", "code", "says"),
    [
        ({"ThroughputCapacity": 12000}, Effect.INTERRUPTS, "file-system-throughput", "8000 → 12000 MB/s"),
        ({"ThroughputCapacity": 4000}, Effect.REJECTED, "file-system-shrunk", "8000 → 4000 MB/s"),
        (
            {"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000}},
            Effect.INTERRUPTS,
            "file-system-throughput",
            "Iops 6000 → 12000",
        ),
        ({"DataReadCacheConfiguration": {"SizingMode": "NO_CACHE"}}, Effect.SAFE, "read-cache", "1000 GiB → 0 GiB"),
        (
            {"DataReadCacheConfiguration": {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}},
            Effect.SAFE,
            "read-cache",
            "1000 GiB → 40000 GiB, by the throughput",
        ),
        ({"DataReadCacheConfiguration": {**CACHE, "SizeGiB": 1050}}, Effect.REJECTED, "read-cache", "1000 GiB → 1050"),
    ],
)
def test_each_change_has_one_row(tmp_path: Path, lustre: Json, effect: Effect, code: str, says: str) -> None:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html and its neighbours."""
    (row,) = compared(tmp_path, elastic(), elastic(**lustre)).rows
    assert (row.effect, row.code) == (effect, code) and says in row.change


def test_a_cache_is_emptied_and_more_throughput_moves_data(tmp_path: Path) -> None:
    removed = compared(tmp_path / "a", elastic(), elastic(DataReadCacheConfiguration={"SizingMode": "NO_CACHE"}))
    assert "The cache goes: each read" in removed.rows[0].consequence
    larger = compared(tmp_path / "c", elastic(), elastic(DataReadCacheConfiguration={**CACHE, "SizeGiB": 2000}))
    assert "The cache is emptied" in larger.rows[0].consequence
    (row,) = compared(tmp_path / "b", elastic(), elastic(ThroughputCapacity=12000)).rows
    assert "move to the dearest one" in row.consequence and row.unavailable.startswith("/fsx")


@pytest.mark.parametrize("sides", [(sized, elastic), (elastic, sized)], ids=["to elastic", "to SSD"])
def test_another_storage_class_is_another_file_system(tmp_path: Path, sides: tuple[Any, Any]) -> None:
    before, after = sides
    (row,) = compared(tmp_path / "deleted", before(), after()).rows
    assert (row.effect, row.code) == (Effect.LOSES_DATA, "replaced") and "StorageType" in row.change
    (row,) = compared(tmp_path / "kept", before("Retain"), after("Retain")).rows
    assert row.code == "replaced" and "The old one stays in the account" in row.consequence


def test_metadata_of_ssd_is_not_judged_by_its_rules(tmp_path: Path) -> None:
    """SSD takes up to 192000 IOPS, and its mode may change."""
    before, after = (
        file_system({**SSD, "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": iops}}, StorageCapacity=1200)
        for iops in (12000, 24000)
    )
    (row,) = compared(tmp_path, before, after).rows
    assert (row.effect, row.code) == (Effect.INTERRUPTS, "file-system-throughput")


def test_its_price_is_unknown_and_never_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path, {"Storage": resources(FileSystem=elastic())})
    (row,) = of_new(assembly.read(folder)["env"], day=DAY).lines
    assert row.after_usd is None
    assert row.after == "Intelligent-Tiering, 8000 MB/s, read cache 1000 GiB, 6000 metadata IOPS, and what is stored"

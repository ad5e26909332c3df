"""The file system of home folders in what operations say: size and state, what is free, what is paid, what remains."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.loader import SlurmFile, parse_any
from hyperpod_ray.ops.change import inventory, teardown
from hyperpod_ray.ops.money.spend import spend
from hyperpod_ray.ops.observe import account, free_space
from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.reach.clients import SlurmTarget
from hyperpod_ray.ops.verdict.storage import free_space as space_findings
from hyperpod_ray.ops.verdict.storage import storage
from hyperpod_ray.pricing.prices import cost
from tests.ops.money_helpers import DAY, KNOWN
from tests.ops.ops_inventory_helpers import Aws
from tests.ops.ops_status_tables_helpers import shown
from tests.ops.snapshots import healthy
from tests.ops.test_ops_inventory import file_system, rows
from tests.ops.test_ops_status import line
from tests.ops.world import ROOT

LUSTRE = FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200)
HOMES = FileSystem(id="fs-2", lifecycle="AVAILABLE", capacity_gib=500, homes=True)


def target(homes: dict[str, Any] | None = None, **answers: Any) -> tuple[SlurmTarget, Aws]:
    data = yaml.safe_load((ROOT / "environments" / "examples" / "slurm-homes.yaml").read_text(encoding="utf-8"))
    data["homes"] = homes or {}
    file = parse_any(yaml.safe_dump(data), name="demo", path=Path("demo.yaml"))
    assert isinstance(file, SlurmFile)
    made, asked = SlurmTarget(file), Aws(**answers)
    made.aws = asked  # type: ignore[assignment]
    return made, asked


def both(**of_homes: Any) -> dict[str, Any]:
    lustre = file_system(1, FileSystemType="LUSTRE")
    return {"FileSystems": [lustre, file_system(2, FileSystemType="OPENZFS", **of_homes)]}


def test_each_file_system_is_what_the_service_says() -> None:
    made, _ = target(describe_file_systems=both())
    assert [(one.id, one.homes) for one in account.file_systems(made)] == [
        (f"fs-{1:017x}", False),
        (f"fs-{2:017x}", True),
    ]
    named, _ = target({"existing": {"file_system_id": f"fs-{2:017x}"}}, describe_file_systems=both(tags=None))
    assert [one.homes for one in account.file_systems(named)] == [False, True], "one that exists has no tag of ours"


def test_what_is_free_is_what_is_not_used() -> None:
    """FSx publishes free space of Lustre, and used space of OpenZFS."""
    gib = 1024**3
    asked: list[dict[str, Any]] = []

    def call(service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        asked.extend(arguments["MetricDataQueries"])
        results = [
            {"Id": query["Id"], "Timestamps": [datetime(2026, 11, 27, tzinfo=UTC)], "Values": [120 * gib]}
            for query in arguments["MetricDataQueries"]
        ]
        return {"MetricDataResults": results}

    here: Any = SimpleNamespace(aws=SimpleNamespace(call=call))
    lustre, homes = free_space.with_free_space(here, (LUSTRE, HOMES))
    assert (lustre.free_gib, homes.free_gib) == (120, 380)
    stats = [(query["MetricStat"]["Metric"]["MetricName"], query["MetricStat"]["Stat"]) for query in asked]
    assert stats == [("FreeDataStorageCapacity", "Sum"), ("UsedStorageCapacity", "Average")]


def test_full_home_folders_say_what_to_do() -> None:
    (finding,) = space_findings(replace(healthy(), file_systems=(LUSTRE, replace(HOMES, free_gib=20.0))))
    assert finding.subject == "fs-2"
    assert "raise homes.capacity_gib" in finding.next and "/homes" in finding.next
    assert "home folder" in finding.why


@pytest.mark.parametrize(
    ("modes", "systems", "gone"),
    [
        ({"homes_mode": "new"}, (LUSTRE,), ["the file system of home folders is gone"]),
        ({"homes_mode": "existing"}, (LUSTRE,), ["the file system of home folders is gone"]),
        ({"homes_mode": "new"}, (HOMES,), ["the shared file system is gone"]),
        ({"homes_mode": "new"}, (LUSTRE, HOMES), []),
        ({}, (LUSTRE,), []),
    ],
)
def test_one_that_is_gone_is_named(modes: dict[str, Any], systems: tuple[FileSystem, ...], gone: list[str]) -> None:
    snapshot = replace(healthy(), file_systems=systems, claims=(), **modes)
    assert [finding.what for finding in storage(snapshot)] == gone


def test_status_says_which_is_which() -> None:
    text = shown(replace(healthy(), file_systems=(LUSTRE, HOMES), homes_mode="existing"))
    assert line(text, "fs-1") == ["fs-1", "AVAILABLE", "1200", "the", "stack"]
    assert line(text, "fs-2") == ["fs-2", "(/homes)", "AVAILABLE", "500", "elsewhere"]


def test_they_are_not_paid_as_lustre(tmp_path: Path) -> None:
    made, _ = target({"capacity_gib": 500})
    began = datetime(2026, 11, 20, tzinfo=UTC)
    systems = tuple(replace(one, created=began) for one in (LUSTRE, HOMES))
    found = spend(made.plan, replace(healthy(), file_systems=systems), KNOWN)
    by_name = {item.name: item for item in found.items}
    assert by_name["fs-2"].usd is None and by_name["fs-2"].what == "500 GiB and 160 MB/s for home folders"
    assert by_name["fs-2"].hours > 0 and "fs-2" in found.unknown
    estimate = cost(made.plan, KNOWN, day=DAY)
    (homes,) = [row for row in estimate.lines if row.name == "home folders"]
    assert (homes.usd_per_hour, homes.what) == (None, "500 GiB and 160 MB/s, SINGLE_AZ_HA_2")


def test_a_teardown_keeps_them_unless_the_file_says_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    kept, _ = target(describe_file_systems=both())
    holdings = inventory.take(kept)
    assert ("file system", f"fs-{2:017x}", "kept") in rows(holdings)
    notes = {item.id: item.note for item in holdings.items}
    assert notes[f"fs-{2:017x}"].startswith("homes.on_destroy: retain")
    teardown.show(kept, holdings, stderr=False)
    assert "home folders are kept: homes.on_destroy is retain" in capsys.readouterr().err
    gone, _ = target({"on_destroy": "delete"}, describe_file_systems=both())
    holdings = inventory.take(gone)
    fates = {item.id: (item.fate, item.note) for item in holdings.items if item.kind == "file system"}
    assert fates[f"fs-{1:017x}"][0] == "kept", "storage has a setting of its own"
    assert fates[f"fs-{2:017x}"][0] == "destroyed" and "a last backup" in fates[f"fs-{2:017x}"][1]
    yours, _ = target({"existing": {"file_system_id": f"fs-{2:017x}"}}, describe_file_systems=both())
    notes = {item.id: item.note for item in inventory.take(yours).items}
    assert notes[f"fs-{2:017x}"] == "yours: not created by this environment"
